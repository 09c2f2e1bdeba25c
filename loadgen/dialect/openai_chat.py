"""OpenAI's chat completions as servers really send them: vLLM, SGLang, llama.cpp, LiteLLM, TGI, Azure, Mistral, OpenRouter.

Fields are picked by presence, never by position: ``choices`` may be empty (usage, Azure's prelude), ``usage`` may stand in
any chunk, ``finish_reason`` may share a chunk with the last text, ``delta`` may be missing, a ``null`` is no text.
"""

from dataclasses import dataclass
from random import Random
from typing import Any, Final

import msgspec

from loadgen.dialect.base import Events, HttpRequest
from loadgen.dialect.shared import ANSWER, NONE, SSE, OpenAiReader, build_post, text_keys
from loadgen.model import EventClass
from loadgen.workload.plan import RequestKind


class _Delta(msgspec.Struct):
    """Values are Any on purpose: a wrong type must not lose the event, it is looked at where it is used."""

    role: Any = None
    content: Any = None
    reasoning: Any = None
    reasoning_content: Any = None
    refusal: Any = None
    tool_calls: Any = None
    function_call: Any = None


class _Choice(msgspec.Struct):
    index: int = 0
    delta: _Delta | None = None
    finish_reason: Any = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None


_DECODE: Final = msgspec.json.Decoder(_Chunk).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAiChat:
    """Providers differ in what they take, not in how they are read: a row of the table of dialects each.

    ``ask_usage``: send ``stream_options.include_usage``, where usage does not come unasked.
    """

    name: str = "openai-chat"
    max_tokens_key: str = "max_tokens"
    ask_usage: bool = True
    content_type: str = SSE
    events: Events = "sse"
    text_keys: tuple[bytes, ...] = text_keys("content", "reasoning_content", "reasoning")

    def build_request(self, kind: RequestKind, rng: Random, model: str | None) -> HttpRequest:
        body: dict[str, Any] = {} if model is None else {"model": model}
        body |= {"messages": kind.prompt.pick(rng), "stream": True}
        if self.ask_usage:
            body["stream_options"] = {"include_usage": True}
        if kind.max_tokens is not None:
            body[self.max_tokens_key] = kind.max_tokens.pick(rng)
        return build_post(body, kind.body)

    def reader(self, choices: int = 1) -> "OpenAiChatReader":
        return OpenAiChatReader(choices)


class OpenAiChatReader(OpenAiReader):
    """Classifies the chunks of one answer. One msgspec decode an event (about 0.3 us), of the fields above only."""

    __slots__ = ()

    def __init__(self, choices: int = 1) -> None:
        super().__init__(_DECODE, choices)

    def _read_choices(self, choices: list[_Choice]) -> EventClass:
        classes = NONE
        for choice in choices:
            delta = choice.delta
            if delta is not None:
                got = _classify_delta(delta)
                if got is not NONE:
                    self._output(choice.index)
                    classes = got if classes is NONE else classes | got
                elif delta.content == "" and (delta.role is None or self._got_output) and choice.finish_reason is None:
                    classes |= EventClass.EMPTY
            if choice.finish_reason is not None:
                classes |= self._end_choice(choice.index, choice.finish_reason)
        return classes


def _classify_delta(delta: _Delta) -> EventClass:
    """Which kinds of output a delta carries; NONE for role-only and empty ones."""
    content = delta.content
    if content and isinstance(content, str):
        got = ANSWER
    elif content and isinstance(content, list):  # Mistral: typed parts
        got = _classify_parts(content)
    else:
        got = NONE
    if delta.reasoning or delta.reasoning_content:
        got |= EventClass.REASONING
    if delta.tool_calls or delta.function_call:
        got |= EventClass.TOOL
    if delta.refusal:
        got |= EventClass.ANSWER
    return got


def _classify_parts(parts: list[Any]) -> EventClass:
    got = NONE
    for part in parts:
        match part:
            case {"type": "text", "text": str(text)} if text:
                got |= EventClass.ANSWER
            case {"type": "thinking", "thinking": thinking} if thinking:
                got |= EventClass.REASONING
            case _:
                pass
    return got

"""OpenAI's text completions: a prompt instead of messages, ``text`` instead of deltas, no role chunk."""

from random import Random
from typing import Any, Final

import msgspec

from loadgen.dialect.base import Events, HttpRequest
from loadgen.dialect.shared import ANSWER, NONE, SSE, OpenAiReader, build_post, prompt_text, text_keys
from loadgen.model import EventClass
from loadgen.workload.plan import RequestKind


class _Choice(msgspec.Struct):
    index: int = 0
    text: Any = None
    finish_reason: Any = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None


_DECODE: Final = msgspec.json.Decoder(_Chunk).decode


class OpenAiCompletions:
    name = "openai-completions"
    content_type = SSE
    events: Events = "sse"
    text_keys: tuple[bytes, ...] = text_keys("text")

    def build_request(self, kind: RequestKind, rng: Random, model: str | None) -> HttpRequest:
        body: dict[str, Any] = {} if model is None else {"model": model}
        body |= {"prompt": prompt_text(kind.prompt.pick(rng)), "stream": True, "stream_options": {"include_usage": True}}
        if kind.max_tokens is not None:
            body["max_tokens"] = kind.max_tokens.pick(rng)
        return build_post(body, kind.body)

    def reader(self, choices: int = 1) -> "OpenAiCompletionsReader":
        return OpenAiCompletionsReader(choices)


class OpenAiCompletionsReader(OpenAiReader):
    __slots__ = ()

    def __init__(self, choices: int = 1) -> None:
        super().__init__(_DECODE, choices)

    def _read_choices(self, choices: list[_Choice]) -> EventClass:
        classes = NONE
        for choice in choices:
            text = choice.text
            if text and isinstance(text, str):
                self._output(choice.index)
                classes = ANSWER if classes is NONE else classes | ANSWER
            elif text == "" and choice.finish_reason is None:
                classes |= EventClass.EMPTY
            if choice.finish_reason is not None:
                classes |= self._end_choice(choice.index, choice.finish_reason)
        return classes

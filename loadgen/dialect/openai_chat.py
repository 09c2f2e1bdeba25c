"""OpenAI's chat completions as servers really send them: vLLM, SGLang, llama.cpp, LiteLLM, TGI, Azure, Mistral, OpenRouter.

Fields are picked by presence, never by position: ``choices`` may be empty (usage, Azure's prelude), ``usage`` may stand in
any chunk, ``finish_reason`` may share a chunk with the last text, ``delta`` may be missing, a ``null`` is no text.
"""

from random import Random
from typing import Any, Final

import msgspec

from loadgen.dialect.base import Events, HttpRequest
from loadgen.errors import shorten
from loadgen.model import EventClass, Usage
from loadgen.wire.sse import SseEvent
from loadgen.workload.plan import RequestKind

END_MARK: Final = "[DONE]"
# Finish reasons by which an engine says that it gave up: vLLM on shutdown, OpenRouter beside an error object.
FAILED_FINISH: Final = frozenset({"error", "abort"})

_PLAIN_ANSWER: Final = EventClass.ANSWER  # flag arithmetic is slow (400 ns); the usual event takes no part in it


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


class OpenAiChat:
    name = "openai-chat"
    content_type = "text/event-stream"
    events: Events = "sse"

    def build_request(self, kind: RequestKind, rng: Random, model: str | None) -> HttpRequest:
        """POST with ``stream`` and ``include_usage``; the workload's ``body`` is merged over it and has the last word."""
        body: dict[str, Any] = {} if model is None else {"model": model}
        body |= {
            "messages": kind.prompt.pick(rng),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if kind.max_tokens is not None:
            body["max_tokens"] = kind.max_tokens.pick(rng)
        body |= kind.body
        headers = (("Content-Type", "application/json"), ("Accept", "text/event-stream"))
        return HttpRequest(method="POST", headers=headers, body=msgspec.json.encode(body))

    def reader(self, choices: int = 1) -> "OpenAiChatReader":
        return OpenAiChatReader(choices)


class OpenAiChatReader:
    """Classifies the chunks of one answer. One msgspec decode an event (about 0.3 us), of the fields above only."""

    __slots__ = (
        "_choices", "_decode", "_finished", "_got_output", "_seen",
        "ended", "error", "finish_reason", "malformed", "usage",
    )  # fmt: skip

    def __init__(self, choices: int) -> None:
        self.usage: Usage | None = None
        self.finish_reason = ""
        self.error = ""
        self.malformed = False
        self.ended = False
        self._choices = choices
        self._seen: set[int] = set()
        self._finished: set[int] = set()
        self._got_output = False
        self._decode = _DECODE

    @property
    def finished(self) -> bool:
        return len(self._finished) >= self._choices and self._seen <= self._finished

    def missing(self) -> str:
        lacks = []
        if not self.finished:
            lacks.append(f"finish_reason for {max(self._choices, len(self._seen)) - len(self._finished)} choice(s)")
        if not self.ended:
            lacks.append(f"the end mark {END_MARK}")
        return " and ".join(lacks)

    def classify(self, event: SseEvent) -> EventClass:
        data = event.data
        try:
            chunk = self._decode(data)
        except (msgspec.DecodeError, UnicodeEncodeError) as error:  # UnicodeEncodeError: a lone surrogate
            return self._not_a_chunk(event, str(error))
        if chunk.error or event.type == "error":
            return self._provider_error(chunk.error or data)
        classes = self._from_choices(chunk.choices) if chunk.choices else EventClass.NONE
        if chunk.usage:
            self.usage = _parse_usage(chunk.usage)
            classes |= EventClass.USAGE
        if classes:
            return classes
        return EventClass.META if self._got_output else EventClass.PRELUDE

    def _from_choices(self, choices: list[_Choice]) -> EventClass:
        classes = EventClass.NONE
        for choice in choices:
            delta, index = choice.delta, choice.index
            if delta is not None:
                got = _classify_delta(delta)
                if got is not EventClass.NONE:
                    # Once a choice has shown output, it owes a finish; an empty usage-only choice owes nothing.
                    self._seen.add(index)
                    self._got_output = True
                    classes = got if classes is EventClass.NONE else classes | got
                elif delta.content == "" and (delta.role is None or self._got_output) and choice.finish_reason is None:
                    classes |= EventClass.EMPTY
            if choice.finish_reason is not None:
                self._seen.add(index)
                self._finished.add(index)
                self.finish_reason = str(choice.finish_reason)
                classes |= EventClass.FINISH
                if self.finish_reason in FAILED_FINISH:
                    classes |= self._provider_error(f"finish_reason {self.finish_reason!r}")
        return classes

    def _provider_error(self, error: Any) -> EventClass:
        if self.malformed or not self.error:
            self.error, self.malformed = _describe_error(error), False  # the provider's word outweighs a broken event
        return EventClass.ERROR

    def _not_a_chunk(self, event: SseEvent, why: str) -> EventClass:
        text = event.data.strip()
        if text == END_MARK:
            self.ended = True
            return EventClass.END
        if event.type == "error":
            return self._provider_error(text)
        if event.type == "ping":
            return EventClass.HEARTBEAT
        if event.type != "message":
            return EventClass.META  # named extensions, e.g. SGLang's sglext_ids
        if not self.error:
            self.error, self.malformed = f"expected a JSON object or {END_MARK}, got {shorten(text)} ({why})", True
        return EventClass.MALFORMED


_DECODE: Final = msgspec.json.Decoder(_Chunk).decode


def _classify_delta(delta: _Delta) -> EventClass:
    """Which kinds of output a delta carries; NONE for role-only and empty ones."""
    content = delta.content
    if content and isinstance(content, str):
        got = _PLAIN_ANSWER
    elif content and isinstance(content, list):  # Mistral: typed parts
        got = _classify_parts(content)
    else:
        got = EventClass.NONE
    if delta.reasoning or delta.reasoning_content:
        got |= EventClass.REASONING
    if delta.tool_calls or delta.function_call:
        got |= EventClass.TOOL
    if delta.refusal:
        got |= EventClass.ANSWER
    return got


def _classify_parts(parts: list[Any]) -> EventClass:
    got = EventClass.NONE
    for part in parts:
        match part:
            case {"type": "text", "text": str(text)} if text:
                got |= EventClass.ANSWER
            case {"type": "thinking", "thinking": thinking} if thinking:
                got |= EventClass.REASONING
            case _:
                pass
    return got


def _parse_usage(usage: Any) -> Usage | None:
    """Counts from a usage object; details of other shapes are left out, never an error."""
    if not isinstance(usage, dict):
        return None
    prompt_details = usage.get("prompt_tokens_details") or {}
    completion_details = usage.get("completion_tokens_details") or {}
    return Usage(
        prompt_tokens=_count(usage, "prompt_tokens"),
        completion_tokens=_count(usage, "completion_tokens"),
        cached_tokens=_count(prompt_details, "cached_tokens"),
        reasoning_tokens=_count(completion_details, "reasoning_tokens") or _count(usage, "reasoning_tokens"),
    )


def _count(counts: Any, key: str) -> int | None:
    value = counts.get(key) if isinstance(counts, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _describe_error(error: Any) -> str:
    """The provider's own words, shortened: message, and code or type where given."""
    if isinstance(error, dict):
        inner = error.get("error", error)
        if isinstance(inner, dict):
            kind = inner.get("code") or inner.get("type") or inner.get("http_status_code")
            text = str(inner.get("message") or inner)
            return shorten(text, 200) + (f" ({kind})" if kind else "")
        error = inner
    return shorten(str(error), 200)

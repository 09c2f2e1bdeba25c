"""What dialects share: requests as JSON, readers of JSON events, and the shapes in which servers tell counts and errors.

``JsonReader`` knows what every reader does about errors, odd events and the end; ``ChoicesReader`` counts which of several
choices have finished. A dialect's own reader decodes an event with one msgspec Struct of the fields it needs, and picks
them by presence, never by position.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

import msgspec

from loadgen.dialect.base import HttpRequest
from loadgen.errors import shorten
from loadgen.model import EventClass, Usage
from loadgen.wire.sse import SseEvent

SSE: Final = "text/event-stream"
NDJSON: Final = "application/x-ndjson"

# Flag arithmetic costs 400 ns, so the usual events take no part in it.
NONE: Final = EventClass.NONE
ANSWER: Final = EventClass.ANSWER
REASONING: Final = EventClass.REASONING
EMPTY: Final = EventClass.EMPTY
ANSWER_USAGE: Final = EventClass.ANSWER | EventClass.USAGE

# What a decoder raises on bad data. UnicodeEncodeError: a lone surrogate; RecursionError: a thousand brackets.
BAD_JSON: Final = (msgspec.DecodeError, UnicodeEncodeError, RecursionError)

# Finish reasons by which an engine says that it gave up: vLLM on shutdown, OpenRouter beside an error object.
FAILED_FINISH: Final = frozenset({"error", "abort"})


def text_keys(*names: str) -> tuple[bytes, ...]:
    """``Dialect.text_keys`` of JSON members of these names."""
    return tuple(msgspec.json.encode(name) + colon for name in names for colon in (b':"', b': "'))


# ---- requests


def build_post(body: Mapping[str, Any], over: Mapping[str, Any], *headers: tuple[str, str], accept: str = SSE) -> HttpRequest:
    """A POST of ``body`` with the workload's own ``over`` merged over it."""
    all_headers = (("Content-Type", "application/json"), ("Accept", accept), *headers)
    return HttpRequest(method="POST", headers=all_headers, body=msgspec.json.encode(merge(body, over)))


def merge(body: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``body`` with the values of ``over``, which have the last word: objects are merged, all else is replaced.

    So ``{options: {temperature: 0}}`` leaves the token limit alone that stands beside it in ``options``.
    """
    merged = dict(body)
    for key, value in over.items():
        mine = merged.get(key)
        merged[key] = merge(mine, value) if isinstance(mine, Mapping) and isinstance(value, Mapping) else value
    return merged


def prompt_text(messages: list[dict[str, Any]]) -> str:
    """The messages as one text, for APIs that take no messages: their texts, a blank line between two."""
    return "\n\n".join(text for message in messages if (text := message_text(message)))


def message_text(message: dict[str, Any]) -> str:
    """The text of a message, whose content is text or a list of typed parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return "" if content is None else str(content)


def split_system(messages: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """The system prompt, for APIs that take it apart, and the other messages."""
    is_system = [message.get("role") in {"system", "developer"} for message in messages]
    system = prompt_text([message for message, yes in zip(messages, is_system, strict=True) if yes])
    return system, [message for message, yes in zip(messages, is_system, strict=True) if not yes]


# ---- readers


class JsonReader:
    """The part of a Reader that does not depend on what the events look like.

    A subclass has ``classify`` and ``_read_usage``. ``_END_MARK`` is what must come before the end of the body, in words;
    "" where the end of the body is all there is.
    """

    _END_MARK: ClassVar[str] = ""

    __slots__ = ("_counts", "_decode", "_finished", "_got_output", "ended", "error", "finish_reason", "malformed")

    def __init__(self, decode: Callable[[str], Any]) -> None:
        self.finish_reason = ""
        self.error = ""
        self.malformed = False
        self.ended = False
        self._finished = False
        self._counts: Any = None  # the last usage as it came
        self._got_output = False
        self._decode = decode

    @property
    def usage(self) -> Usage | None:
        return None if self._counts is None else self._read_usage(self._counts)

    @property
    def finished(self) -> bool:
        return self._finished

    def missing(self) -> str:
        lacks = [] if self.finished else [self._lacking_finish()]
        if self._END_MARK and not self.ended:
            lacks.append(f"the end mark {self._END_MARK}")
        return " and ".join(lacks)

    @staticmethod
    def _read_usage(counts: Any) -> Usage | None:
        return read_openai_usage(counts)

    def _lacking_finish(self) -> str:
        return "a finish reason"

    def _no_output(self, event: SseEvent) -> EventClass:
        """What an event is that has no output, no finish and no usage."""
        if event.type == "ping":
            return EventClass.HEARTBEAT
        return EventClass.META if self._got_output else EventClass.PRELUDE

    def _provider_error(self, error: Any) -> EventClass:
        """The provider's word outweighs a broken event before it; of several the first one counts."""
        if self.malformed or not self.error:
            self.error, self.malformed = describe_error(error), False
        return EventClass.ERROR

    def _protocol_error(self, what: str) -> EventClass:
        if not self.error:
            self.error, self.malformed = what, True
        return EventClass.MALFORMED

    def _not_json(self, event: SseEvent, why: str, expected: str = "a JSON object") -> EventClass:
        """The classes of an event that is not the JSON object that it should be."""
        match event.type:
            case "error":
                return self._provider_error(event.data.strip())
            case "ping":
                return EventClass.HEARTBEAT
        return self._protocol_error(f"expected {expected}, got {shorten(event.data.strip())} ({why})")


class ChoicesReader(JsonReader):
    """For APIs with several choices: each one that was asked for, or that has shown output, owes a finish."""

    __slots__ = ("_choices", "_done", "_seen")

    def __init__(self, decode: Callable[[str], Any], choices: int) -> None:
        super().__init__(decode)
        self._choices = choices
        self._seen: set[int] = set()
        self._done: set[int] = set()

    @property
    def finished(self) -> bool:
        return len(self._done) >= self._choices and self._seen <= self._done

    def _lacking_finish(self) -> str:
        return f"finish_reason for {max(self._choices, len(self._seen)) - len(self._done)} choice(s)"

    def _finish(self, index: int, reason: str) -> None:
        self._seen.add(index)
        self._done.add(index)
        self.finish_reason = reason

    def _output(self, index: int) -> None:
        """Once a choice has shown output it owes a finish; an empty usage-only choice owes nothing."""
        self._seen.add(index)
        self._got_output = True


class OpenAiReader(ChoicesReader):
    """What OpenAI's chat and text completions have in common; a subclass reads the choices.

    The decoder's Struct has ``choices`` (or None), ``usage`` and ``error``.
    """

    _END_MARK = "[DONE]"

    __slots__ = ()

    def classify(self, event: SseEvent) -> EventClass:
        try:
            chunk = self._decode(event.data)
        except BAD_JSON as error:
            return self._not_a_chunk(event, str(error))
        if chunk.error or event.type == "error":
            return self._provider_error(chunk.error or event.data)
        classes = self._read_choices(chunk.choices) if chunk.choices else NONE
        usage = chunk.usage
        # Ollama's text completions carry a zeroed usage in every chunk; no answer has truly 0 tokens.
        if usage and not (isinstance(usage, dict) and usage.get("total_tokens") == 0):
            self._counts = usage
            classes = ANSWER_USAGE if classes is ANSWER else classes | EventClass.USAGE
        return self._no_output(event) if classes is NONE else classes

    def _read_choices(self, choices: list[Any]) -> EventClass:
        raise NotImplementedError

    def _end_choice(self, index: int, reason: Any) -> EventClass:
        self._finish(index, str(reason))
        if self.finish_reason in FAILED_FINISH:
            return EventClass.FINISH | self._provider_error(f"finish_reason {self.finish_reason!r}")
        return EventClass.FINISH

    def _not_a_chunk(self, event: SseEvent, why: str) -> EventClass:
        if event.data.strip() == self._END_MARK:
            self.ended = True
            return EventClass.END
        if event.type not in {"message", "error", "ping"}:
            return EventClass.META  # named extensions, e.g. SGLang's sglext_ids
        return self._not_json(event, why, f"a JSON object or {self._END_MARK}")


# ---- counts and errors


def read_count(counts: Any, *path: str) -> int | None:
    """The whole number, 0 or more, at ``path`` in nested objects; None when it is missing or something else."""
    for key in path:
        counts = counts.get(key) if isinstance(counts, dict) else None
    return counts if isinstance(counts, int) and not isinstance(counts, bool) and counts >= 0 else None


def add_counts(*counts: int | None) -> int | None:
    """Their sum, those that are None left out; None when all are."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def read_openai_usage(usage: Any) -> Usage | None:
    """OpenAI's ``usage``, of chat and completions (prompt, completion) or of responses (input, output)."""
    if not isinstance(usage, dict):
        return None
    prompt, completion = ("input", "output") if "output_tokens" in usage else ("prompt", "completion")
    reasoning = read_count(usage, f"{completion}_tokens_details", "reasoning_tokens")
    if reasoning is None:
        reasoning = read_count(usage, "reasoning_tokens")  # SGLang has it there
    return Usage(
        prompt_tokens=read_count(usage, f"{prompt}_tokens"),
        completion_tokens=read_count(usage, f"{completion}_tokens"),
        cached_tokens=read_count(usage, f"{prompt}_tokens_details", "cached_tokens"),
        reasoning_tokens=reasoning,
    )


def describe_error(error: Any) -> str:
    """The provider's own words, shortened: message, and code or type where given."""
    try:
        if isinstance(error, dict):
            inner = error.get("error", error)
            if isinstance(inner, dict):
                kind = inner.get("code") or inner.get("type") or inner.get("http_status_code")
                text = str(inner.get("message") or inner)
                return shorten(text, 200) + (f" ({kind})" if kind else "")
            error = inner
        return shorten(str(error), 200)
    except RecursionError:
        return "an error that is nested too deeply to be told"

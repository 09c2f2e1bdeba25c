"""Ollama's own API, /api/chat and /api/generate: one JSON object a line, the last one ``done`` with counts.

Counts of zero are left out, so a prompt that came wholly from the cache has no ``prompt_eval_count``.
"""

from dataclasses import dataclass
from random import Random
from typing import Any, Final

import msgspec

from loadgen.dialect.base import Events, HttpRequest
from loadgen.dialect.shared import (
    ANSWER,
    BAD_JSON,
    EMPTY,
    NDJSON,
    REASONING,
    JsonReader,
    build_post,
    prompt_text,
    read_count,
)  # fmt: skip
from loadgen.model import EventClass, Usage
from loadgen.wire.sse import SseEvent
from loadgen.workload.plan import RequestKind


class _Message(msgspec.Struct):
    content: Any = None
    thinking: Any = None
    tool_calls: Any = None


class _Line(msgspec.Struct):
    message: _Message | None = None  # of /api/chat
    response: Any = None  # of /api/generate, with `thinking` beside it
    thinking: Any = None
    done: Any = None
    done_reason: Any = None
    prompt_eval_count: Any = None
    eval_count: Any = None
    error: Any = None


_DECODE: Final = msgspec.json.Decoder(_Line).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class Ollama:
    """``chat``: send messages (/api/chat); else one prompt (/api/generate). Answers of both are read alike."""

    name: str = "ollama"
    chat: bool = True
    content_type: str = NDJSON
    events: Events = "ndjson"
    text_keys: tuple[bytes, ...] = ()  # more than the text differs from event to event

    def build_request(self, kind: RequestKind, rng: Random, model: str | None) -> HttpRequest:
        body: dict[str, Any] = {} if model is None else {"model": model}
        messages = kind.prompt.pick(rng)
        body |= {"messages": messages} if self.chat else {"prompt": prompt_text(messages)}
        body["stream"] = True
        if kind.max_tokens is not None:
            body["options"] = {"num_predict": kind.max_tokens.pick(rng)}
        return build_post(body, kind.body, accept=NDJSON)

    def reader(self, choices: int = 1) -> "OllamaReader":
        del choices  # this API has one
        return OllamaReader()


class OllamaReader(JsonReader):
    _END_MARK = "done: true"

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(_DECODE)

    def classify(self, event: SseEvent) -> EventClass:
        try:
            line: _Line = self._decode(event.data)
        except BAD_JSON as error:
            return self._not_json(event, str(error))
        if line.error:
            return self._provider_error(line.error)
        message = line.message
        if message is not None:
            classes = _classify(message.content, message.thinking, message.tool_calls)
        elif line.response is not None or line.thinking is not None or line.done:
            classes = _classify(line.response, line.thinking, None)
        else:
            return self._no_output(event)
        if classes is not EMPTY:
            self._got_output = True
        if line.done is not True:
            return classes
        self._finished = self.ended = True
        self.finish_reason = str(line.done_reason or "")
        end = EventClass.FINISH | EventClass.END
        if line.eval_count is not None or line.prompt_eval_count is not None:
            self._counts = {"prompt": line.prompt_eval_count, "completion": line.eval_count}
            end |= EventClass.USAGE
        return end if classes is EMPTY else end | classes

    @staticmethod
    def _read_usage(counts: Any) -> Usage:
        return Usage(prompt_tokens=read_count(counts, "prompt"), completion_tokens=read_count(counts, "completion"))


def _classify(text: Any, thinking: Any, tools: Any) -> EventClass:
    """EMPTY when there is no output at all."""
    if not thinking and not tools:
        return ANSWER if text and isinstance(text, str) else EMPTY
    classes = ANSWER if text else EventClass.NONE
    if thinking:
        classes = REASONING if classes is EventClass.NONE else classes | REASONING
    return classes | EventClass.TOOL if tools else classes

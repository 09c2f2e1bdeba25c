"""TGI's ``/generate_stream``: one event a token, the last one with the whole text and details; no end mark."""

from random import Random
from typing import Any, Final

import msgspec

from loadgen.dialect.base import Events, HttpRequest
from loadgen.dialect.shared import ANSWER, BAD_JSON, EMPTY, SSE, JsonReader, build_post, prompt_text
from loadgen.model import EventClass, Usage
from loadgen.wire.sse import SseEvent
from loadgen.workload.plan import RequestKind


class _Token(msgspec.Struct):
    text: Any = None
    special: Any = None


class _Details(msgspec.Struct):
    finish_reason: Any = None
    generated_tokens: int | None = None
    input_length: int | None = None


class _Event(msgspec.Struct):
    token: _Token | None = None
    generated_text: Any = None
    details: _Details | None = None
    error: Any = None
    error_type: Any = None


_DECODE: Final = msgspec.json.Decoder(_Event).decode


class Tgi:
    name = "tgi"
    content_type = SSE
    events: Events = "sse"
    text_keys: tuple[bytes, ...] = ()  # more than the text differs from event to event

    def build_request(self, kind: RequestKind, rng: Random, model: str | None) -> HttpRequest:
        del model  # a server has one
        parameters: dict[str, Any] = {"details": True}  # without it the last event has no counts
        if kind.max_tokens is not None:
            parameters["max_new_tokens"] = kind.max_tokens.pick(rng)
        return build_post({"inputs": prompt_text(kind.prompt.pick(rng)), "parameters": parameters}, kind.body)

    def reader(self, choices: int = 1) -> "TgiReader":
        del choices  # this API streams one
        return TgiReader()


class TgiReader(JsonReader):
    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(_DECODE)

    def classify(self, event: SseEvent) -> EventClass:
        try:
            said: _Event = self._decode(event.data)
        except BAD_JSON as error:
            return self._not_json(event, str(error))
        if said.error or event.type == "error":
            text = isinstance(said.error, str)
            return self._provider_error({"message": said.error, "type": said.error_type} if text else said.error or event.data)
        token, details = said.token, said.details
        if token is None:
            classes = EventClass.NONE
        elif token.text and token.special is not True:
            classes = ANSWER
            self._got_output = True
        else:
            classes = EMPTY
        if details is None and said.generated_text is None:
            return self._no_output(event) if token is None else classes
        self._finished = True
        if details is None:
            return classes | EventClass.FINISH
        self.finish_reason = str(details.finish_reason or "")
        self._counts = details
        return classes | EventClass.FINISH | EventClass.USAGE

    @staticmethod
    def _read_usage(counts: _Details) -> Usage:
        return Usage(prompt_tokens=counts.input_length, completion_tokens=counts.generated_tokens)

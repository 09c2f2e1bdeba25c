"""Plain SSE: every event counts as output, nothing is parsed. For origins that are no LLM, and for raw proxies' tests."""

from random import Random

import msgspec

from loadgen.dialect.base import Events, HttpRequest
from loadgen.errors import shorten
from loadgen.model import EventClass, Usage
from loadgen.wire.sse import SseEvent
from loadgen.workload.plan import RequestKind


class PlainSse:
    name = "plain-sse"
    content_type = "text/event-stream"
    events: Events = "sse"
    text_keys: tuple[bytes, ...] = ()

    def build_request(self, kind: RequestKind, rng: Random, model: str | None) -> HttpRequest:
        """GET; a POST with JSON once the workload gives a ``body``."""
        del rng, model  # nothing here is drawn or named
        accept = ("Accept", "text/event-stream")
        if not kind.body:
            return HttpRequest(method="GET", headers=(accept,), body=b"")
        headers = (("Content-Type", "application/json"), accept)
        return HttpRequest(method="POST", headers=headers, body=msgspec.json.encode(kind.body))

    def reader(self, choices: int = 1) -> "PlainSseReader":
        del choices
        return PlainSseReader()


class PlainSseReader:
    """Every event is an answer, but for ``event: error``, ``event: ping`` and a closing ``[DONE]``.

    The end of the body is the end of the stream: a cleanly framed end needs no mark. An empty stream is no success.
    """

    __slots__ = ("ended", "error", "finish_reason", "finished", "malformed", "usage")

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.finish_reason = ""
        self.error = ""
        self.malformed = False
        self.finished = False
        self.ended = False

    def classify(self, event: SseEvent) -> EventClass:
        match event.type:
            case "error":
                self.error = self.error or shorten(event.data, 200)
                return EventClass.ERROR
            case "ping":
                return EventClass.HEARTBEAT
        if event.data == "[DONE]":
            self.ended = True
            return EventClass.END
        self.finished = True
        return EventClass.ANSWER

    def missing(self) -> str:
        return "" if self.finished else "any event"

"""Streams of servers as test data, and events made by hand."""

import json
from pathlib import Path

from loadgen.dialect import Dialect, Reader
from loadgen.dialect.base import EVENT_PARSERS
from loadgen.model import EventClass
from loadgen.wire.sse import SseEvent, SseParser

DATA = Path(__file__).parent.parent / "data"


def stream_body(name: str) -> bytes:
    """The body of ``captures/x`` or ``documented/x``; some captures begin with the response's head."""
    raw = (DATA / f"{name}.txt").read_bytes()
    if not raw.startswith(b"HTTP/1.1 200"):
        return raw
    return raw.replace(b"\r\n", b"\n").partition(b"\n\n")[2]


def event(data: object, kind: str = "message") -> SseEvent:
    """An event as it comes out of the parser; ``data`` is JSON unless it is text."""
    text = data if isinstance(data, str) else json.dumps(data)
    (parsed,) = SseParser().feed(f"event: {kind}\ndata: {text}\n\n".encode())
    return parsed


def read(dialect: Dialect, *events: object, choices: int = 1) -> tuple[Reader, list[EventClass]]:
    """A reader that has seen the events, and the classes it found."""
    reader = dialect.reader(choices)
    return reader, [reader.classify(e if isinstance(e, SseEvent) else event(e)) for e in events]


def read_stream(dialect: Dialect, name: str) -> tuple[Reader, list[EventClass]]:
    return read(dialect, *EVENT_PARSERS[dialect.events]().feed(stream_body(name)))

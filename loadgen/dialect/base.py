"""What a dialect is: how to ask for a stream, and what each event of the answer means.

A ``Dialect`` is stateless and shared by all streams; ``reader()`` gives the per-stream part that sees every event in order
and classifies it. Readers are sans-IO and know no time.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final, Literal, Protocol

from loadgen.model import EventClass, Usage
from loadgen.wire.ndjson import NdjsonParser
from loadgen.wire.sse import SseEvent, SseParser
from loadgen.workload.plan import RequestKind


class EventParser(Protocol):
    """Bytes of a decoded body in, events out; ``partial``: bytes of an event that is not complete yet are held.

    ``at_rest``: between two events, and what comes next is read as it would be at any other such moment. ``skip``: so many
    bytes were whole events that somebody else recognised, only while ``at_rest``.
    """

    @property
    def partial(self) -> bool: ...

    @property
    def at_rest(self) -> bool: ...

    def skip(self, size: int) -> None: ...

    def feed(self, data: bytes | bytearray | memoryview) -> list[SseEvent]: ...


Events = Literal["sse", "ndjson"]
EVENT_PARSERS: Final[Mapping[Events, Callable[[], EventParser]]] = {"sse": SseParser, "ndjson": NdjsonParser}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """What a dialect wants sent, apart from host, path and the user's headers."""

    method: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Reader(Protocol):
    """Classifies the events of one stream. Attributes are valid at any time, also of a stream that broke off.

    ``error`` is the provider's own message once an event of class ERROR came, or what was malformed and how if
    ``malformed`` is True. ``finished`` is True when every choice
    seen has finished (and at least one has). ``ended`` is True once the dialect's end mark came.
    """

    finish_reason: str
    error: str
    malformed: bool
    ended: bool

    @property
    def usage(self) -> Usage | None:
        """What the server counted. Read once, at the end: it is made out of what came only then."""
        ...

    @property
    def finished(self) -> bool: ...

    def classify(self, event: SseEvent) -> EventClass:
        """The classes of ``event``. Never raises on bad data: that is EventClass.MALFORMED, with ``error`` set."""
        ...

    def missing(self) -> str:
        """What a cleanly ended stream still lacks to be a success, in words; "" when it lacks nothing."""
        ...


class Dialect(Protocol):
    """One API's way of asking for and sending token streams."""

    @property
    def name(self) -> str: ...

    @property
    def content_type(self) -> str:
        """What a streaming answer must declare."""
        ...

    @property
    def events(self) -> Events:
        """How its events are framed: a key of EVENT_PARSERS."""
        ...

    @property
    def text_keys(self) -> tuple[bytes, ...]:
        """Raw bytes that may stand right before the text of an output event, with the opening quote.

        Two events that differ only in that text (not empty, no escapes) have the same classes and leave the reader in the same
        state. () promises nothing.
        """
        ...

    def build_request(self, kind: RequestKind, rng: Random, model: str | None) -> HttpRequest: ...

    def reader(self, choices: int = 1) -> Reader: ...

"""One request and its answer, from body bytes to verdict: content encoding -> SSE or NDJSON -> dialect -> timeline.

Sans-IO, and the same for every HTTP version: a connection frames what arrives and tells the ``Exchange`` of the head, of body
bytes with their arrival, and of the end; the exchange tells its listener of life events, and in the end says how the stream
ended and why.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from loadgen.dialect.base import EVENT_PARSERS, Dialect, Reader
from loadgen.errors import WireError, shorten
from loadgen.model import EventClass, Outcome, StreamRecord
from loadgen.record.repeat import Repeat
from loadgen.record.timeline import BOUNDED, EXACT, USER, Timeline
from loadgen.wire.content import ContentDecoder, content_decoder
from loadgen.wire.sse import SseEvent

QUOTE_BYTES: Final = 4096  # so much of a body that is no event stream is kept, to be quoted
REJECTIONS: Final = frozenset({429, 503})

# Flag arithmetic on IntFlag costs 0.4 us; ints cost 0.03.
_ANSWER: Final = EventClass.ANSWER
_ANSWER_BIT: Final = int(EventClass.ANSWER)
_OUTPUT_BITS: Final = int(EventClass.OUTPUT)
_HEARTBEAT_BITS: Final = int(EventClass.HEARTBEAT)
_END_BITS: Final = int(EventClass.END)
_REPEATABLE: Final = frozenset({_ANSWER_BIT, int(EventClass.REASONING)})  # classes that events which differ in text share
MAX_MISSES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a connection sends: ``headers`` in order, without Host and whatever frames the body."""

    method: str
    scheme: str
    authority: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""


class LifeListener(Protocol):
    """Hears what the stream's task waits for. Called from inside ``feed``; must not block or raise."""

    def on_head(self) -> None: ...

    def on_first_token(self) -> None: ...

    def on_tokens(self) -> None:
        """As many output events have come as ``Exchange.tell_at`` says."""
        ...

    def on_end(self) -> None:
        """No more events will count: end mark, end of message, or failure."""
        ...

    def on_released(self) -> None:
        """The message is complete or broken: the connection owes this exchange nothing more."""
        ...


class Exchange:
    """One request's answer as it comes in. Attributes are readable at any time.

    ``ended``: no more events count. ``released``: the message is over as well, the connection owes it nothing more.
    ``repeat`` takes events that need no parsing, until the next call of anything else here; None: there is no such thing now.
    """

    __slots__ = (
        "_body_ns", "_broken", "_decoder", "_dialect", "_error", "_events", "_head_ns", "_header", "_learned_at",
        "_listener", "_misses", "_parser", "_quote", "_reader", "_reason", "_wire_bytes", "end_ns", "ended", "released",
        "repeat", "status", "tell_at", "timeline", "unprocessed",
    )  # fmt: skip

    def __init__(self, dialect: Dialect, reader: Reader, timeline: Timeline, listener: LifeListener) -> None:
        self.timeline = timeline
        self.status: int | None = None
        self.end_ns = 0
        self.ended = False
        self.released = False
        self.repeat: Repeat | None = None
        self.tell_at = 0  # output events after which the listener wants to hear; 0: it does not
        self.unprocessed = False  # the peer says that it has not begun to work on the request: it may be sent again
        self._dialect = dialect
        self._reader = reader
        self._listener = listener
        self._parser = EVENT_PARSERS[dialect.events]()
        self._wire_bytes = 0
        self._learned_at = 0  # events seen when it was learned
        self._misses = 0  # how often in a row nothing repeated
        self._decoder: ContentDecoder | None = None
        self._events = False  # the body is an event stream; else it is only kept to be quoted
        self._quote = bytearray()
        self._reason = ""
        self._header: Callable[[str], str | None] = lambda _: None
        self._head_ns: int | None = None
        self._body_ns: int | None = None
        self._error: WireError | None = None
        self._broken: tuple[Outcome, str] | None = None

    @property
    def bytes_in(self) -> int:
        """Bytes of the connection that were for this exchange."""
        return self._wire_bytes + (self.repeat.wire_bytes if self.repeat is not None else 0)

    @property
    def untouched(self) -> bool:
        """Not one byte of an answer has come."""
        return self.bytes_in == 0

    def response_header(self, name: str) -> str | None:
        """The first value of a response field by its name in lower case."""
        return self._header(name)

    # ---- what the connection tells

    def on_wire(self, size: int) -> None:
        """So many bytes came for this exchange, and are about to be framed."""
        self._end_repeat()
        self._wire_bytes += size

    def on_head(self, status: int, reason: str, header: Callable[[str], str | None], at_ns: int) -> None:
        """The final response head. ``header`` gives the first value of a field by its name in lower case.

        Raises WireError for a content encoding that nobody asked for.
        """
        self._head_ns = at_ns
        self.status, self._reason, self._header = status, reason, header
        content_type = (header("content-type") or "").partition(";")[0].strip().lower()
        self._events = 200 <= status < 300 and content_type in {"", self._dialect.content_type}
        self._decoder = content_decoder(header("content-encoding"))
        self._listener.on_head()

    def on_body(self, body: bytes, at_ns: int, since_ns: int, *, kernel: bool, newest: bool = True) -> None:
        """Body bytes, free of transfer coding, that arrived at ``at_ns`` at the latest and not before ``since_ns``.

        ``kernel``: the kernel stamped them. ``newest``: nothing came after them in their read, so that the stamp is theirs
        (HTTP/2 streams share their reads). Raises WireError when content coding or event framing is broken.
        """
        if not body:
            return
        if self._body_ns is None:
            self._body_ns = at_ns
        if self._decoder is not None:
            body = self._decoder.decode(body)
        if self.ended:
            return
        if not self.timeline.events:
            self._quote += body[: QUOTE_BYTES - len(self._quote)]
        if not self._events:
            return
        parser = self._parser
        whole = self._decoder is None and parser.at_rest
        events = parser.feed(body)
        if events:
            bits = self._on_events(events, at_ns, since_ns, kernel=kernel, newest=newest)
            if whole and bits in _REPEATABLE and len(events) == 1 and parser.at_rest:
                self._learn(body)

    def on_message_end(self, at_ns: int) -> None:
        """The message is complete. Raises WireError when its content coding is not."""
        if self._decoder is not None:
            self._decoder.close()
        self._end(at_ns)
        self._release()

    def fail(self, error: WireError, at_ns: int) -> None:
        """The message is broken, or cut (``premature_eof``)."""
        self._error = self._error or error
        self._end(at_ns)
        self._release()

    def lose(self, outcome: Outcome, detail: str, at_ns: int, *, unprocessed: bool = False) -> None:
        """The peer or the network took the connection or the stream away: reset, goaway."""
        if not self.released:
            self.unprocessed = unprocessed and not self.ended
            self._broken = self._broken or (outcome, detail)
            self._end(at_ns)
            self._release()

    def give_up(self, outcome: Outcome, detail: str, at_ns: int) -> None:
        """Leave: a timeout, an abort, the end of the run; not the peer. After the end mark it changes nothing."""
        if not self.ended:
            self._broken = (outcome, detail)
            self._end(at_ns)

    # ---- what it all means

    def verdict(self) -> tuple[Outcome, str]:
        """How the stream ended, and the reason in words. Ask once ``ended``; before, the answer is about an open stream."""
        status = self.status
        refused = status is not None and not 200 <= status < 300
        # A server that refuses and closes with request bytes unread sends RST behind its answer: the answer is the news.
        if self._broken is not None and not (refused and self._broken[0] is Outcome.RESET):
            return self._broken
        if status is None:
            return self._judge_error(self._error or WireError("premature_eof", "no response came"))
        if refused:
            outcome = Outcome.REJECTED if status in REJECTIONS else Outcome.HTTP_ERROR
            return outcome, self._describe_status(status)
        if not self._events:
            return self._not_an_event_stream()
        reader = self._reader
        if reader.error and not reader.malformed:
            return Outcome.PROVIDER_ERROR, reader.error
        if self._error is not None:
            return self._judge_error(self._error)
        if reader.error:
            return Outcome.PROTOCOL_ERROR, reader.error
        if not self.timeline.events and (found := _error_in_json(self._quote)):
            return Outcome.PROVIDER_ERROR, found
        if missing := reader.missing():
            return Outcome.TRUNCATED, f"the stream ended without {missing}"
        return Outcome.COMPLETED, ""

    def fill(self, record: StreamRecord) -> None:
        """Write stamps, counts and verdict into the record."""
        record.head_ns = self._head_ns
        record.first_byte_ns = self._body_ns
        record.status = self.status
        record.bytes_in = self.bytes_in
        record.usage = self._reader.usage
        record.finish_reason = self._reader.finish_reason
        record.left_open = self._broken is None and not self.released
        record.outcome, record.detail = self.verdict()
        self.timeline.fill(record)

    # ---- inside

    def _on_events(self, events: list[SseEvent], at_ns: int, since_ns: int, *, kernel: bool, newest: bool) -> int:
        """Classify and stamp; the EventClass bits of the last one."""
        bits = 0
        timeline, classify = self.timeline, self._reader.classify
        timeline.read(len(events), since_ns)
        last = events[-1] if newest and not self._parser.partial else None
        for event in events:
            quality = USER if not kernel else EXACT if event is last else BOUNDED
            classes = classify(event)
            if classes is _ANSWER:  # the usual event
                bits = _ANSWER_BIT
            else:
                bits = int(classes)
                if bits & _HEARTBEAT_BITS:
                    timeline.heartbeats += 1
                    continue
            if bits & _OUTPUT_BITS:
                first = timeline.first_token_ns is None
                if bits & _ANSWER_BIT and timeline.first_answer_ns is None:
                    timeline.first_answer_ns = at_ns
                timeline.output(at_ns, quality)
                if first:
                    self._listener.on_first_token()
                if self.tell_at == len(timeline.outputs):
                    self._listener.on_tokens()
            else:
                timeline.other(at_ns)
            if bits & _END_BITS:
                self._end(at_ns)
                break
        return bits

    def _learn(self, body: bytes) -> None:
        """``body`` was one whole event: the next ones may repeat it. A stream whose events never do is left alone soon."""
        seen = self.timeline.events
        self._misses = self._misses + 1 if seen == self._learned_at + 1 else 0
        self._learned_at = seen
        if self._misses < MAX_MISSES and self.tell_at <= len(self.timeline.outputs):
            self.repeat = self.timeline.repeats_of(body, self._dialect.text_keys)

    def _end_repeat(self) -> None:
        repeat, self.repeat = self.repeat, None
        if repeat is not None:
            self._parser.skip(repeat.body_bytes)
            self._wire_bytes += repeat.wire_bytes

    def _end(self, at_ns: int) -> None:
        if not self.ended:
            self.ended = True
            self.end_ns = at_ns
            self._end_repeat()
            self._listener.on_end()

    def _release(self) -> None:
        if not self.released:
            self.released = True
            self._listener.on_released()

    @staticmethod
    def _judge_error(error: WireError) -> tuple[Outcome, str]:
        cut = error.code in {"premature_eof", "truncated_encoding"}
        return (Outcome.TRUNCATED if cut else Outcome.PROTOCOL_ERROR), str(error)

    def _describe_status(self, status: int) -> str:
        header = self._header
        words = f"{status} {_printable(self._reason)}".strip()
        if retry_after := header("retry-after"):
            words += f" (Retry-After: {shorten(retry_after, 40)})"
        if location := header("location"):
            words += f" (Location: {shorten(location, 120)}; redirects are not followed)"
        if self._quote:
            words += f": {shorten(bytes(self._quote), 200)}"
        return words

    def _not_an_event_stream(self) -> tuple[Outcome, str]:
        if found := _error_in_json(self._quote):
            return Outcome.PROVIDER_ERROR, found
        got = self._header("content-type")
        begins = f"; the body begins {shorten(bytes(self._quote), 80)}" if self._quote else ""
        expected = self._dialect.content_type
        return Outcome.PROTOCOL_ERROR, f"expected content type {expected}, got {shorten(got or '')}{begins}"


def _printable(text: str) -> str:
    """A peer's text fit for the screen: control characters escaped, no more than a line of it."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[:80])


def _error_in_json(body: bytearray) -> str:
    """The message of an unframed ``{"error": ...}`` body; "" when the body is nothing like that."""
    if not body.lstrip().startswith(b"{"):
        return ""
    try:
        decoded = msgspec.json.decode(bytes(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    error = decoded.get("error") if isinstance(decoded, dict) else None
    return f"an error object instead of an event stream: {shorten(str(error), 200)}" if error else ""

"""One HTTP/2 connection (RFC 9113): many exchanges at a time, each told what the frames of its stream say.

h2 keeps the protocol's state; three things go past it:

- DATA of streams without a Content-Length, for its cost (see wire.http2_frames). h2 hears of their END_STREAM only; their
  flow control is kept here, and credit counts as given when it is written, as the peer cannot use it sooner.
- GOAWAY: h2 takes every stream for dead after it (python-hyper/h2#1181), the RFC lets those up to the last id finish.
- DATA of streams that were left: h2 answers each frame with another RST_STREAM; it only has to be credited.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple

import trio
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    InformationalResponseReceived,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
)  # fmt: skip
from h2.exceptions import ProtocolError, StreamClosedError
from h2.settings import SettingCodes, Settings

from loadgen.clock import NS_PER_S, Clock
from loadgen.errors import WireError, shorten
from loadgen.model import Outcome
from loadgen.transport.exchange import Exchange, Request
from loadgen.transport.http2_outbox import Outbox
from loadgen.transport.link import Link
from loadgen.wire import http2_frames as frames
from loadgen.wire.http2_frames import FrameCutter, build_end_of_stream, build_window_update, name_code, parse_goaway
from loadgen.workload.plan import Windows

MAX_HEADER_LIST_BYTES: Final = 64 << 10  # as of HTTP/1.1 (wire.http1_head)
MAX_STREAM_ID: Final = 0x7FFF_FFFF
FIRST_WINDOW: Final = 65_535  # of a connection, before any WINDOW_UPDATE (6.9.2)
# Frames that bring nothing (PING, SETTINGS, RST_STREAM, empty DATA, ...): so many at once, and so many a second. Servers
# ping once in some seconds; what floods send is a hundred thousand a second.
IDLE_FRAMES: Final = 10_000
IDLE_FRAMES_PER_S: Final = 1_000
# RFC 9113, 8.2.2: fields that belong to HTTP/1.1's connections.
_HOP_BY_HOP: Final = frozenset({"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "te", "host"})
_CALM: Final = ErrorCodes.ENHANCE_YOUR_CALM
_BODY_METHODS: Final = frozenset({"POST", "PUT", "PATCH"})


class _Read(NamedTuple):
    """When a read arrived; see ``ByteSink.feed``."""

    at_ns: int
    since_ns: int
    kernel: bool


class _Stream:
    """A stream of the connection, from its HEADERS until both sides are done with it."""

    __slots__ = ("direct", "exchange", "left", "number", "owed")

    def __init__(self, number: int, exchange: Exchange, window: int) -> None:
        self.number = number
        self.exchange = exchange
        self.direct = False  # its DATA goes past h2
        self.left = window  # bytes the peer may still send, by what was written
        self.owed = 0  # received and not credited yet


class Http2Connection:
    """The sink of a link. ``run`` must be running for anything to be sent.

    ``usable``: new exchanges may begin, up to ``limit`` at a time. ``settled`` is set once the peer's SETTINGS came (only
    then is ``limit`` known) or the connection is lost. ``on_change`` is called when either may have changed.
    """

    def __init__(
        self, link: Link, number: int, clock: Clock, windows: Windows, on_change: Callable[["Http2Connection"], None]
    ) -> None:
        self.number = number
        self.streams = 0  # exchanges carried so far
        self.limit = 0
        self.settled = trio.Event()
        self._link = link
        self._windows = windows
        self._on_change = on_change
        self._open = True
        self._broken = False
        self._goaway = ""  # in words, once one came
        self._cutter = FrameCutter()
        self._in_headers = False  # between HEADERS and its last CONTINUATION: nothing else may come, h2 sees to that
        self._streams: dict[int, _Stream] = {}
        self._numbers: dict[Exchange, int] = {}
        self._left = windows.connection
        self._owed = 0
        self._owing: dict[int, _Stream] = {}  # streams whose credit is due
        self._idle_frames = float(IDLE_FRAMES)
        self._idle_ns = clock.now_ns()
        self._h2 = _open_h2(windows)
        self._outbox = Outbox(self._h2, link, clock, self._take_credits, self._on_send_broken)
        self._clock = clock
        self.run = self._outbox.run
        link.attach(self)

    @property
    def usable(self) -> bool:
        return self._open and not self._goaway and self._next_number() <= MAX_STREAM_ID

    async def send(self, request: Request, exchange: Exchange) -> int | None:
        """Begin an exchange; returns when the last byte of the request was handed over (ns).

        None: the answer was over before, or the connection broke; the exchange knows which.
        """
        assert self.usable, "the connection is closed or closing"
        number = self._next_number()
        stream = _Stream(number, exchange, self._windows.stream)
        self._h2.send_headers(number, build_fields(request), end_stream=not request.body)
        self._streams[number] = stream
        self._numbers[exchange] = number
        self.streams += 1
        sending = self._outbox.queue(number, request.body)
        await sending.over.wait()
        return sending.at_ns

    def leave(self, exchange: Exchange) -> None:
        """Nobody waits for the rest: RST_STREAM CANCEL, unless the stream is over."""
        number = self._numbers.get(exchange)
        if number is not None:
            self._cancel(self._streams[number], ErrorCodes.CANCEL)

    def close(self) -> None:
        """At once, without a word; after an error of the peer once the GOAWAY that names it is out."""
        self._open = False
        if not self._broken:
            self._outbox.stop()
            self._link.close()
        self.settled.set()

    def reset_on_close(self) -> None:
        """The connection is others', too: leaving a stream is RST_STREAM anyway."""

    async def finish(self) -> None:
        """Say goodbye (GOAWAY) after what waits to be sent, RST_STREAM mostly, and close; takes a second at most."""
        if self._open:
            self._open = False
            self._h2.close_connection()
            self._outbox.finish()
        await self._outbox.over.wait()

    # ---- the link's sink

    def feed(self, data: bytes, at_ns: int, since_ns: int, *, kernel: bool) -> None:
        if not self._open:
            return
        cutter, streams = self._cutter, self._streams
        cut = cutter.feed(data)
        last = -1 if cutter.partial or cutter.broken else len(cut) - 1
        read = _Read(at_ns, since_ns, kernel)
        others = False
        for index, (kind, flags, number, frame) in enumerate(cut):
            if not kind and not flags & frames.PADDED and not self._in_headers:
                stream = streams.get(number)
                if stream is not None and stream.direct:
                    self._on_data(stream, frame, flags, read, newest=index == last)
                    continue
            others = True
            self._on_other(kind, flags, number, frame, read)
            if self._broken:
                return
        if cutter.broken is not None:
            self._break(cutter.broken, ErrorCodes.FRAME_SIZE_ERROR, at_ns)
        elif others:
            if self._outbox.overwhelmed:
                self._break(WireError("flood", "the peer asks for answers and does not read them"), _CALM, at_ns)
            self._outbox.wake()

    def eof(self, at_ns: int) -> None:
        if self._open:
            self._lose_all(None, "the connection was closed inside the answer", at_ns)

    def reset(self, detail: str, at_ns: int, *, outcome: Outcome = Outcome.RESET) -> None:
        if self._open:
            self._lose_all(outcome, detail, at_ns)

    # ---- DATA that goes past h2

    def _on_data(self, stream: _Stream, frame: bytes, flags: int, read: _Read, *, newest: bool) -> None:
        at_ns = read.at_ns
        size = len(frame) - frames.HEAD_BYTES
        windows = self._windows
        stream.left -= size
        self._left -= size
        if stream.left < 0 or self._left < 0:
            which = "stream" if stream.left < 0 else "connection"
            self._break(
                WireError("flow_control", f"the peer sent more than the window of the {which}"),
                ErrorCodes.FLOW_CONTROL_ERROR,
                at_ns,
            )
            return
        if not size and not self._spend_idle_frame(at_ns):
            return
        exchange = stream.exchange
        stream.owed += size
        self._owed += size
        if stream.owed * 2 >= windows.stream:
            self._owing[stream.number] = stream
            self._outbox.wake()
        elif self._owed * 2 >= windows.connection:
            self._outbox.wake()
        repeat = exchange.repeat
        if (
            repeat is not None
            and newest
            and read.kernel
            and not flags
            and repeat.take(frame, frames.HEAD_BYTES, len(frame), at_ns)
        ):
            return
        exchange.on_wire(len(frame))
        try:
            if size:
                exchange.on_body(frame[frames.HEAD_BYTES :], at_ns, read.since_ns, kernel=read.kernel, newest=newest)
            if flags & frames.END_STREAM:
                self._handle(self._h2.receive_data(build_end_of_stream(stream.number)), read)
        except WireError as error:
            self._fail(stream, error, at_ns)

    def _take_credits(self) -> bytes:
        """WINDOW_UPDATE frames that are due, which are about to be written."""
        out = b""
        if self._owed * 2 >= self._windows.connection:
            out += build_window_update(0, self._owed)
            self._left += self._owed
            self._owed = 0
        if self._owing:
            for stream in self._owing.values():
                out += build_window_update(stream.number, stream.owed)
                stream.left += stream.owed
                stream.owed = 0
            self._owing.clear()
        return out

    # ---- all other frames

    def _on_other(self, kind: int, flags: int, number: int, frame: bytes, read: _Read) -> None:
        at_ns = read.at_ns
        stream = self._streams.get(number)
        match kind:
            case frames.HEADERS | frames.DATA:
                brings = stream is not None and len(frame) > frames.HEAD_BYTES
            case frames.WINDOW_UPDATE:
                brings = self._outbox.has_bodies
            case _:
                brings = False
        if not brings and not self._spend_idle_frame(at_ns):
            return
        if kind in {frames.HEADERS, frames.PUSH_PROMISE, frames.CONTINUATION}:
            self._in_headers = not flags & frames.END_HEADERS
        if stream is not None:
            stream.exchange.on_wire(len(frame))
        elif kind == frames.DATA and number & 1 and number < self._next_number() and not self._in_headers:
            self._credit_late_data(len(frame) - frames.HEAD_BYTES, at_ns)
            return
        try:
            if kind == frames.GOAWAY and not self._in_headers:
                self._on_goaway(parse_goaway(frame, number), at_ns)
            else:
                self._handle(self._h2.receive_data(frame), read)
        except StreamClosedError:
            self._break(WireError("http2", "STREAM_CLOSED: a frame on a stream that had ended"), None, at_ns)
        except ProtocolError as error:
            words = shorten(str(error) or type(error).__name__, 120)
            self._break(WireError("http2", f"{name_code(error.error_code)}: {words}"), None, at_ns)
        except WireError as error:
            self._break(error, ErrorCodes.FRAME_SIZE_ERROR, at_ns)

    def _credit_late_data(self, size: int, at_ns: int) -> None:
        """DATA of a stream that was left: on its way when RST_STREAM was (5.1)."""
        self._left -= size
        self._owed += size
        if self._left < 0:
            error = WireError("flow_control", "the peer sent more than the window of the connection")
            self._break(error, ErrorCodes.FLOW_CONTROL_ERROR, at_ns)

    def _handle(self, events: list[Event], read: _Read) -> None:
        at_ns = read.at_ns
        for event in events:
            match event:
                case RemoteSettingsChanged():
                    self.limit = min(self._h2.remote_settings.max_concurrent_streams, MAX_STREAM_ID)
                    self.settled.set()
                    self._on_change(self)
                    continue
                case InformationalResponseReceived() if not self._spend_idle_frame(at_ns):
                    return
            number: int | None = getattr(event, "stream_id", None)
            stream = self._streams.get(number or 0)
            if stream is None:
                continue
            try:
                self._on_stream_event(stream, event, read)
            except WireError as error:
                self._fail(stream, error, at_ns)

    def _on_stream_event(self, stream: _Stream, event: Event, read: _Read) -> None:
        at_ns = read.at_ns
        exchange = stream.exchange
        match event:
            case ResponseReceived(headers=headers):
                status, fields = read_fields(headers or [])
                stream.direct = "content-length" not in fields
                exchange.on_head(status, "", fields.get, at_ns)
            case DataReceived(data=data, flow_controlled_length=length):
                self._h2.acknowledge_received_data(length or 0, stream.number)
                exchange.on_body(data or b"", at_ns, read.since_ns, kernel=read.kernel, newest=False)
            case StreamEnded():
                if self._outbox.sends(stream.number):
                    self._h2.reset_stream(stream.number, ErrorCodes.NO_ERROR)  # it has answered, and wants no more of it (8.1)
                self._forget(stream)
                exchange.on_message_end(at_ns)
            case StreamReset(error_code=code, remote_reset=remote):
                self._forget(stream)
                words = name_code(int(code or 0))
                if remote is False:
                    exchange.fail(WireError("http2", f"{words} on the stream: its window was exceeded"), at_ns)
                else:
                    refused = code == ErrorCodes.REFUSED_STREAM
                    exchange.lose(Outcome.RESET, f"RST_STREAM {words}", at_ns, unprocessed=refused)

    def _on_goaway(self, goaway: frames.GoAway, at_ns: int) -> None:
        """No new streams; those above the last id were not processed, the others may finish (6.8)."""
        self._goaway = goaway.described
        for stream in [s for s in self._streams.values() if s.number > goaway.last_stream]:
            self._forget(stream)
            stream.exchange.lose(Outcome.GOAWAY, self._goaway, at_ns, unprocessed=True)
        self._on_change(self)

    def _spend_idle_frame(self, at_ns: int) -> bool:
        """False: there were too many, and the connection is over."""
        filled = self._idle_frames + (at_ns - self._idle_ns) * IDLE_FRAMES_PER_S / NS_PER_S
        self._idle_ns = max(at_ns, self._idle_ns)
        self._idle_frames = min(filled, IDLE_FRAMES) - 1
        if self._idle_frames < 0:
            self._break(WireError("flood", f"more than {IDLE_FRAMES} frames that bring nothing"), _CALM, at_ns)
            return False
        return True

    # ---- ends

    def _cancel(self, stream: _Stream, code: ErrorCodes) -> None:
        self._forget(stream)
        if self._open:
            with suppress(StreamClosedError):  # over on both sides already
                self._h2.reset_stream(stream.number, code)
            self._outbox.wake()

    def _fail(self, stream: _Stream, error: WireError, at_ns: int) -> None:
        """The stream is malformed; the connection is not."""
        if stream.number in self._streams:
            self._cancel(stream, ErrorCodes.PROTOCOL_ERROR)
        stream.exchange.fail(error, at_ns)

    def _forget(self, stream: _Stream) -> None:
        number = stream.number
        del self._streams[number], self._numbers[stream.exchange]
        self._owing.pop(number, None)
        self._outbox.drop(number)

    def _break(self, error: WireError, code: int | None, at_ns: int) -> None:
        """The peer broke the protocol: GOAWAY (None: h2 has written it), and every stream fails for this reason."""
        self._open, self._broken = False, True
        if code is not None:
            self._h2.close_connection(code)
        self._outbox.finish()
        self._end(lambda exchange: exchange.fail(error, at_ns))

    def _lose_all(self, outcome: Outcome | None, detail: str, at_ns: int) -> None:
        """The connection is gone. ``outcome`` None: it was closed in order, but inside answers."""
        self._open = False
        self._outbox.stop()
        if self._goaway:
            words = f"{detail} after {self._goaway}"
            self._end(lambda exchange: exchange.lose(Outcome.GOAWAY, words, at_ns))
        elif outcome is None:
            self._end(lambda exchange: exchange.fail(WireError("premature_eof", detail), at_ns))
        else:
            self._end(lambda exchange: exchange.lose(outcome, detail, at_ns))

    def _end(self, tell: Callable[[Exchange], None]) -> None:
        streams = list(self._streams.values())
        self._streams.clear()
        self._numbers.clear()
        self._owing.clear()
        for stream in streams:
            tell(stream.exchange)
        self.settled.set()
        self._on_change(self)

    def _on_send_broken(self, detail: str) -> None:
        if self._open:
            self._lose_all(Outcome.RESET, f"while sending: {detail}", self._clock.now_ns())

    def _next_number(self) -> int:
        return 2 * self.streams + 1


def _open_h2(windows: Windows) -> H2Connection:
    """An h2 connection whose preface, SETTINGS and first WINDOW_UPDATE wait to be sent."""
    # Names and values are taken as they come, except for what HTTP/2 itself needs; see read_fields.
    h2 = H2Connection(H2Configuration(client_side=True, header_encoding=None, validate_inbound_headers=False))
    h2.local_settings = Settings(
        client=True,
        initial_values={
            SettingCodes.ENABLE_PUSH: 0,
            SettingCodes.INITIAL_WINDOW_SIZE: windows.stream,
            SettingCodes.MAX_HEADER_LIST_SIZE: MAX_HEADER_LIST_BYTES,
        },
    )
    h2.initiate_connection()
    if windows.connection > FIRST_WINDOW:
        h2.increment_flow_control_window(windows.connection - FIRST_WINDOW)
    return h2


def build_fields(request: Request) -> list[tuple[str, str]]:
    """The field section of a request (RFC 9113, 8.3.1): a Host that the user gave becomes :authority."""
    authority = next((value for name, value in request.headers if name.lower() == "host"), request.authority)
    fields = [(":method", request.method), (":scheme", request.scheme), (":authority", authority), (":path", request.path)]
    fields += [(name.lower(), value) for name, value in request.headers if name.lower() not in _HOP_BY_HOP]
    if request.body or request.method in _BODY_METHODS:
        fields.append(("content-length", str(len(request.body))))
    return fields


def read_fields(headers: Any) -> tuple[int, dict[str, str]]:
    """Status and fields of a response, first values only. Raises WireError without a status that is one."""
    fields: dict[str, str] = {}
    for name, value in headers:
        fields.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
    status = fields.get(":status", "")
    if not (len(status) == 3 and status.isascii() and status.isdigit() and status >= "100"):
        raise WireError("bad_status", f"expected a :status of three digits, got {shorten(status)}")
    return int(status), fields

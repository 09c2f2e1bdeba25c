"""HTTP/2 as a server, in cleartext with prior knowledge or over whatever stream it is given: h2 keeps the protocol.

Each request gets a framing that makes frames where HTTP/1 makes chunks, and an outlet that writes to the shared connection,
so that the rest of the server answers both alike. Faults that cut an HTTP/1 connection reset the stream here.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qs, urlsplit

import trio
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import ConnectionTerminated, DataReceived, RequestReceived, StreamEnded, StreamReset, WindowUpdated
from h2.exceptions import ProtocolError, StreamClosedError
from h2.settings import SettingCodes, Settings

from loadgen.sim.http import MAX_BODY_BYTES, READ_BYTES, Framing, Request
from loadgen.sim.outlet import Outlet

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
# With less of the peer's window left the engine holds its tokens back, as behind a slow reader.
MIN_WINDOW_BYTES: Final = 4096

Answer = Callable[["Http2Stream", "StreamOutlet", Request], Awaitable[bool]]


@dataclass(eq=False, slots=True)
class Http2Stream:
    """One request and what is still to be sent of its answer. ``left`` is set when the client has gone from it."""

    number: int
    headers: dict[str, str]
    body: bytearray = field(default_factory=bytearray)
    pending: bytearray = field(default_factory=bytearray)  # beyond the peer's window
    ends: bool = False  # after what is pending
    left: trio.Event = field(default_factory=trio.Event)

    async def wait_for_disconnect(self) -> None:
        await self.left.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFraming(Framing):
    """``Framing`` of one stream: the same calls, frames out."""

    peer: "Http2Server"
    stream: Http2Stream

    def head(self, status: int, *headers: str) -> bytes:
        fields = [tuple(line.split(": ", 1)) for line in ("Server: loadgen-sim", *headers)]
        return self.peer.send_head(self.stream, status, [(name.lower(), value) for name, value in fields])

    def stream_head(self, content_type: str = "text/event-stream; charset=utf-8") -> bytes:
        return self.head(200, f"Content-Type: {content_type}", "Cache-Control: no-cache")

    def message(self, status: int, body: bytes, content_type: str = "application/json", *headers: str) -> bytes:
        head = self.head(status, f"Content-Type: {content_type}", f"Content-Length: {len(body)}", *headers)
        return head + self.peer.send_data(self.stream, body, end=True)

    def frame(self, data: bytes) -> bytes:
        return self.peer.send_data(self.stream, data)

    def broken(self, data: bytes) -> bytes:
        return self.frame(data)  # the reset follows when the answer is given up

    @property
    def last(self) -> bytes:
        return self.peer.send_data(self.stream, b"", end=True)


class StreamOutlet:
    """What the delivery knows of a connection, for one stream of it."""

    def __init__(self, peer: "Http2Server", stream: Http2Stream) -> None:
        self._peer = peer
        self._stream = stream

    @property
    def full(self) -> bool:
        return self._peer.outlet.full or self._peer.room(self._stream) < MIN_WINDOW_BYTES

    def write(self, data: bytes) -> None:
        self._peer.outlet.write(data)

    def set_reset_on_close(self) -> None:
        """Nothing to prepare: a stream that is given up is reset anyway."""


class Http2Server:
    """One connection. ``run`` returns when it is over; ``answer`` is called for each request, in a task of its own."""

    def __init__(self, stream: trio.abc.Stream, outlet: Outlet, answer: Answer, *, max_streams: int) -> None:
        self.outlet = outlet
        self._stream = stream
        self._answer = answer
        self._streams: dict[int, Http2Stream] = {}
        self._h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        # Set before they are sent: an update would count from the client's acknowledgement only.
        self._h2.local_settings = Settings(client=False, initial_values={SettingCodes.MAX_CONCURRENT_STREAMS: max_streams})

    async def run(self, received: bytes) -> None:
        """``received``: what was read of the connection already, the preface at least."""
        self._h2.initiate_connection()
        async with trio.open_nursery() as nursery:
            try:
                while received:
                    for event in self._h2.receive_data(received):
                        self._handle(event, nursery)
                    self.outlet.write(self._h2.data_to_send())
                    received = bytes(await self._stream.receive_some(READ_BYTES))
            except ProtocolError:
                self.outlet.write(self._h2.data_to_send())  # the GOAWAY that says why
                await self.outlet.drain()
            except trio.BrokenResourceError:
                pass  # the client left
            finally:
                self._lose_all()
            nursery.cancel_scope.cancel()

    # ---- what the framings send

    def send_head(self, stream: Http2Stream, status: int, fields: list[tuple[str, str]]) -> bytes:
        if stream.number not in self._streams:
            return b""
        self._h2.send_headers(stream.number, [(":status", str(status)), *fields])
        return self._h2.data_to_send()

    def send_data(self, stream: Http2Stream, data: bytes, *, end: bool = False) -> bytes:
        """As much as the peer's window takes now; the rest follows when it opens."""
        if stream.number not in self._streams:
            return b""
        stream.pending += data
        stream.ends = stream.ends or end
        self._flush(stream)
        return self._h2.data_to_send()

    def room(self, stream: Http2Stream) -> int:
        """Bytes that can be sent on a stream now."""
        return self._h2.local_flow_control_window(stream.number) if stream.number in self._streams else MIN_WINDOW_BYTES

    # ---- inside

    def _handle(self, event: object, nursery: trio.Nursery) -> None:
        match event:
            case RequestReceived(stream_id=int(number), headers=headers):
                self._streams[number] = Http2Stream(number, {str(n): str(v) for n, v in headers or []})
            case DataReceived(stream_id=int(number), data=data, flow_controlled_length=length):
                self._h2.acknowledge_received_data(length or 0, number)
                if (stream := self._streams.get(number)) is not None:
                    stream.body += data or b""
                    if len(stream.body) > MAX_BODY_BYTES:
                        self._give_up(stream)
            case StreamEnded(stream_id=int(number)) if number in self._streams:
                nursery.start_soon(self._serve, self._streams[number])
            case StreamReset(stream_id=int(number)) if number in self._streams:
                self._streams.pop(number).left.set()
            case ConnectionTerminated():
                self._lose_all()  # h2 lets nothing be sent after it
            case WindowUpdated():
                for stream in list(self._streams.values()):
                    if stream.pending:
                        self._flush(stream)

    async def _serve(self, stream: Http2Stream) -> None:
        target = urlsplit(stream.headers.get(":path", "/"))
        request = Request(
            method=stream.headers.get(":method", "GET"),
            path=target.path,
            query=parse_qs(target.query),
            body=bytes(stream.body),
            framing=StreamFraming(chunked=False, close=False, peer=self, stream=stream),
        )
        if not await self._answer(stream, StreamOutlet(self, stream), request) or not stream.ends:
            self._give_up(stream)

    def _flush(self, stream: Http2Stream) -> None:
        h2, number = self._h2, stream.number
        while stream.pending:
            size = min(h2.local_flow_control_window(number), h2.max_outbound_frame_size, len(stream.pending))
            if size <= 0:
                return
            piece = bytes(stream.pending[:size])
            del stream.pending[:size]
            h2.send_data(number, piece, end_stream=stream.ends and not stream.pending)
            if stream.ends and not stream.pending:
                self._streams.pop(number, None)
                return
        if stream.ends:
            h2.end_stream(number)
            self._streams.pop(number, None)

    def _lose_all(self) -> None:
        """The client has gone: whatever is still made goes nowhere."""
        for stream in self._streams.values():
            stream.left.set()
        self._streams.clear()

    def _give_up(self, stream: Http2Stream) -> None:
        """The answer stays incomplete: RST_STREAM."""
        if self._streams.pop(stream.number, None) is not None:
            try:
                self._h2.reset_stream(stream.number, ErrorCodes.INTERNAL_ERROR)
            except StreamClosedError:
                return
            self.outlet.write(self._h2.data_to_send())

"""The server's end of one HTTP/2 connection, written by hand: well-behaved, hostile or mad, frame by frame."""

import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import hpack
import trio

from loadgen.wire import http2_frames as f
from tests.support.virtual import Handler

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MAX_CONCURRENT, INITIAL_WINDOW, MAX_FRAME = 0x3, 0x4, 0x5


@dataclass(frozen=True, slots=True)
class Got:
    """A frame of the client."""

    kind: int
    flags: int
    stream: int
    payload: bytes

    @property
    def code(self) -> int:
        """Of RST_STREAM; of GOAWAY it is the second word."""
        return int.from_bytes(self.payload[4:8] if self.kind == f.GOAWAY else self.payload[:4])


@dataclass(frozen=True, slots=True)
class Request:
    stream: int
    headers: dict[str, str]
    body: bytes = b""


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">IBI", len(payload) << 8 | kind, flags, stream) + payload


def settings(**values: int) -> bytes:
    ids = {"max_concurrent": MAX_CONCURRENT, "initial_window": INITIAL_WINDOW, "max_frame": MAX_FRAME}
    return frame(f.SETTINGS, 0, 0, b"".join(struct.pack(">HI", ids[name], value) for name, value in values.items()))


def data(stream: int, payload: bytes = b"", *, end: bool = False) -> bytes:
    return frame(f.DATA, f.END_STREAM if end else 0, stream, payload)


def rst(stream: int, code: int) -> bytes:
    return frame(f.RST_STREAM, 0, stream, struct.pack(">I", code))


def goaway(last: int, code: int = 0, debug: bytes = b"") -> bytes:
    return frame(f.GOAWAY, 0, 0, struct.pack(">II", last, code) + debug)


def window_update(stream: int, increment: int) -> bytes:
    return frame(f.WINDOW_UPDATE, 0, stream, struct.pack(">I", increment))


def ping(payload: bytes = b"12345678") -> bytes:
    return frame(f.PING, 0, 0, payload)


def token(content: str = "x", finish: str = "null") -> bytes:
    return b'data: {"choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":%s}]}\n\n' % (
        content.encode(), finish.encode(),
    )  # fmt: skip


END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


class Peer:
    """``got``: every frame of the client so far, in order."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.got: list[Got] = []
        self._seen = 0
        self._buffer = bytearray()
        self._encoder = hpack.Encoder()
        self._decoder = hpack.Decoder()
        self._requests: dict[int, Request] = {}

    async def open(self, **values: int) -> None:
        """Read the preface, send SETTINGS."""
        while len(self._buffer) < len(PREFACE):
            self._buffer += await self.stream.receive_some()
        assert self._buffer.startswith(PREFACE)
        del self._buffer[: len(PREFACE)]
        await self.send(settings(**values))

    async def send(self, *frames: bytes) -> None:
        """All of them in one write."""
        await self.stream.send_all(b"".join(frames))

    async def next(self, *kinds: int) -> Got:
        """The next frame of one of the kinds; others are kept in ``got`` and passed over. EndOfChannel: the client left."""
        while True:
            while self._seen < len(self.got):
                found = self.got[self._seen]
                self._seen += 1
                if found.kind in kinds:
                    return found
            await self._read()

    async def request(self) -> Request:
        """The next request, whole."""
        while True:
            found = await self.next(f.HEADERS, f.DATA)
            if found.kind == f.HEADERS:
                headers = {str(n): str(v) for n, v in self._decoder.decode(found.payload)}
                request = Request(found.stream, headers)
            else:
                before = self._requests[found.stream]
                request = Request(before.stream, before.headers, before.body + found.payload)
            self._requests[found.stream] = request
            if found.flags & f.END_STREAM:
                return request

    async def left(self) -> None:
        """Read until the client closes the connection."""
        try:
            while True:
                await self._read()
        except (trio.EndOfChannel, trio.BrokenResourceError):
            return

    def head(self, stream: int, status: int = 200, *, end: bool = False, **headers: str) -> bytes:
        fields = [(":status", str(status)), ("content-type", "text/event-stream")]
        fields += [(name.replace("_", "-"), value) for name, value in headers.items()]
        return frame(f.HEADERS, f.END_HEADERS | (f.END_STREAM if end else 0), stream, self.block(fields))

    def block(self, fields: list[tuple[str, str]]) -> bytes:
        return bytes(self._encoder.encode(fields))

    def answer(self, stream: int, tokens: int = 1) -> bytes:
        """A whole answer."""
        return self.head(stream) + data(stream, token() * tokens + END, end=True)

    async def _read(self) -> None:
        piece = await self.stream.receive_some()
        if not piece:
            raise trio.EndOfChannel
        self._buffer += piece
        while len(self._buffer) >= f.HEAD_BYTES:
            length = int.from_bytes(self._buffer[:3])
            if len(self._buffer) < f.HEAD_BYTES + length:
                return
            kind, flags, stream = struct.unpack(">BBI", self._buffer[3:9])
            self.got.append(Got(kind, flags, stream, bytes(self._buffer[9 : 9 + length])))
            del self._buffer[: 9 + length]


def h2_script(talk: Callable[[Peer], Awaitable[None]], peers: list[Peer] | None = None, **values: int) -> Handler:
    """A handler of connections that opens each as HTTP/2 and then lets ``talk`` speak; it closes when ``talk`` returns."""

    async def handle(stream: trio.abc.Stream) -> None:
        async with stream:
            peer = Peer(stream)
            if peers is not None:
                peers.append(peer)
            try:
                await peer.open(**values)
                await talk(peer)
            except* (trio.EndOfChannel, trio.BrokenResourceError):
                pass  # the client has left

    return handle


async def serve_all(peer: Peer, delay: float = 0.05) -> None:
    """Answer every request after a while, each by itself."""
    async with trio.open_nursery() as nursery:

        async def answer(request: Request) -> None:
            await trio.sleep(delay)
            await peer.send(peer.answer(request.stream))

        while True:
            nursery.start_soon(answer, await peer.request())

"""Byte pipes under a connection, seen alike whether they are sockets, memory streams, or TLS over either.

A ``Link`` sends with await and receives by pushing into a ``ByteSink``: the receive loop (sockets, kernel stamps) or a
reader task (anything else) calls it, never the stream's own task.
"""

import socket
import struct
from typing import Final, Protocol

import trio

from loadgen.clock import Clock
from loadgen.model import Outcome

# CPython has no name for it: asm-generic/socket.h, SO_TIMESTAMPNS_OLD (a struct timespec of two longs per read).
SO_TIMESTAMPNS: Final = 35
_LINGER_RST: Final = struct.pack("ii", 1, 0)


class ByteSink(Protocol):
    """Takes what arrives on one connection. Synchronous; must not raise on bad data."""

    def feed(self, data: bytes, at_ns: int, since_ns: int, *, kernel: bool) -> None:
        """``at_ns``: the arrival of the newest byte (kernel stamp if ``kernel``); nothing of it came before ``since_ns``."""
        ...

    def eof(self, at_ns: int) -> None: ...

    def reset(self, detail: str, at_ns: int, *, outcome: Outcome = Outcome.RESET) -> None:
        """The connection is gone; ``outcome``: what that is for a stream on it."""
        ...


class Link(Protocol):
    """A connected pipe. ``attach`` may be called once."""

    def attach(self, sink: ByteSink) -> None: ...

    async def send_all(self, data: bytes, clock: Clock) -> int:
        """Hand all bytes to the kernel; the time just before the last of them was handed over, in run-clock ns.

        Raises OSError or trio.BrokenResourceError when the peer is gone. Cancelled midway, the link is unusable.
        """
        ...

    def close(self) -> None:
        """Close at once: FIN. Never blocks, never raises, may be called twice."""
        ...

    def close_with_reset(self) -> None:
        """Close at once: RST where the transport knows it."""
        ...


class Receiver(Protocol):
    """Reads from sockets and pushes into sinks; see ``transport.receive``."""

    def attach(self, sock: socket.socket, sink: ByteSink) -> None: ...

    def detach(self, sock: socket.socket) -> None: ...


class SocketLink:
    """A non-blocking connected socket, read by a ``Receiver``."""

    __slots__ = ("_open", "_receiver", "_sock")

    def __init__(self, sock: socket.socket, receiver: Receiver) -> None:
        self._sock = sock
        self._receiver = receiver
        self._open = True

    def attach(self, sink: ByteSink) -> None:
        self._receiver.attach(self._sock, sink)

    async def send_all(self, data: bytes, clock: Clock) -> int:
        sock, rest = self._sock, memoryview(data)
        while True:
            at_ns = clock.now_ns()
            try:
                sent = sock.send(rest)
            except BlockingIOError:
                sent = 0
            rest = rest[sent:]
            if not rest:
                return at_ns
            await trio.lowlevel.wait_writable(sock)

    def close(self) -> None:
        if self._open:
            self._open = False
            self._receiver.detach(self._sock)
            trio.lowlevel.notify_closing(self._sock)
            self._sock.close()

    def close_with_reset(self) -> None:
        if self._open and self._sock.family != socket.AF_UNIX:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RST)
        self.close()


class StreamLink:
    """Any trio stream (memory streams in tests), read by a plain reader task. Stamps are the program's own."""

    def __init__(self, stream: trio.abc.Stream, nursery: trio.Nursery, clock: Clock) -> None:
        self._stream = stream
        self._nursery = nursery
        self._clock = clock
        self._scope = trio.CancelScope()

    def attach(self, sink: ByteSink) -> None:
        self._nursery.start_soon(self._read, sink)

    async def send_all(self, data: bytes, clock: Clock) -> int:
        at_ns = clock.now_ns()
        await self._stream.send_all(data)
        return at_ns

    def close(self) -> None:
        self._scope.cancel()

    def close_with_reset(self) -> None:
        self._scope.cancel()

    async def _read(self, sink: ByteSink) -> None:
        clock, since_ns = self._clock, self._clock.now_ns()
        try:
            with self._scope:
                while data := await self._stream.receive_some():
                    at_ns = clock.now_ns()
                    sink.feed(bytes(data), at_ns, since_ns, kernel=False)
                    since_ns = at_ns
                sink.eof(clock.now_ns())
                await trio.sleep_forever()  # stays open for sending until closed
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            sink.reset(str(error) or "the stream broke", clock.now_ns())
        finally:
            await trio.aclose_forcefully(self._stream)

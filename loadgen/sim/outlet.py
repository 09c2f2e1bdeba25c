"""Where the scheduler's tokens go: straight into the socket, or into a bounded backlog when the reader is slow."""

import os
import socket
import struct
from typing import Final

import trio

# About 1,000 events behind what the kernel buffers. A thousand clients that stopped reading hold 256 MiB.
MAX_BACKLOG_BYTES: Final = 256 << 10
_LINGER_RST: Final = struct.pack("ii", 1, 0)  # struct linger: on, 0 s: close() sends RST (socket(7))


class Outlet:
    """The sending side of one connection. ``write`` never blocks; ``run`` must be running to empty the backlog.

    Sockets are written to directly (5 us); a trio stream's own ``send_all`` costs a task switch, which 20,000 tokens a
    second on one core cannot pay. ``broken``: what is written goes nowhere any more.
    """

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._fd = stream.socket.fileno() if isinstance(stream, trio.SocketStream) else None
        self._backlog = bytearray()
        self._filled = trio.Event()
        self._emptied = trio.Event()
        self.broken = False

    @property
    def full(self) -> bool:
        """The reader is so far behind that the engine should hold its tokens back."""
        return len(self._backlog) >= MAX_BACKLOG_BYTES

    def write(self, data: bytes) -> None:
        """Send ``data`` now, or after what waits already."""
        if self.broken:
            return
        if self._fd is not None and not self._backlog:
            try:
                sent = os.write(self._fd, data)
            except BlockingIOError:
                sent = 0
            except OSError:  # ECONNRESET, EPIPE: the reading side of the connection learns of it, too
                self.broken = True
                return
            if sent == len(data):
                return
            data = data[sent:]
        self._backlog += data
        self._filled.set()

    async def drain(self) -> None:
        """Wait until everything written has been handed to the kernel, or to nobody."""
        while self._backlog and not self.broken:
            self._emptied = trio.Event()
            await self._emptied.wait()

    async def run(self) -> None:
        """Send the backlog as the reader takes it, until cancelled."""
        while True:
            await self._filled.wait()
            self._filled = trio.Event()
            while self._backlog:
                piece = bytes(self._backlog)
                try:
                    await self._stream.send_all(piece)
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    self.stop()
                else:
                    del self._backlog[: len(piece)]
            self._emptied.set()

    def stop(self) -> None:
        """Write nothing more. Must come before the stream is closed: its descriptor may be another's a moment later."""
        self.broken = True
        self._backlog.clear()

    def set_reset_on_close(self) -> None:
        """Closing the connection will send RST instead of FIN, where it is a socket."""
        if isinstance(self._stream, trio.SocketStream):
            self._stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RST)

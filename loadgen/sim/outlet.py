"""Where the scheduler's tokens go: straight into the socket, or into a bounded backlog when the reader is slow."""

import os
import socket
import struct
from typing import Final

import trio

MAX_BACKLOG_BYTES: Final = 4 << 20
_LINGER_RST: Final = struct.pack("ii", 1, 0)


class Outlet:
    """The sending side of one connection. ``write`` never blocks; ``run`` must be running to empty the backlog.

    Sockets are written to directly (5 us); a trio stream's own ``send_all`` costs a task switch, which 20,000 tokens a
    second on one core cannot pay. ``full``: the reader is so far behind that the engine should hold its tokens back.
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
        return len(self._backlog) > MAX_BACKLOG_BYTES

    def write(self, data: bytes) -> None:
        if self.broken:
            return
        if self._fd is not None and not self._backlog:
            try:
                sent = os.write(self._fd, data)
            except BlockingIOError:
                sent = 0
            except OSError:
                self.broken = True
                return
            if sent == len(data):
                return
            data = data[sent:]
        self._backlog += data
        self._filled.set()

    async def drain(self) -> None:
        """Wait until everything written has been handed to the kernel."""
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
                    self.broken = True
                    self._backlog.clear()
                    break
                del self._backlog[: len(piece)]
            self._emptied.set()

    def set_reset_on_close(self) -> None:
        """Closing the connection will send RST instead of FIN."""
        if isinstance(self._stream, trio.SocketStream):
            self._stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RST)

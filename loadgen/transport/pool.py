"""Where streams get their connections from: a fresh one each, or a pool of N on which streams queue.

The pool never opens more than N connections and hides nothing: the wait for a free one is the caller's to stamp.
"""

from collections import deque

import trio

from loadgen.transport.dial import Dialed, Dialer
from loadgen.transport.http1 import Http1Connection


class ConnectionPool:
    """``size`` None: a connection per stream, closed after it. A number: at most that many, kept alive and reused."""

    def __init__(self, dialer: Dialer, size: int | None) -> None:
        self.opened = 0
        self._dialer = dialer
        self._room = None if size is None else trio.Semaphore(size)  # FIFO: the first to wait is the first served
        self._idle: deque[Http1Connection] = deque()

    async def acquire(self) -> None:
        """Wait until a connection may be used or opened. Pair with ``release``."""
        if self._room is not None:
            await self._room.acquire()

    def take_idle(self) -> Http1Connection | None:
        """A kept-alive connection that is still fit for use, the most recently used first; None: dial."""
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
            connection.close()
        return None

    async def dial(self) -> tuple[Http1Connection, Dialed]:
        """A fresh connection. Raises ConnectError."""
        dialed = await self._dialer.dial()
        connection = Http1Connection(dialed.link, self.opened)
        self.opened += 1
        return connection, dialed

    def release(self, connection: Http1Connection | None) -> None:
        """Give back what ``acquire`` allowed, with the connection if there is one."""
        if connection is not None:
            if self._room is not None and connection.usable:
                self._idle.append(connection)
            else:
                connection.close()
        if self._room is not None:
            self._room.release()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

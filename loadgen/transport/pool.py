"""Where streams get their places from: on a fresh connection each, or on N connections, each with so many places.

One policy for every HTTP version: an HTTP/1.1 connection has one place, an HTTP/2 connection as many as the workload and the
peer's MAX_CONCURRENT_STREAMS allow. The pool hides nothing: what a stream waits for a place is its caller's to stamp.
"""

from typing import Final, Protocol

import trio

from loadgen.clock import Clock
from loadgen.errors import ConnectError
from loadgen.transport.dial import Dialed, Dialer
from loadgen.transport.exchange import Exchange, Request
from loadgen.transport.http1 import Http1Connection
from loadgen.transport.http2 import Http2Connection
from loadgen.workload.plan import WHOLE, Share, Transport

ALPN: Final = {"1.1": ("http/1.1",), "2": ("h2",)}


class Connection(Protocol):
    """What the pool and the streams know of a connection of any version.

    ``limit`` exchanges may be open at once (known once ``settled``); ``streams`` counts those it has carried.
    """

    number: int
    streams: int

    @property
    def limit(self) -> int: ...

    @property
    def settled(self) -> trio.Event: ...

    @property
    def usable(self) -> bool: ...

    async def send(self, request: Request, exchange: Exchange) -> int | None:
        """Raises OSError or trio.BrokenResourceError when the peer is gone; an answer may have come all the same."""
        ...

    def leave(self, exchange: Exchange) -> None: ...

    def reset_on_close(self) -> None: ...

    def close(self) -> None: ...

    async def finish(self) -> None: ...


class _Carrier:
    """One connection of the pool, from the wish for it to its end."""

    __slots__ = ("changed", "connection", "dialing", "failure", "users", "working")

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.failure: ConnectError | None = None
        self.dialing = False
        self.users = 0  # leases
        self.working = 0  # of them, those that have the connection
        self.changed = trio.Event()

    def tell(self) -> None:
        self.changed.set()
        self.changed = trio.Event()


class Lease:
    """A place. ``connection`` is set once ``ConnectionPool.connect`` returned."""

    __slots__ = ("_carrier", "connection")

    def __init__(self, carrier: _Carrier) -> None:
        self._carrier = carrier
        self.connection: Connection | None = None


class _Waiter:
    __slots__ = ("avoid", "carrier", "served")

    def __init__(self, avoid: Connection | None) -> None:
        self.avoid = avoid
        self.carrier: _Carrier | None = None
        self.served = trio.Event()


class ConnectionPool:
    """Places on connections, as the transport section says.

    ``connections``, a number: never more than so many, opened as long as all there are have work, then shared evenly. None
    and ``as_needed``: as many as the streams need, each filled before the next is opened. Else a fresh one each.
    ``nursery`` runs the connections' tasks.
    """

    def __init__(self, dialer: Dialer, transport: Transport, nursery: trio.Nursery, clock: Clock, share: Share = WHOLE) -> None:
        self.opened = 0
        self._share = share
        self._dialer = dialer
        self._transport = transport
        self._nursery = nursery
        self._clock = clock
        self._size = transport.connections
        self._places = transport.streams_per_connection
        self._fresh = transport.connections is None and not transport.as_needed
        self._carriers: dict[_Carrier, None] = {}  # those that may get (more) streams, in order of age
        self._by_connection: dict[Connection, _Carrier] = {}
        self._idle: dict[_Carrier, None] = {}  # of them, those without any; the most recently used last
        self._waiting: dict[_Waiter, None] = {}  # first come, first served

    async def acquire(self, *, avoid: Connection | None = None) -> Lease:
        """Wait for a place, on another connection than ``avoid`` if there can be one. Pair with ``release``."""
        carrier = None if self._waiting else self._find_place(avoid)
        if carrier is None:
            waiter = _Waiter(avoid)
            self._waiting[waiter] = None
            try:
                await waiter.served.wait()
            except trio.Cancelled:
                self._waiting.pop(waiter, None)
                if waiter.carrier is not None:
                    self._leave(waiter.carrier)
                raise
            carrier = waiter.carrier
            assert carrier is not None
        return Lease(carrier)

    async def connect(self, lease: Lease) -> Dialed | None:
        """Get the connection of a place: it is there, or is dialed now, here or by another stream that shares it.

        Sets ``lease.connection``, unless the connection has fewer places than was hoped: then release and acquire again.
        The result tells of the dialing if it was done for this stream. Raises ConnectError.
        """
        carrier = lease._carrier  # noqa: SLF001 - one file
        while True:
            connection = carrier.connection
            if carrier.failure is not None:
                raise carrier.failure
            if connection is None:
                if not carrier.dialing:
                    dialed = await self._dial(carrier)
                    carrier.working += 1
                    lease.connection = carrier.connection
                    return dialed
                await carrier.changed.wait()
            elif not connection.settled.is_set():
                await connection.settled.wait()  # the first stream began at once; how many may follow is not known yet
            elif not connection.usable or carrier.working >= min(connection.limit, self._places):
                return None
            else:
                carrier.working += 1
                lease.connection = connection
                return None

    def renew(self, lease: Lease) -> None:
        """The connection of the place has turned out to be dead: ``connect`` will dial another."""
        carrier = lease._carrier  # noqa: SLF001
        assert carrier.connection is not None
        del self._by_connection[carrier.connection]
        carrier.connection.close()
        carrier.connection = lease.connection = None
        carrier.working -= 1

    def reset_on_close(self, lease: Lease) -> None:
        """Should the release of this place close its connection, then by RST."""
        if lease.connection is not None:
            lease.connection.reset_on_close()

    def release(self, lease: Lease, exchange: Exchange | None) -> None:
        """Give the place back; what is left of the exchange is of no interest any more."""
        carrier, connection = lease._carrier, lease.connection  # noqa: SLF001
        if connection is not None:
            carrier.working -= 1
            if exchange is not None:
                connection.leave(exchange)
        self._leave(carrier)

    async def finish(self) -> None:
        """Close all connections, each in the way of its protocol."""
        async with trio.open_nursery() as nursery:
            for connection in list(self._by_connection):
                nursery.start_soon(connection.finish)
        self._carriers.clear()
        self._by_connection.clear()
        self._idle.clear()

    # ---- inside

    def _find_place(self, avoid: Connection | None) -> _Carrier | None:
        """A carrier with one more user; None when all are full and there may be no other."""
        carrier = self._take_idle(avoid) or self._choose(avoid)
        if carrier is not None:
            carrier.users += 1
            self._idle.pop(carrier, None)
        return carrier

    def _take_idle(self, avoid: Connection | None) -> _Carrier | None:
        for carrier in reversed(list(self._idle) if avoid is not None else self._idle):
            connection = carrier.connection
            if connection is not None and not connection.usable:
                self._retire(carrier)
                return self._take_idle(avoid)
            if connection is None or (connection is not avoid and connection.limit > 0):
                return carrier
        return None

    def _choose(self, avoid: Connection | None) -> _Carrier | None:
        """The carrier with the fewest streams, or a new one; nobody is idle."""
        shared = None
        if self._places > 1:
            with_room = [c for c in self._carriers if self._room(c) > 0]
            shared = min(with_room, key=lambda c: (c.connection is avoid and avoid is not None, c.users), default=None)
        may_open = self._size is None or len(self._carriers) < self._size
        wants_own = shared is None or self._size is not None or (avoid is not None and shared.connection is avoid)
        if may_open and wants_own:
            carrier = _Carrier()
            self._carriers[carrier] = None
            return carrier
        return shared

    def _room(self, carrier: _Carrier) -> int:
        connection = carrier.connection
        known = connection is not None and connection.settled.is_set()
        places = min(connection.limit, self._places) if connection is not None and known else self._places
        return places - carrier.users

    async def _dial(self, carrier: _Carrier) -> Dialed:
        """Cancelled, it leaves the dialing to another user of the carrier."""
        carrier.dialing = True
        try:
            dialed = await self._dialer.dial()
            connection = carrier.connection = self._open(dialed)
            self._by_connection[connection] = carrier
        except ConnectError as error:
            carrier.failure = error
            self._carriers.pop(carrier, None)
            raise
        finally:
            carrier.dialing = False
            carrier.tell()
        return dialed

    def _open(self, dialed: Dialed) -> Connection:
        number = self.opened * self._share.count + self._share.index  # no two processes of a run use the same
        if self._transport.http == "1.1":
            connection: Connection = Http1Connection(dialed.link, number, self._clock)
        else:
            if dialed.tls_ns is not None and dialed.alpn != "h2":
                dialed.link.close()
                said = f"chose {dialed.alpn}" if dialed.alpn else "named no protocol"
                raise ConnectError(f"the server does not offer HTTP/2 over TLS: ALPN {said}, expected h2", tls=True)
            multiplexed = Http2Connection(
                dialed.link, number, self._clock, self._transport.windows, self._on_connection_changed
            )
            self._nursery.start_soon(multiplexed.run)
            connection = multiplexed
        self.opened += 1
        return connection

    def _on_connection_changed(self, connection: Connection) -> None:
        """Its limit moved, it was lost, or it takes no more streams (GOAWAY)."""
        carrier = self._by_connection.get(connection)
        if carrier is None:
            return  # it is still being opened, or was given up
        if not connection.usable:
            self._retire(carrier)
        self._serve_waiting()

    def _leave(self, carrier: _Carrier) -> None:
        carrier.users -= 1
        connection = carrier.connection
        if connection is None:
            if not carrier.users:
                self._carriers.pop(carrier, None)
        elif self._fresh or not connection.usable:
            self._retire(carrier)
        elif not carrier.users:
            self._idle[carrier] = None
        self._serve_waiting()

    def _retire(self, carrier: _Carrier) -> None:
        """No more streams for it; it is closed once it has none."""
        self._carriers.pop(carrier, None)
        self._idle.pop(carrier, None)
        connection = carrier.connection
        if connection is not None and not carrier.users:
            self._by_connection.pop(connection, None)
            connection.close()

    def _serve_waiting(self) -> None:
        while self._waiting:
            waiter = next(iter(self._waiting))
            carrier = self._find_place(waiter.avoid)
            if carrier is None:
                return
            del self._waiting[waiter]
            waiter.carrier = carrier
            waiter.served.set()


def alpn_of(transport: Transport) -> tuple[str, ...]:
    """What a TLS client of this transport offers."""
    return ALPN[transport.http]

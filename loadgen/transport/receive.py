"""The receive loop: one trio task reads every socket of the process and stamps what arrives.

Why one: measured on 1,000 streams x 20 events/s, one task over one epoll costs 15 us an event, a task per stream 17, trio
streams 20, httpx 45; at 50,000 events/s a task per stream costs more than a core. Between a read and its stamp there is no
await and no parsing. The kernel's stamp (SO_TIMESTAMPNS) does not depend on when this loop runs, as long as it comes back
to a socket before the next event of that socket arrives; it is the stamp of the newest segment in a read, so whatever
else came in the same read is only known to lie between the last poll and that stamp.

A turn through trio's own loop costs more than the read of an event, so the receive loop stays with its sockets for a
millisecond or two while nobody else needs the event loop (``Attention``, the next deadline). Events are read as promptly as
ever meanwhile. At 1,000 streams x 20 events/s this took the cost of an event from 20 to 12 us.
"""

import select
import socket
import struct
from array import array
from typing import Final

import trio

from loadgen.clock import NS_PER_MS, NS_PER_S, SystemClock, WallOffset
from loadgen.transport.link import SO_TIMESTAMPNS, ByteSink

READ_BYTES: Final = 256 * 1024
MAX_READY: Final = 128  # sockets a round: about 1 ms of work, so that dials and deadlines have their turn under full load
LATE_NS: Final = 5 * NS_PER_MS
MAX_HELD: Final = 256  # half of the backlog that nginx listens with; more at once could be dropped SYNs
STAY_NS: Final = 1 * NS_PER_MS
WAIT_NS: Final = 1 * NS_PER_MS  # the shortest that epoll knows; no deadline may pass meanwhile
STAMP_SLACK_NS: Final = 1 * NS_PER_MS  # a kernel stamp further outside [last poll, now] means the wall clock was stepped

_TIMESPEC: Final = struct.Struct("@ll")
_ANCILLARY_BYTES: Final = socket.CMSG_SPACE(_TIMESPEC.size)
_BUFFER: Final = memoryview(bytearray(READ_BYTES))  # one for the process: a read is copied out before the next


def enable_kernel_stamps(sock: socket.socket) -> bool:
    """Ask the kernel to stamp what arrives. Set it before connecting: data queued earlier has no stamp."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    except OSError:
        return False
    return True


class ReadStats:
    """What the receiving side knows of itself. ``lag`` takes user stamp - kernel stamp of each stamped read, in ns."""

    __slots__ = ("clock_steps", "lag", "reads", "unstamped_reads")

    def __init__(self) -> None:
        self.lag = array("q")
        self.reads = 0
        self.unstamped_reads = 0
        self.clock_steps = 0


class Attention:
    """Who needs the event loop, and whether it keeps up.

    Entered as a context by those who are on their way (dialing, sending), ``held`` of them now; ``noticed`` is set when a
    stream's task has something to react to. The receive loop stays with its sockets only while nobody wants the event loop.
    ``late``: for some milliseconds now there has always been a socket with something waiting.
    """

    __slots__ = ("held", "late", "noticed")

    def __init__(self) -> None:
        self.held = 0
        self.noticed = False
        self.late = False

    @property
    def wanted(self) -> bool:
        return self.noticed or self.held > 0

    @property
    def crowded(self) -> bool:
        """Not the moment to start more streams: reads are late, or a listener's backlog of connects is on its way."""
        return self.late or self.held >= MAX_HELD

    def __enter__(self) -> None:
        self.held += 1

    def __exit__(self, *_: object) -> None:
        self.held -= 1


class EpollReceiver:
    """The receive loop for systems with epoll. ``run`` must be running for anything to arrive.

    ``spacing_s``: let what is ready wait this long, so that more is read at once; stamps are the kernel's all the same.
    """

    def __init__(self, stats: ReadStats, attention: Attention, spacing_s: float = 0.0) -> None:
        self._spacing_s = spacing_s
        self._caught_up_ns = SystemClock.now_ns()
        self._stats = stats
        self._attention = attention
        self._offset = WallOffset()
        self._epoll = select.epoll()
        self._entries: dict[int, tuple[socket.socket, ByteSink]] = {}

    def attach(self, sock: socket.socket, sink: ByteSink) -> None:
        fd = sock.fileno()
        self._entries[fd] = (sock, sink)
        self._epoll.register(fd, select.EPOLLIN | select.EPOLLRDHUP)

    def detach(self, sock: socket.socket) -> None:
        if self._entries.pop(sock.fileno(), None) is not None and not self._epoll.closed:
            self._epoll.unregister(sock.fileno())

    async def run(self) -> None:
        """Receive until cancelled."""
        # The kernel begins to stamp a moment after the first socket of the machine asked for it (it flips a static key from
        # a work queue); one that asks now and stays open keeps the first connection's first bytes from being missed.
        with socket.socket() as keeper:
            enable_kernel_stamps(keeper)
            await self._receive()

    async def _receive(self) -> None:
        now_ns, attention = SystemClock.now_ns, self._attention
        try:
            while True:
                await trio.lowlevel.wait_readable(self._epoll.fileno())
                if self._spacing_s and not attention.wanted:
                    await trio.sleep(self._spacing_s)
                attention.noticed = False
                self._round(0)
                if not attention.wanted:
                    await trio.lowlevel.checkpoint()  # whoever woke together with this task goes first
                    leave_ns = now_ns() + min(STAY_NS, _until_next_deadline_ns() - WAIT_NS)
                    while not attention.wanted and now_ns() < leave_ns and self._round(WAIT_NS // NS_PER_MS):
                        pass
        finally:
            self._stats.clock_steps += self._offset.steps
            self._epoll.close()

    def _round(self, wait_ms: int) -> bool:
        """Read each socket that is ready, or gets ready within ``wait_ms``, once. False: there was none."""
        since_ns, polled_ns = self._caught_up_ns, SystemClock.now_ns()
        ready = self._epoll.poll(wait_ms / 1000, MAX_READY)
        filled = self._drain(ready, since_ns, self._offset.refresh(polled_ns)) if ready else False
        if len(ready) < MAX_READY and not filled:
            # Every socket was looked at: what comes later arrived after this moment.
            self._caught_up_ns = polled_ns
            self._attention.late = False
        else:
            self._attention.late = polled_ns - since_ns > LATE_NS
        return bool(ready)

    def _drain(self, ready: list[tuple[int, int]], since_ns: int, offset_ns: int) -> bool:
        """Read each ready socket once; what is left makes it ready again in the next round. True: one was not emptied."""
        filled = False
        entries, stats = self._entries, self._stats
        now_ns, lag, unpack = SystemClock.now_ns, stats.lag.append, _TIMESPEC.unpack
        buffer = _BUFFER
        into = [buffer]
        for fd, _ in ready:
            entry = entries.get(fd)
            if entry is None:
                continue  # detached by an earlier sink of this round
            sock, sink = entry
            try:
                size, ancillary, _, _ = sock.recvmsg_into(into, _ANCILLARY_BYTES)
            except BlockingIOError:
                continue
            except OSError as error:
                self.detach(sock)
                sink.reset(error.strerror or str(error), now_ns())
                continue
            read_ns = now_ns()
            if not size:
                self.detach(sock)
                sink.eof(read_ns)
                continue
            stats.reads += 1
            if size == READ_BYTES:
                filled = True
            if ancillary:
                seconds, nanos = unpack(ancillary[0][2])
                at_ns = seconds * NS_PER_S + nanos - offset_ns
                if since_ns - STAMP_SLACK_NS <= at_ns <= read_ns + STAMP_SLACK_NS:
                    lag(read_ns - at_ns)
                    sink.feed(bytes(buffer[:size]), at_ns, since_ns, kernel=True)
                    continue
                stats.clock_steps += 1
            stats.unstamped_reads += 1
            sink.feed(bytes(buffer[:size]), read_ns, since_ns, kernel=False)
        return filled


def _until_next_deadline_ns() -> int:
    """How long until trio has a deadline to act on; a day if there is none."""
    return int(min(trio.lowlevel.current_statistics().seconds_to_next_deadline, 86_400) * NS_PER_S)


class TaskReceiver:
    """A reader task per socket, for systems without epoll. The stamps are the program's own."""

    def __init__(self, stats: ReadStats, nursery: trio.Nursery) -> None:
        self._stats = stats
        self._nursery = nursery
        self._scopes: dict[int, trio.CancelScope] = {}

    def attach(self, sock: socket.socket, sink: ByteSink) -> None:
        scope = self._scopes[sock.fileno()] = trio.CancelScope()
        self._nursery.start_soon(self._read, sock, sink, scope)

    def detach(self, sock: socket.socket) -> None:
        scope = self._scopes.pop(sock.fileno(), None)
        if scope is not None:
            scope.cancel()

    async def run(self) -> None:
        """Nothing to do: each socket has its own task."""

    async def _read(self, sock: socket.socket, sink: ByteSink, scope: trio.CancelScope) -> None:
        now_ns = SystemClock.now_ns
        since_ns = now_ns()
        with scope:
            await trio.lowlevel.checkpoint_if_cancelled()  # detached, and perhaps closed, before this task began
            while True:
                await trio.lowlevel.wait_readable(sock)
                try:
                    data = sock.recv(READ_BYTES)
                except BlockingIOError:
                    continue
                except OSError as error:
                    self._scopes.pop(sock.fileno(), None)
                    sink.reset(error.strerror or str(error), now_ns())
                    return
                at_ns = now_ns()
                if not data:
                    self._scopes.pop(sock.fileno(), None)
                    sink.eof(at_ns)
                    return
                self._stats.reads += 1
                self._stats.unstamped_reads += 1
                sink.feed(data, at_ns, since_ns, kernel=False)
                since_ns = at_ns


AnyReceiver = EpollReceiver | TaskReceiver


def receiver_for(stats: ReadStats, attention: Attention, nursery: trio.Nursery, spacing_s: float = 0.0) -> AnyReceiver:
    """The best receiver that this system has."""
    return EpollReceiver(stats, attention, spacing_s) if hasattr(select, "epoll") else TaskReceiver(stats, nursery)

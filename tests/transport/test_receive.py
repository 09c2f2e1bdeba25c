"""The receive loop on real sockets: kernel stamps against what the sender saw, quality, and what a late reader knows."""

import select
import socket
import time

import pytest
import trio

from loadgen.clock import NS_PER_MS
from loadgen.model import Outcome
from loadgen.transport.link import ByteSink
from loadgen.transport.receive import Attention, EpollReceiver, ReadStats, TaskReceiver, enable_kernel_stamps, receiver_for

pytestmark = pytest.mark.net
LINUX = hasattr(select, "epoll")


class Collector:
    """A sink that keeps what came."""

    def __init__(self) -> None:
        self.feeds: list[tuple[bytes, int, int, bool]] = []
        self.ended: list[str] = []
        self.changed = trio.Event()

    def feed(self, data: bytes, at_ns: int, since_ns: int, *, kernel: bool) -> None:
        self.feeds.append((data, at_ns, since_ns, kernel))
        self._tell()

    def eof(self, at_ns: int) -> None:
        self.ended.append("eof")
        self._tell()

    def reset(self, detail: str, at_ns: int, *, outcome: Outcome = Outcome.RESET) -> None:
        self.ended.append(detail)
        self._tell()

    def _tell(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    @property
    def data(self) -> bytes:
        return b"".join(feed[0] for feed in self.feeds)

    async def until(self, size: int, ended: int = 0) -> None:
        with trio.fail_after(5):
            while len(self.data) < size or len(self.ended) < ended:
                await self.changed.wait()


def pair() -> tuple[socket.socket, socket.socket]:
    """A connected TCP pair on loopback: sender, and receiver with kernel stamps."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        receiver = socket.socket()
        enable_kernel_stamps(receiver)
        receiver.connect(server.getsockname())
        sender, _ = server.accept()
    sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    receiver.setblocking(False)
    return sender, receiver


@pytest.mark.skipif(not LINUX, reason="needs epoll and SO_TIMESTAMPNS (Linux)")
async def test_stamps_are_the_kernels_even_when_the_loop_is_late(nursery: trio.Nursery) -> None:
    stats, sink = ReadStats(), Collector()
    receiver = EpollReceiver(stats, Attention())
    nursery.start_soon(receiver.run)
    ours, theirs = pair()
    with ours, theirs:
        receiver.attach(theirs, sink)
        await trio.sleep(0.05)  # the kernel begins to stamp a moment after the first socket asked for it
        sent_ns = []
        for _ in range(20):
            before_ns = time.monotonic_ns()
            ours.send(b"x")
            sent_ns.append((before_ns, time.monotonic_ns()))
            time.sleep(0.005)
            await sink.until(len(sent_ns))
        receiver.detach(theirs)
    errors = [at_ns - after_ns for (_, at_ns, _, _), (_, after_ns) in zip(sink.feeds, sent_ns, strict=True)]
    assert all(kernel for *_, kernel in sink.feeds)
    assert sorted(errors)[10] < NS_PER_MS  # the program's own clock would be 5 ms late
    assert all(since_ns <= at_ns for _, at_ns, since_ns, _ in sink.feeds)
    assert all(at_ns >= before_ns - NS_PER_MS for (_, at_ns, _, _), (before_ns, _) in zip(sink.feeds, sent_ns, strict=True))
    assert min(stats.lag) > 4 * NS_PER_MS
    assert stats.reads == 20
    nursery.cancel_scope.cancel()


@pytest.mark.skipif(not LINUX, reason="needs epoll and SO_TIMESTAMPNS (Linux)")
async def test_what_waited_together_lies_between_the_last_poll_and_the_stamp(nursery: trio.Nursery) -> None:
    stats, sink = ReadStats(), Collector()
    receiver = EpollReceiver(stats, Attention())
    nursery.start_soon(receiver.run)
    ours, theirs = pair()
    with ours, theirs:
        receiver.attach(theirs, sink)
        await trio.sleep(0.01)
        sent_ns = []
        for _ in range(5):
            ours.send(b"x")
            sent_ns.append(time.monotonic_ns())
            time.sleep(0.002)
        await sink.until(5)
        receiver.detach(theirs)
    ((data, at_ns, since_ns, kernel),) = sink.feeds
    assert (data, kernel) == (b"x" * 5, True)
    assert abs(at_ns - sent_ns[-1]) < NS_PER_MS
    assert all(since_ns <= sent <= at_ns + NS_PER_MS for sent in sent_ns)
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("kind", ["epoll", "tasks"])
async def test_end_reset_and_detach(kind: str, nursery: trio.Nursery) -> None:
    if kind == "epoll" and not LINUX:
        pytest.skip("no epoll here")
    stats = ReadStats()
    receiver = EpollReceiver(stats, Attention()) if kind == "epoll" else TaskReceiver(stats, nursery)
    nursery.start_soon(receiver.run)
    ends: list[tuple[socket.socket, socket.socket, Collector]] = []
    for _ in range(3):
        ours, theirs = pair()
        sink: Collector = Collector()
        receiver.attach(theirs, sink)
        ours.send(b"hello")
        await sink.until(5)
        ends.append((ours, theirs, sink))
    (a, _, closed), (b, _, broken), (c, detached_socket, detached) = ends
    a.close()
    b.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    b.close()
    receiver.detach(detached_socket)
    c.send(b"more")
    await closed.until(5, ended=1)
    await broken.until(5, ended=1)
    await trio.sleep(0.01)
    assert closed.ended == ["eof"]
    assert broken.ended == ["Connection reset by peer"]
    assert (detached.data, detached.ended) == (b"hello", [])
    for ours, theirs, _ in ends:
        ours.close()
        theirs.close()
    nursery.cancel_scope.cancel()


async def test_the_best_receiver_is_chosen(nursery: trio.Nursery) -> None:
    receiver = receiver_for(ReadStats(), Attention(), nursery)
    assert isinstance(receiver, EpollReceiver if LINUX else TaskReceiver)
    sink: ByteSink = Collector()
    assert sink is not None

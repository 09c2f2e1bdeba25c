"""Writes that never block, over real sockets: order, backlog, a peer that is gone."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from loadgen.sim import outlet
from loadgen.sim.outlet import Outlet

pytestmark = pytest.mark.net


async def socket_pair() -> tuple[trio.SocketStream, trio.SocketStream]:
    ours, theirs = trio.socket.socketpair()
    return trio.SocketStream(ours), trio.SocketStream(theirs)


async def read_bytes(stream: trio.SocketStream, count: int) -> bytes:
    got = b""
    with trio.fail_after(10):
        while len(got) < count:
            got += await stream.receive_some()
    return got


async def test_small_writes_go_straight_to_the_kernel() -> None:
    near, far = await socket_pair()
    async with near, far:
        out = Outlet(near)  # its ``run`` is not running
        out.write(b"one")
        out.write(b"two")
        assert await read_bytes(far, 6) == b"onetwo"
        await out.drain()


async def test_what_the_kernel_does_not_take_follows_in_order(nursery: trio.Nursery) -> None:
    near, far = await socket_pair()
    async with near, far:
        out = Outlet(near)
        nursery.start_soon(out.run)
        sent = b"".join(b"%08d" % n for n in range(200_000))
        for at in range(0, len(sent), 8_000):
            out.write(sent[at : at + 8_000])
        full = [out.full]
        assert await read_bytes(far, len(sent)) == sent
        await out.drain()
        full.append(out.full)
        assert full == [True, False]
        out.write(b"direct again")
        assert await read_bytes(far, 12) == b"direct again"
        nursery.cancel_scope.cancel()


async def test_no_write_overtakes_the_backlog(nursery: trio.Nursery) -> None:
    near, far = await socket_pair()
    async with near, far:
        out = Outlet(near)
        out.write(b"a" * 5_000_000)
        got = await read_bytes(far, 100_000)  # there is room in the kernel now, but older bytes wait
        out.write(b"z")
        nursery.start_soon(out.run)
        got += await read_bytes(far, 5_000_001 - len(got))
        assert got.index(b"z") == 5_000_000
        nursery.cancel_scope.cancel()


async def test_full_from_the_bound_on(nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlet, "MAX_BACKLOG_BYTES", 100)
    near, _far = trio.testing.memory_stream_pair()
    out = Outlet(near)
    out.write(b"x" * 99)
    full = [out.full]
    out.write(b"x")
    full.append(out.full)
    assert full == [False, True]


async def test_writes_to_a_peer_that_is_gone_are_dropped(nursery: trio.Nursery) -> None:
    near, far = await socket_pair()
    async with near:
        out = Outlet(near)
        nursery.start_soon(out.run)
        await far.aclose()
        out.write(b"a")
        out.write(b"b")
        assert out.broken
        await out.drain()
        nursery.cancel_scope.cancel()


async def test_peer_that_leaves_while_data_waits_ends_the_drain(nursery: trio.Nursery) -> None:
    near, far = await socket_pair()
    async with near:
        out = Outlet(near)
        nursery.start_soon(out.run)
        out.write(b"x" * 8_000_000)
        await wait_all_tasks_blocked()
        await far.aclose()
        with trio.fail_after(10):
            await out.drain()
        assert out.broken
        nursery.cancel_scope.cancel()


async def test_nothing_is_written_after_stop() -> None:
    """The descriptor may belong to somebody else by then."""
    near, far = await socket_pair()
    async with near, far:
        out = Outlet(near)
        out.stop()
        out.write(b"late")
        await near.send_eof()
        assert await far.receive_some() == b""

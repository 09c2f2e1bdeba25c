"""The reader tasks of systems without epoll, and sockets that are closed at once."""

import select

import pytest
import trio
import trio.testing

from loadgen.transport.receive import Attention, EpollReceiver, ReadStats, TaskReceiver
from tests.transport.test_receive import Collector, pair

pytestmark = pytest.mark.net


async def test_a_socket_closed_before_its_task_began(nursery: trio.Nursery) -> None:
    receiver, sink = TaskReceiver(ReadStats(), nursery), Collector()
    ours, theirs = pair()
    receiver.attach(theirs, sink)
    receiver.detach(theirs)
    theirs.close()
    ours.close()
    await trio.testing.wait_all_tasks_blocked()
    assert (sink.data, sink.ended) == (b"", [])


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="needs epoll (Linux)")
async def test_sockets_may_be_detached_after_the_loop_has_ended() -> None:
    """When a run is cancelled the loop may be gone before the streams: their clean-up must not hide what cancelled it."""
    receiver = EpollReceiver(ReadStats(), Attention())
    ours, theirs = pair()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receiver.run)
            await trio.testing.wait_all_tasks_blocked()
            receiver.attach(theirs, Collector())
            scope.cancel()
    receiver.detach(theirs)
    theirs.close()
    ours.close()

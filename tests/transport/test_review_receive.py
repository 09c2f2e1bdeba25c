"""The reader tasks of systems without epoll, and sockets that are closed at once."""

import pytest
import trio
import trio.testing

from loadgen.transport.receive import ReadStats, TaskReceiver
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

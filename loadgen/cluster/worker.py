"""One generator process of several: `python -m loadgen.cluster.worker FD`. Started by ``cluster.run``, not for people."""

import signal
import sys
import time
from multiprocessing.connection import Connection
from typing import Any

import trio

from loadgen.clock import NS_PER_S, SystemClock
from loadgen.cluster.messages import READY, Done, Draining, Gathered, Go, Job
from loadgen.engine.run import RunData, generate
from loadgen.engine.watch import Progress
from loadgen.errors import LoadgenError
from loadgen.record.collector import Batch
from loadgen.record.journal import Journal
from loadgen.workload.plan import Target


class Teller:
    """A watcher that passes on to the parent what it hears."""

    def __init__(self, connection: "Connection[Any, Any]") -> None:
        self._send = connection.send

    def on_target(self, target: Target) -> None:
        pass  # the parent knows

    def on_batch(self, batch: Batch, progress: Progress | None) -> None:
        self._send(Gathered(batch, progress))

    def on_draining(self, open_streams: int, drain_ns: int) -> None:
        del drain_ns
        self._send(Draining(open_streams))

    def on_interrupt(self, open_streams: int) -> None:
        pass  # it came from the parent


async def work(connection: "Connection[Any, Any]") -> None:
    """One job, from the parent's first message to ``Done``. Ends at once when the parent dies."""
    job = await receive(connection)
    assert isinstance(job, Job)
    data = RunData(plan=job.plan, target=job.plan.target, started_wall_ns=time.time_ns())
    stops, interrupts = trio.open_memory_channel[object](8)
    with Journal(job.journal) as journal:
        async with trio.open_nursery() as nursery:

            async def gate() -> None:
                connection.send(READY)
                go = await receive(connection)
                assert isinstance(go, Go)
                nursery.start_soon(_hear_stops, connection, stops)
                await trio.sleep(max(go.at_ns - SystemClock.now_ns(), 0) / NS_PER_S)

            try:
                await generate(
                    data,
                    job.plan,
                    Teller(connection),
                    clock=SystemClock(),
                    interrupts=interrupts,
                    on_record=journal.write,
                    gate=gate,
                )
            except* LoadgenError as errors:
                data.unreachable = "; ".join(str(e) for e in errors.exceptions)
            nursery.cancel_scope.cancel()
    connection.send(Done(health=data.health, duration_ns=data.duration_ns, unreachable=data.unreachable))


async def _hear_stops(connection: "Connection[Any, Any]", stops: trio.MemorySendChannel[object]) -> None:
    """Until the parent's end closes, which ends this process: there is nobody left to measure for."""
    while True:
        stops.send_nowait(await receive(connection))


async def receive(connection: "Connection[Any, Any]") -> object:
    """The next message. Raises EOFError when the other side has closed or died."""
    try:
        while not connection.poll():
            await trio.lowlevel.wait_readable(connection.fileno())
        return connection.recv()
    except ConnectionResetError:  # it died with a message of ours unread
        raise EOFError from None


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with Connection(int(sys.argv[1])) as connection:
        try:
            trio.run(work, connection)
        except* (EOFError, BrokenPipeError):
            sys.exit(1)  # the parent is gone


if __name__ == "__main__":
    main()

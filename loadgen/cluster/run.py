"""A run in several processes on this machine: start the workers, gather what they send, add it up.

The parent opens the target, starts all workers at one moment, and merges their batches once a second, so that there is one
progress display, one set of files and one summary, made as they are made of one process. A worker that dies ends the load of
the others; what it had sent is kept, and the run says that it is not whole.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterable
from contextlib import ExitStack, suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import trio

from loadgen.clock import NS_PER_MS, NS_PER_S, SystemClock
from loadgen.cluster.messages import READY, STOP, Done, Draining, Gathered, Go, Job
from loadgen.cluster.worker import receive
from loadgen.engine.run import INTERVAL_S, RunData, open_target
from loadgen.engine.watch import Observer, Progress
from loadgen.errors import GeneratorError, LoadgenError
from loadgen.model import Outcome
from loadgen.record.collector import Batch
from loadgen.record.recorder import Recorder
from loadgen.record.results import Results
from loadgen.workload.plan import Plan

STREAMS_PER_PROCESS: Final = 1000  # at 20-50 events/s each a core is about half full
START_TIMEOUT_S: Final = 30.0
HEAD_START_NS: Final = 50 * NS_PER_MS  # from the message to the common moment
LAST_WORDS_S: Final = 5.0
BUFFER_BYTES: Final = 8 << 20  # seconds of batches: a busy parent must not hold up a worker


def most_processes(plan: Plan) -> int:
    """More than this many cannot share the plan: each needs a stream, and a connection where the workload counts them."""
    bounds = [plan.max_streams, plan.transport.connections, None if plan.limit is None else plan.limit.streams]
    return min(bound for bound in bounds if bound is not None)


def choose_processes(plan: Plan, cores: int | None = None) -> int:
    """How many generator processes suit a plan: one for each ``STREAMS_PER_PROCESS``, within this machine's cores.

    The simulated server needs a core of its own.
    """
    cores = len(os.sched_getaffinity(0)) if cores is None else cores
    spare = cores - (plan.sim is not None)
    wanted = -(-plan.max_streams // STREAMS_PER_PROCESS)
    return max(1, min(wanted, spare, most_processes(plan)))


def check_processes(plan: Plan, asked: int) -> int:
    """``asked``, if the plan can be shared by so many. Raises LoadgenError."""
    most = most_processes(plan)
    if not 1 <= asked <= most:
        raise LoadgenError(
            f"--processes {asked}: this workload can be shared by 1 to {most} processes (streams, limit and connections of "
            "each must be at least 1)"
        )
    return asked


class Worker:
    """One child process and what has come from it so far."""

    def __init__(self, index: int, count: int) -> None:
        self.name = f"generator process {index + 1} of {count}"
        self.done: Done | None = None
        self.open = 0
        self.asked = 0
        self.waiting: list[Batch] = []  # not yet merged
        self.missing: list[int] = []  # streams started and not ended, by phase
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        with theirs:
            self.process = subprocess.Popen(  # noqa: S603 - ourselves
                [sys.executable, "-m", "loadgen.cluster.worker", str(theirs.fileno())], pass_fds=[theirs.fileno()]
            )
        self.connection: Connection[Any, Any] = Connection(ours.detach())

    def take(self, message: object) -> None:
        match message:
            case Gathered(batch, progress):
                self.open = batch.open
                self.asked = self.asked if progress is None else progress.asked
                self.missing = self.missing or [0] * len(batch.parts)
                for phase, part in enumerate(batch.parts):
                    self.missing[phase] += part.started - part.ended
                self.waiting.append(batch)
            case Done():
                self.done = message
            case Draining(open_streams):
                self.open = open_streams
                self.asked = 0

    def stop(self) -> None:
        """As Ctrl-C. A worker that is gone already needs no telling."""
        with suppress(OSError):
            self.connection.send(STOP)

    def how_it_died(self) -> str:
        """In words, once its end of the connection has closed."""
        try:
            code = self.process.wait(LAST_WORDS_S)
        except subprocess.TimeoutExpired:
            return "it fell silent"
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        return f"it failed with exit code {code}; its message stands above"

    def end(self) -> None:
        self.connection.close()
        try:
            self.process.wait(LAST_WORDS_S if self.done else 0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


async def execute(
    plan: Plan, processes: int, recorder: Recorder, observer: Observer, *, journal: Path, handle_signals: bool = True
) -> RunData:
    """As ``engine.run.execute``, in ``processes`` processes. Finished streams are appended to the started ``journal``.

    Raises GeneratorError when the workers do not come up.
    """
    data = RunData(plan=plan, target=plan.target, started_wall_ns=time.time_ns())
    with ExitStack() as stack:
        interrupts = stack.enter_context(trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM)) if handle_signals else None
        try:
            async with open_target(plan) as target:
                data.target = target
                observer.on_target(target)
                workers = [Worker(index, processes) for index in range(processes)]
                for worker in workers:
                    stack.callback(worker.end)
                await _start(workers, replace(plan, target=target), journal)
                await _Team(data, workers, recorder, observer).run(interrupts)
        except GeneratorError:
            raise
        except LoadgenError as error:  # no address, no model, or the simulated server did not start or died
            data.unreachable = str(error)
    return data


async def _start(workers: list[Worker], plan: Plan, journal: Path) -> None:
    """Hand out the shares, wait until everybody is ready, and start all at one moment."""
    for index, worker in enumerate(workers):
        with suppress(BrokenPipeError):  # it died at once; waiting for it says so
            worker.connection.send(Job(plan=plan.part(index, len(workers)), journal=journal))
    with trio.move_on_after(START_TIMEOUT_S) as patience:
        for worker in workers:
            try:
                message = await receive(worker.connection)
            except EOFError:
                raise GeneratorError(f"{worker.name} did not start: {worker.how_it_died()}") from None
            if message != READY:
                worker.take(message)  # it is done already: the target's name cannot be resolved
    if patience.cancelled_caught:
        raise GeneratorError(f"the generator processes were not ready within {START_TIMEOUT_S:g} s")
    go = Go(SystemClock.now_ns() + HEAD_START_NS)
    for worker in workers:
        with suppress(OSError):
            worker.connection.send(go)


class _Team:
    """The workers while the load goes on."""

    def __init__(self, data: RunData, workers: list[Worker], recorder: Recorder, observer: Observer) -> None:
        self._data = data
        self._workers = workers
        self._recorder = recorder
        self._observer = observer
        self._begin_ns = SystemClock.now_ns()
        self._draining = False
        self._ended = trio.Event()

    async def run(self, interrupts: AsyncIterable[object] | None) -> None:
        async with trio.open_nursery() as background:
            background.start_soon(self._tick)
            if interrupts is not None:
                background.start_soon(self._watch_interrupts, interrupts)
            async with trio.open_nursery() as nursery:
                for worker in self._workers:
                    nursery.start_soon(self._listen, worker)
            background.cancel_scope.cancel()
        self._merge_waiting()
        self._add_up()

    async def _listen(self, worker: Worker) -> None:
        """Everything one worker says, until it is done or dead."""
        while worker.done is None:
            try:
                message = await receive(worker.connection)
            except EOFError:
                self._lose(worker)
                return
            worker.take(message)
            if isinstance(message, Draining) and not self._draining:
                self._draining = True
                self._observer.on_draining(sum(w.open for w in self._workers), self._data.plan.drain_ns)
        worker.open = worker.asked = 0

    def _lose(self, worker: Worker) -> None:
        """A worker died: its open streams are cut, and the load of the others ends, for it is no longer what was asked."""
        self._data.health.lost.append(
            f"{worker.name} died ({worker.how_it_died()}): the run was ended then, and what it had measured in its last second "
            "is missing here"
        )
        now_ns = SystemClock.now_ns()
        parts = [
            Results(outcomes=Counter({Outcome.CUT: n}), details=Counter({(Outcome.CUT, f"{worker.name} died"): n}))
            for n in worker.missing
        ]
        if parts:
            worker.waiting.append(Batch(begin_ns=now_ns, end_ns=now_ns, phase=None, open=0, parts=parts))
        worker.open = worker.asked = 0
        for other in self._workers:
            if other is not worker:
                other.stop()

    async def _tick(self) -> None:
        """Shortly after the workers' own ticks."""
        await trio.sleep((HEAD_START_NS / NS_PER_S) * 2)
        while True:
            await trio.sleep(INTERVAL_S)
            self._merge_waiting(show=True)

    def _merge_waiting(self, *, show: bool = False) -> None:
        """Apply what has come: the batches of one phase, from all workers, as one."""
        waiting = [batch for worker in self._workers for batch in worker.waiting]
        for worker in self._workers:
            worker.waiting = []
        merged: dict[int, Batch] = {}
        for batch in waiting:
            key = len(self._data.plan.phases) if batch.phase is None else batch.phase
            if key in merged:
                merged[key].merge(batch)
            else:
                merged[key] = batch
        for key in sorted(merged):
            merged[key].open = sum(worker.open for worker in self._workers)
            interval = self._recorder.apply(merged[key])
            if show and key == max(merged):
                self._observer.on_interval(interval, self._progress(merged[key].phase), self._recorder)

    def _progress(self, phase: int | None) -> Progress:
        plan = self._data.plan
        elapsed_ns = SystemClock.now_ns() - self._begin_ns
        return Progress(
            phase=None if phase is None else plan.phases[phase],
            elapsed_s=elapsed_ns / NS_PER_S,
            left_s=max(plan.load_ns - elapsed_ns, 0) / NS_PER_S,
            open=sum(worker.open for worker in self._workers),
            asked=sum(worker.asked for worker in self._workers),
        )

    async def _watch_interrupts(self, interrupts: AsyncIterable[object]) -> None:
        async for _ in interrupts:
            if not self._data.interrupted:
                self._data.interrupted = True
                self._observer.on_interrupt(sum(worker.open for worker in self._workers))
            for worker in self._workers:
                worker.stop()

    def _add_up(self) -> None:
        data, done = self._data, [worker.done for worker in self._workers if worker.done is not None]
        data.health.processes = len(self._workers)
        for each in done:
            data.health.merge(each.health)
        data.duration_ns = max((each.duration_ns for each in done), default=SystemClock.now_ns() - self._begin_ns)
        if done and all(each.unreachable for each in done):
            data.unreachable = done[0].unreachable

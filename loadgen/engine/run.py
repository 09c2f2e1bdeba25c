"""One run of a plan, from the first connection to the last record.

    target (simulated or real) -> dialer -> pool -> runner -> closed loop -> drain -> what was measured

The background tasks (receive loop, ticker, signals) live in a nursery that outlives every stream.
"""

import gc
import signal
import ssl
import time
from array import array
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final, Protocol
from urllib.parse import urlsplit

import trio

from loadgen.clock import NS_PER_MS, NS_PER_S, Clock, SystemClock
from loadgen.dialect import DIALECTS
from loadgen.engine.closed_loop import ClosedLoop
from loadgen.engine.concurrency import Concurrency, Limiter
from loadgen.engine.machine import raise_descriptor_limit
from loadgen.engine.stream import StreamRunner
from loadgen.errors import ConnectError
from loadgen.model import Outcome, StreamRecord
from loadgen.record.health import GeneratorHealth
from loadgen.record.recorder import Interval, Recorder
from loadgen.sim.process import open_sim_process
from loadgen.transport.control import first_model
from loadgen.transport.dial import Dialer, SocketDialer, resolve
from loadgen.transport.pool import ConnectionPool, alpn_of
from loadgen.transport.receive import ReadStats, receiver_for
from loadgen.transport.tls import build_ssl_context
from loadgen.workload.plan import Phase, Plan, Target

INTERVAL_S: Final = 1.0
LOOP_SAMPLE_NS: Final = 20 * NS_PER_MS
SIM_PATH: Final = {"openai-chat": "/v1/chat/completions", "plain-sse": "/sse"}

DialerFactory = Callable[[trio.Nursery, Clock], Dialer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run is, for those who show it."""

    phase: Phase | None  # None: draining
    elapsed_s: float
    left_s: float  # of the load, without the drain
    open: int
    asked: int


class Observer(Protocol):
    """Hears of a run while it goes on. Synchronous, quick, may not raise."""

    def on_target(self, target: Target) -> None: ...

    def on_interval(self, interval: Interval, progress: Progress, recorder: Recorder) -> None: ...

    def on_draining(self, open_streams: int, drain_ns: int) -> None: ...

    def on_interrupt(self, open_streams: int) -> None: ...


@dataclass(slots=True, kw_only=True)
class RunData:
    """What a run leaves behind, before anybody judges it."""

    plan: Plan
    target: Target | None
    started_wall_ns: int
    duration_ns: int = 0
    health: GeneratorHealth = field(default_factory=GeneratorHealth)
    interrupted: bool = False
    unreachable: str = ""


async def execute(
    plan: Plan,
    recorder: Recorder,
    observer: Observer,
    *,
    clock: Clock | None = None,
    dialer_factory: DialerFactory | None = None,
    handle_signals: bool = True,
    on_record: Callable[[StreamRecord], None] = lambda _: None,
) -> RunData:
    """Run a plan. Every stream ends in ``recorder`` (and ``on_record``); returns when all have ended.

    ``clock`` and ``dialer_factory`` are for tests in virtual time over memory streams. SIGINT (or SIGTERM) stops the
    load and drains; a second one cuts what is open. Cancelled, it loses the records of streams still open.
    """
    clock = clock or SystemClock()
    data = RunData(plan=plan, target=plan.target, started_wall_ns=time.time_ns())
    if dialer_factory is None:
        raise_descriptor_limit(plan)
    begin_ns = clock.now_ns()
    try:
        async with _open_target(plan) as opened, trio.open_nursery() as background:
            target = opened
            if target.model == "auto":
                target = replace(
                    target, model=await first_model(target, _context(target, plan), http2=plan.transport.http == "2")
                )
            data.target = target
            observer.on_target(target)
            reads = ReadStats()
            dialer = (
                await _socket_dialer(target, plan, reads, background, clock)
                if dialer_factory is None
                else dialer_factory(background, clock)
            )
            pool = ConnectionPool(dialer, plan.transport, background, clock)
            run = _Run(data, recorder, observer, clock, pool, reads, on_record)
            if handle_signals:
                await background.start(run.watch_signals)
            background.start_soon(run.tick)
            background.start_soon(run.watch_loop)
            with data.health.watching_gc():
                await run.load()
            background.cancel_scope.cancel()
    except* ConnectError as errors:
        data.unreachable = "; ".join(str(e) for e in errors.exceptions)
    data.duration_ns = clock.now_ns() - begin_ns
    return data


class _Run:
    """The moving parts of one run and how they end."""

    def __init__(
        self,
        data: RunData,
        recorder: Recorder,
        observer: Observer,
        clock: Clock,
        pool: ConnectionPool,
        reads: ReadStats,
        on_record: Callable[[StreamRecord], None],
    ) -> None:
        self._data = data
        self._plan = data.plan
        self._recorder = recorder
        self._observer = observer
        self._clock = clock
        self._reads = reads
        self._on_record = on_record
        self._widths = array("q")
        self._gauge = Concurrency(clock)
        self._pool = pool
        self._begin_ns = clock.now_ns()
        self._loop: ClosedLoop | None = None
        self._runner: StreamRunner | None = None
        self._drain = trio.CancelScope()
        self._draining = False

    async def load(self) -> None:
        """Everything from the first stream to the last record."""
        plan = self._plan
        assert self._data.target is not None
        cpu_s = time.process_time()
        async with trio.open_nursery() as streams:
            self._runner = StreamRunner(
                plan=plan,
                target=self._data.target,
                dialect=DIALECTS[plan.dialect],
                clock=self._clock,
                pool=self._pool,
                limiter=Limiter(plan.limit, self._gauge),
                recorder=self._recorder,
                on_record=self._record,
                bounded_width=self._widths.append,
                nursery=streams,
            )
            self._loop = ClosedLoop(
                plan=plan, clock=self._clock, runner=self._runner, gauge=self._gauge, nursery=streams,
                on_phase=self._enter_phase,
            )  # fmt: skip
            gc.freeze()
            try:
                await self._loop.run()
            finally:
                self._flush()
                self._gauge.measure(False)
                self._recorder.phase_started(None)
            await self._drain_streams(self._loop, self._runner)
        self._pool.close()
        self._data.unreachable = self._loop.unreachable
        self._flush()
        self._data.health.local_failure = self._runner.reach.local_failure
        self._fill_health(time.process_time() - cpu_s)

    async def tick(self) -> None:
        """Once a second: bucket what came, tell the observer."""
        while True:
            await trio.sleep(INTERVAL_S)
            interval = self._flush()
            self._observer.on_interval(interval, self._progress(), self._recorder)

    async def watch_loop(self) -> None:
        """How late trio wakes a task that is due: what dialing, sending and deadlines suffer under load."""
        lag = self._data.health.loop_lag
        due_ns = self._clock.now_ns()
        while True:
            due_ns += LOOP_SAMPLE_NS
            await trio.sleep_until(self._clock.trio_deadline(due_ns))
            now_ns = self._clock.now_ns()
            if self._gauge.measuring:
                lag.record(now_ns - due_ns)
            due_ns = max(due_ns, now_ns - LOOP_SAMPLE_NS)

    async def watch_signals(self, *, task_status: trio.TaskStatus[None]) -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            task_status.started()
            async for _ in signals:
                if self._data.interrupted:
                    self._drain.cancel()
                    continue
                self._data.interrupted = True
                self._observer.on_interrupt(self._gauge.open)
                if self._loop is not None:
                    self._loop.stop()

    async def _drain_streams(self, loop: ClosedLoop, runner: StreamRunner) -> None:
        """Open streams may end by themselves for a while; the rest are cut."""
        self._draining = True
        if runner.open:
            self._observer.on_draining(len(runner.open), self._plan.drain_ns)
        self._drain.deadline = trio.current_time() + self._plan.drain_ns / NS_PER_S
        with self._drain:
            await loop.drained()
        for life in list(runner.open):
            life.leave(Outcome.CUT, "the run ended first")
        await loop.drained()

    def _enter_phase(self, phase: Phase) -> None:
        self._flush()
        self._gauge.measure(phase.measured)
        self._recorder.phase_started(phase.index)

    def _record(self, record: StreamRecord) -> None:
        if record.measured and record.started_ns is not None:
            self._data.health.lateness.record(record.started_ns - record.intended_ns + record.dial_lag_ns)
        self._recorder.stream_ended(record)
        self._on_record(record)

    def _flush(self) -> Interval:
        self._gauge.advance()
        health, reads = self._data.health, self._reads
        health.read_lag.record_many(reads.lag)
        del reads.lag[:]
        health.bounded_width.record_many(self._widths)
        del self._widths[:]
        return self._recorder.flush(self._clock.now_ns(), open_streams=self._gauge.open)

    def _progress(self) -> Progress:
        assert self._loop is not None
        elapsed_ns = self._clock.now_ns() - self._begin_ns
        return Progress(
            phase=None if self._draining else self._loop.phase,
            elapsed_s=elapsed_ns / NS_PER_S,
            left_s=max(self._plan.load_ns - elapsed_ns, 0) / NS_PER_S,
            open=self._gauge.open,
            asked=self._gauge.asked,
        )

    def _fill_health(self, cpu_s: float) -> None:
        health, gauge, reads = self._data.health, self._gauge, self._reads
        health.cpu_s = cpu_s
        health.wall_s = (self._clock.now_ns() - self._begin_ns) / NS_PER_S
        health.reads = reads.reads
        health.unstamped_reads = reads.unstamped_reads
        health.clock_steps = reads.clock_steps
        health.concurrency_asked = gauge.max_asked
        health.concurrency_mean_asked = gauge.mean_asked
        health.concurrency_mean = gauge.mean_open
        health.concurrency_max = gauge.max_open


@asynccontextmanager
async def _open_target(plan: Plan) -> AsyncIterator[Target]:
    """The workload's own target, or a simulated server started for this run."""
    if plan.sim is None:
        assert plan.target is not None
        yield plan.target
        return
    async with open_sim_process(plan.sim, seed=plan.seed) as sim:
        parts = urlsplit(sim.url)
        path = SIM_PATH[plan.dialect]
        yield Target(
            url=sim.url.rstrip("/") + path,
            scheme="http",
            host=parts.hostname or "127.0.0.1",
            port=parts.port or 80,
            path=path,
            dialect=plan.dialect,
        )


async def _socket_dialer(target: Target, plan: Plan, reads: ReadStats, background: trio.Nursery, clock: Clock) -> SocketDialer:
    """Resolve, prepare TLS, start the receive loop."""
    addresses = await resolve(target)
    receiver = receiver_for(reads, background)
    background.start_soon(receiver.run)
    name = plan.transport.tls.server_name or target.host
    return SocketDialer(addresses, receiver, clock, context=_context(target, plan), server_name=name)


def _context(target: Target, plan: Plan) -> ssl.SSLContext | None:
    return build_ssl_context(plan.transport.tls, alpn_of(plan.transport)) if target.scheme == "https" else None

"""One run of a plan, from the first connection to the last record.

    target (simulated or real) -> dialer -> pool -> runner -> closed loop -> drain -> what was measured

The background tasks (receive loop, ticker, signals) live in a nursery that outlives every stream.
"""

import gc
import signal
import ssl
import time
from array import array
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import urlsplit

import trio

from loadgen.clock import NS_PER_MS, NS_PER_S, Clock, SystemClock
from loadgen.dialect import build_dialect
from loadgen.engine.closed_loop import ClosedLoop
from loadgen.engine.concurrency import Concurrency, Limiter
from loadgen.engine.machine import raise_descriptor_limit
from loadgen.engine.stream import StreamRunner
from loadgen.engine.watch import Observer, Progress, Recording, Watcher
from loadgen.errors import LoadgenError
from loadgen.model import Outcome, StreamRecord
from loadgen.record.collector import Collector
from loadgen.record.hdr import Hdr
from loadgen.record.health import GeneratorHealth
from loadgen.record.recorder import Recorder
from loadgen.sim.process import open_sim_process
from loadgen.transport.control import first_model
from loadgen.transport.dial import Dialer, SocketDialer, resolve
from loadgen.transport.exchange import Exchange
from loadgen.transport.pool import ConnectionPool, alpn_of
from loadgen.transport.receive import Attention, ReadStats, receiver_for
from loadgen.transport.tls import build_ssl_context
from loadgen.workload.masking import mask_values
from loadgen.workload.plan import Phase, Plan, Target

INTERVAL_S: Final = 1.0
LOOP_SAMPLE_NS: Final = 20 * NS_PER_MS
# Where the simulated server speaks each dialect (sim.apis).
SIM_PATH: Final = {
    "openai-chat": "/v1/chat/completions",
    "openai-completions": "/v1/completions",
    "openai-responses": "/v1/responses",
    "anthropic-messages": "/v1/messages",
    "azure": "/openai/deployments/loadgen-sim/chat/completions?api-version=2024-10-21",
    "gemini": "/v1beta/models/loadgen-sim:streamGenerateContent?alt=sse",
    "llamacpp": "/completion",
    "mistral": "/mistral/v1/chat/completions",
    "ollama": "/api/chat",
    "ollama-generate": "/api/generate",
    "plain-sse": "/sse",
    "tgi": "/generate_stream",
    "triton": "/v2/models/loadgen-sim/generate_stream",
}

DialerFactory = Callable[[trio.Nursery, Clock], Dialer]


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

    def follow(self, other: "RunData") -> None:
        """Add a later round of the same plan."""
        self.duration_ns += other.duration_ns
        self.health.follow(other.health)
        self.interrupted = self.interrupted or other.interrupted
        self.unreachable = self.unreachable or other.unreachable


async def execute(
    plan: Plan,
    recorder: Recorder,
    observer: Observer,
    *,
    clock: Clock | None = None,
    dialer_factory: DialerFactory | None = None,
    handle_signals: bool = True,
    on_record: Callable[[StreamRecord], None] = lambda _: None,
    exchange_type: type[Exchange] = Exchange,
) -> RunData:
    """Run a plan in this process. Every stream ends in ``recorder`` (and ``on_record``); returns when all have ended.

    ``clock`` and ``dialer_factory`` are for tests in virtual time over memory streams. SIGINT (or SIGTERM) stops the
    load and drains; a second one cuts what is open. Cancelled, it loses the records of streams still open.
    ``exchange_type`` is for those who want to see every body byte.
    """
    data = RunData(plan=plan, target=plan.target, started_wall_ns=time.time_ns())
    watcher = Recording(recorder, observer)
    with ExitStack() as stack:
        interrupts = stack.enter_context(trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM)) if handle_signals else None
        try:
            async with open_target(plan) as target:
                watcher.on_target(target)
                await generate(
                    data,
                    replace(plan, target=target),
                    watcher,
                    clock=clock or SystemClock(),
                    dialer_factory=dialer_factory,
                    interrupts=interrupts,
                    on_record=on_record,
                    exchange_type=exchange_type,
                )
        except* LoadgenError as errors:  # no address, no model, or the simulated server did not start or died
            data.unreachable = "; ".join(str(e) for e in errors.exceptions)
    return data


async def generate(
    data: RunData,
    plan: Plan,
    watcher: Watcher,
    *,
    clock: Clock,
    interrupts: AsyncIterable[object] | None,
    on_record: Callable[[StreamRecord], None],
    dialer_factory: DialerFactory | None = None,
    gate: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
    exchange_type: type[Exchange] = Exchange,
) -> None:
    """The load of ``plan``, whose target must be known, into ``data`` and ``watcher``; for one process's share of a run too.

    Everything is ready when ``gate`` is awaited, and the load begins when it returns. The first item of ``interrupts`` stops
    the load and drains, the second one cuts what is open.
    """
    assert plan.target is not None
    data.target = plan.target
    if dialer_factory is None:
        raise_descriptor_limit(plan)
    async with trio.open_nursery() as background:
        reads, attention = ReadStats(), Attention()
        dialer = (
            await _socket_dialer(plan, reads, attention, background, clock)
            if dialer_factory is None
            else dialer_factory(background, clock)
        )
        await gate()
        pool = ConnectionPool(dialer, plan.transport, background, clock, plan.share)
        run = _Run(data, plan, watcher, clock, pool, reads, attention, on_record, exchange_type)
        if interrupts is not None:
            background.start_soon(run.watch_interrupts, interrupts)
        background.start_soon(run.tick)
        background.start_soon(run.watch_loop)
        begin_ns = clock.now_ns()
        try:
            with data.health.watching_gc(), _quiet_gc():
                await run.load()
        finally:
            data.duration_ns = clock.now_ns() - begin_ns
        background.cancel_scope.cancel()


@contextmanager
def _quiet_gc() -> Iterator[None]:
    """Keep the cyclic collector to the youngest objects: a full collection over 5,000 open streams stops all of them for 40 ms.

    Streams leave no cycles behind (tested); what survives its first collection is taken out of sight once a second.
    """
    before = gc.get_threshold()
    gc.set_threshold(2_000, 10_000, 10_000)
    gc.freeze()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


class _Run:
    """The moving parts of one run and how they end."""

    def __init__(
        self,
        data: RunData,
        plan: Plan,
        watcher: Watcher,
        clock: Clock,
        pool: ConnectionPool,
        reads: ReadStats,
        attention: Attention,
        on_record: Callable[[StreamRecord], None],
        exchange_type: type[Exchange],
    ) -> None:
        self._data = data
        self._plan = plan
        self._watcher = watcher
        self._clock = clock
        self._reads = reads
        self._attention = attention
        self._on_record = on_record
        self._exchange_type = exchange_type
        self._widths = array("q")
        self._gauge = Concurrency(clock)
        self._pool = pool
        self._begin_ns = clock.now_ns()
        self._collector = Collector(plan.phases, plan.slo, self._begin_ns)
        self._loop: ClosedLoop | None = None
        self._runner: StreamRunner | None = None
        self._drain = trio.CancelScope()
        self._draining = False

    async def load(self) -> None:
        """Everything from the first stream to the last record."""
        plan = self._plan
        assert plan.target is not None
        cpu_s = time.process_time()
        async with trio.open_nursery() as streams:
            self._runner = StreamRunner(
                plan=plan,
                target=plan.target,
                dialect=build_dialect(plan.dialect, plan.custom),
                clock=self._clock,
                pool=self._pool,
                limiter=Limiter(plan.limit, self._gauge),
                collector=self._collector,
                on_record=self._record,
                bounded_width=self._widths.append,
                attention=self._attention,
                exchange_type=self._exchange_type,
                nursery=streams,
            )
            self._loop = ClosedLoop(
                plan=plan, clock=self._clock, runner=self._runner, gauge=self._gauge, nursery=streams,
                on_phase=self._enter_phase, attention=self._attention,
            )  # fmt: skip
            if self._data.interrupted:  # before there was a loop to stop
                self._loop.stop()
            try:
                await self._loop.run()
            finally:
                self._flush()
                self._gauge.measure(False)
                self._collector.phase_started(None)
            await self._drain_streams(self._loop, self._runner)
        await self._pool.finish()
        self._data.unreachable = self._loop.unreachable
        self._flush()
        self._data.health.local_failure = self._runner.reach.local_failure
        self._fill_health(time.process_time() - cpu_s)

    async def tick(self) -> None:
        """Once a second: bucket what came, tell the watcher."""
        while True:
            await trio.sleep(INTERVAL_S)
            self._flush(self._progress())
            gc.freeze()

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

    async def watch_interrupts(self, interrupts: AsyncIterable[object]) -> None:
        async for _ in interrupts:
            if self._data.interrupted:
                self._drain.cancel()
                continue
            self._data.interrupted = True
            self._watcher.on_interrupt(self._gauge.open)
            if self._loop is not None:
                self._loop.stop()

    async def _drain_streams(self, loop: ClosedLoop, runner: StreamRunner) -> None:
        """Open streams may end by themselves for a while; the rest are cut."""
        self._draining = True
        if runner.open:
            self._watcher.on_draining(len(runner.open), self._plan.drain_ns)
        self._drain.deadline = trio.current_time() + self._plan.drain_ns / NS_PER_S
        with self._drain:
            await loop.drained()
        for life in list(runner.open):
            life.leave(Outcome.CUT, "the run ended first")
        await loop.drained()

    def _enter_phase(self, phase: Phase) -> None:
        self._flush()
        self._gauge.measure(phase.measured)
        self._collector.phase_started(phase.index)

    def _record(self, record: StreamRecord) -> None:
        if record.measured and record.started_ns is not None:
            self._data.health.lateness.record(record.started_ns - record.intended_ns + record.dial_lag_ns)
        record.detail = mask_values(record.detail, self._plan.secrets)  # servers say keys back: "Incorrect API key: sk-..."
        self._collector.stream_ended(record)
        self._on_record(record)

    def _flush(self, progress: Progress | None = None) -> None:
        self._gauge.advance()
        health, reads = self._data.health, self._reads
        lag = Hdr()
        lag.record_many(reads.lag)
        del reads.lag[:]
        health.read_lag.add(lag)
        health.bounded_width.record_many(self._widths)
        del self._widths[:]
        batch = self._collector.take(self._clock.now_ns(), open_streams=self._gauge.open, read_lag=lag)
        self._watcher.on_batch(batch, progress)

    def _progress(self) -> Progress | None:
        if self._loop is None:
            return None
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
async def open_target(plan: Plan) -> AsyncIterator[Target]:
    """The workload's own target, or a simulated server started for this run; its model is known then."""
    if plan.sim is None:
        target = plan.target
        assert target is not None
        if target.model == "auto":
            http2 = plan.transport.http == "2"
            target = replace(target, model=await first_model(target, _context(target, plan), http2=http2))
        yield target
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


async def _socket_dialer(
    plan: Plan, reads: ReadStats, attention: Attention, background: trio.Nursery, clock: Clock
) -> SocketDialer:
    """Resolve, prepare TLS, start the receive loop."""
    target, transport = plan.target, plan.transport
    assert target is not None
    addresses = await resolve(target)
    receiver = receiver_for(reads, attention, background, transport.read_spacing_ns / NS_PER_S)
    background.start_soon(receiver.run)
    name = transport.tls.server_name or target.host
    return SocketDialer(addresses, receiver, clock, context=_context(target, plan), server_name=name)


def _context(target: Target, plan: Plan) -> ssl.SSLContext | None:
    return build_ssl_context(plan.transport.tls, alpn_of(plan.transport)) if target.scheme == "https" else None

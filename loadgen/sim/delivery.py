"""Tokens out: every open stream's events are sent when the scheduler says so, stamped just before, and logged.

One task sends all tokens of all streams. Trio wakes it about a millisecond coarse; schedules are absolute, so it sends
everything that is due by then, and ``sent_ns`` says when that was. Behind a slow reader an event waits in its connection's
backlog; once that is full the stream is held, in steps of ``decode.step``, and what was not made has no stamp.
"""

import time
from array import array
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import trio

from loadgen.clock import NS_PER_MS, NS_PER_US, Clock, SystemClock
from loadgen.sim.http2 import StreamOutlet
from loadgen.sim.outlet import Outlet
from loadgen.sim.reply import Reply
from loadgen.sim.scheduler import END_STATES, Job, Scheduler, State
from loadgen.workload.sim_script import FaultKind, SimScript

LOG_STREAMS: Final = 20_000  # ended streams kept in the log; 100 tokens each make 16 MB
EARLY_NS: Final = 1 * NS_PER_MS  # how late a sleep of trio may end
# A turn of its own for one event, instead of sharing one with all that is due in the same millisecond, costs this much
# besides the spinning: 45 us a token against 20 at 20,000 tokens/s (benchmarks/sim_capacity.py).
TURN_NS: Final = 25 * NS_PER_US


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedStream:
    """What truly happened to one stream, on the server's clock. ``sent_ns``: one stamp an event (in a JSON answer: when made).

    ``state`` is an end state, or that of a stream that is still open; ``ended_ns`` is None then.
    """

    number: int
    state: State
    arrived_ns: int
    ended_ns: int | None
    prompt_tokens: int
    max_tokens: int
    tokens: int
    kv_blocks: int
    sent_ns: "array[int]"


@dataclass(eq=False, slots=True, kw_only=True)
class Stream:
    """A job with the connection it is sent on. ``over`` is cancelled when nothing more will be written to it."""

    job: Job
    outlet: Outlet | StreamOutlet
    reply: Reply
    last_write_ns: int
    over: trio.CancelScope = field(default_factory=trio.CancelScope)
    role_sent: bool = False
    hang_up: bool = False  # close the connection, the answer stays incomplete


class Delivery:
    """``submit`` and ``open`` a stream, ``abort`` it when its client leaves; ``run`` must be running.

    ``ended`` counts streams by end state, ``rejected`` those not let in, ``max_open`` is the most open at once.
    """

    def __init__(self, script: SimScript, clock: Clock) -> None:
        self.scheduler = Scheduler(script)
        self.log: deque[LoggedStream] = deque(maxlen=LOG_STREAMS)
        self.ended: Counter[State] = Counter()
        self.rejected = 0
        self.max_open = 0
        self._script = script
        self._clock = clock
        self._streams: dict[Job, Stream] = {}
        self._changed = trio.Event()
        self._begin_ns = clock.now_ns()
        self._spun_ns = 0  # time burnt on being precise: spinning, and turns that serve one event

    def submit(self, prompt_tokens: int, max_tokens: int) -> Job | None:
        """A job that arrives now; None when it is not let in. ``open`` or ``end`` it before the next checkpoint."""
        if not self.scheduler.accepts(prompt_tokens, max_tokens):
            self.rejected += 1
            return None
        job = self.scheduler.submit(prompt_tokens, max_tokens, self._clock.now_ns())
        self.max_open = max(self.max_open, self.scheduler.open)
        return job

    async def serve(
        self, job: Job, outlet: Outlet | StreamOutlet, reply: Reply, wait_for_disconnect: Callable[[], Awaitable[None]]
    ) -> bool:
        """Stay with one stream until it is over; True: the connection can be used again.

        ``wait_for_disconnect`` is awaited meanwhile, and when it returns the stream is aborted; so it is on cancellation.
        """
        stream = Stream(job=job, outlet=outlet, reply=reply, last_write_ns=job.arrived_ns)
        self._streams[job] = stream
        outlet.write(reply.head())
        self._changed.set()
        try:
            with stream.over:
                await self._wait(stream, wait_for_disconnect)
                return False
        finally:
            self.end(job, State.ABORTED)
        return not (stream.hang_up or reply.close)

    def end(self, job: Job, state: State) -> None:
        """The stream is over. Its slot and blocks are free at once. Only the first end counts."""
        if job.state in END_STATES:
            return
        now_ns = self._clock.now_ns()
        self.scheduler.end(job, state, now_ns)
        self._streams.pop(job, None)
        self.ended[state] += 1
        self.log.append(_describe(job, now_ns))
        self._changed.set()

    def reset(self) -> None:
        """Forget ended streams and start all counts anew; open streams go on."""
        self.log.clear()
        self.ended.clear()
        self.rejected = 0
        self.max_open = self.scheduler.open
        self.scheduler.generated_tokens = self.scheduler.prompt_tokens = 0

    def describe_open(self) -> Iterator[LoggedStream]:
        return (_describe(job, None) for job in self._streams)

    async def run(self) -> None:
        """Send tokens until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send_due)
            if self._script.heartbeat is not None:
                nursery.start_soon(self._beat, self._script.heartbeat)

    async def _send_due(self) -> None:
        scheduler, clock = self.scheduler, self._clock
        while True:
            self._changed = trio.Event()
            for job in scheduler.due(clock.now_ns()):
                self._send_event(self._streams[job])
            due_ns = scheduler.next_due_ns()
            if due_ns is None:
                await self._changed.wait()
            else:
                await self._wait_until(due_ns)

    async def _wait_until(self, due_ns: int) -> None:
        """Until the next event is due, or the schedule has changed.

        trio's sleeps end up to 1 ms late (epoll counts in ms). The last stretch is spent in short turns instead, so that
        events go out within microseconds of their time, as long as that burns about a tenth of a core; beyond
        that, under load, everything due goes out with each wake-up.
        """
        clock, changed = self._clock, self._changed
        now_ns = clock.now_ns()
        precise = isinstance(clock, SystemClock) and self._spun_ns * 10 < now_ns - self._begin_ns
        with trio.move_on_at(clock.trio_deadline(due_ns - EARLY_NS if precise else due_ns)):
            await changed.wait()
        if precise:
            begin_ns = now_ns = clock.now_ns()
            while now_ns < due_ns and not changed.is_set():
                await trio.lowlevel.checkpoint()
                now_ns = clock.now_ns()
            self._spun_ns += now_ns - begin_ns + TURN_NS

    def _send_event(self, stream: Stream) -> None:
        job, outlet, reply = stream.job, stream.outlet, stream.reply
        if job.fault is not None and job.produced >= job.fault.after and self._break(stream, job.fault.kind):
            return
        if outlet.full:
            self.scheduler.hold(job)
            return
        first = job.produced
        tokens = self.scheduler.produce(job)
        role = b"" if stream.role_sent else reply.role()
        stream.role_sent = True
        now_ns = stream.last_write_ns = self._clock.now_ns()
        data = reply.token(first, tokens, now_ns, time.time_ns())
        job.sent_ns.append(now_ns)
        outlet.write(role + data)
        if job.produced >= job.max_tokens:
            outlet.write(reply.finish(job.produced))
            self._close(stream, State.FINISHED)

    def _break(self, stream: Stream, kind: FaultKind) -> bool:
        """Break the stream as scripted; False for a fault that needs nothing to be done before the end."""
        if kind is FaultKind.NO_DONE:
            return False
        stream.outlet.write(stream.reply.fault(kind))
        if kind is FaultKind.STALL:
            self.end(stream.job, State.FAULT)  # but its connection stays open, and silent
            return True
        if kind is FaultKind.RESET:
            stream.outlet.set_reset_on_close()
        stream.hang_up = kind in {FaultKind.RESET, FaultKind.CUT_IN_CHUNK}
        self._close(stream, State.FAULT)
        return True

    def _close(self, stream: Stream, state: State) -> None:
        self.end(stream.job, state)
        stream.over.cancel()

    async def _wait(self, stream: Stream, wait_for_disconnect: Callable[[], Awaitable[None]]) -> None:
        """Until the client leaves; the early role chunk is sent in between, queued or not."""
        if self._script.role_first is not None:
            with trio.move_on_at(self._clock.trio_deadline(stream.job.arrived_ns + self._script.role_first)):
                await wait_for_disconnect()
                return
            if not stream.role_sent:
                stream.role_sent = True
                stream.last_write_ns = self._clock.now_ns()
                stream.outlet.write(stream.reply.role())
        await wait_for_disconnect()

    async def _beat(self, every_ns: int) -> None:
        """A comment on each stream that has been silent for so long."""
        clock = self._clock
        while True:
            # Whoever comes while this sleeps is due later than whom it sleeps for.
            oldest_ns = min((s.last_write_ns for s in self._streams.values()), default=clock.now_ns())
            await trio.sleep_until(clock.trio_deadline(oldest_ns + every_ns))
            now_ns = clock.now_ns()
            for stream in self._streams.values():
                if now_ns - stream.last_write_ns >= every_ns:
                    stream.last_write_ns = now_ns
                    stream.outlet.write(stream.reply.ping())


def _describe(job: Job, ended_ns: int | None) -> LoggedStream:
    return LoggedStream(
        number=job.number, state=job.state, arrived_ns=job.arrived_ns, ended_ns=ended_ns, prompt_tokens=job.prompt_tokens,
        max_tokens=job.max_tokens, tokens=job.produced, kv_blocks=job.blocks, sent_ns=job.sent_ns,
    )  # fmt: skip

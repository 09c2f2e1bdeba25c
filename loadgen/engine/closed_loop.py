"""The closed loop: so many slots, each of which starts its next stream when the last one has ended.

How many slots are wanted follows the phases over time. A jump upwards is spread out (``PACE_NS`` a stream) so that 10,000
streams do not arrive as one SYN storm, and waits while this side is ``crowded``: starting streams takes more of the generator
than carrying them, and must not make it late for those that run. A jump downwards retires slots as their streams end, none
is cut.
"""

from collections.abc import Callable
from random import Random
from typing import Final

import trio

from loadgen.clock import NS_PER_MS, NS_PER_S, Clock
from loadgen.engine.concurrency import Concurrency
from loadgen.engine.stream import StreamRunner
from loadgen.model import Outcome, StreamRecord
from loadgen.transport.receive import Attention
from loadgen.workload.plan import Phase, Plan

PACE_NS: Final = 1 * NS_PER_MS
MAX_RISE_SHARE: Final = 2  # a jump takes at most half of its phase
LOOK_AHEAD_NS: Final = 100 * NS_PER_MS
CROWDED_WAIT_NS: Final = 2 * NS_PER_MS

# Ended before its first event: the slot pauses, so that a server that refuses, or that is left at once, is not hammered.
_REFUSALS: Final = frozenset({
    Outcome.ABORTED,
    Outcome.REJECTED, Outcome.HTTP_ERROR, Outcome.CONNECT_ERROR, Outcome.TLS_ERROR, Outcome.RESET, Outcome.GOAWAY,
    Outcome.PROTOCOL_ERROR, Outcome.PROVIDER_ERROR, Outcome.TRUNCATED, Outcome.DROPPED,
})  # fmt: skip


def asked_at(phase: Phase, before: int, into_ns: int) -> int:
    """Streams wanted ``into_ns`` after the phase began, when ``before`` were open at its begin.

    The phase's own shape, but rising from ``before`` no faster than one stream per ``PACE_NS`` over all processes (faster
    where that would take more than half of the phase).
    """
    shape = phase.streams_at(into_ns)
    if shape <= before:
        return shape
    return min(shape, before + 1 + into_ns // pace_of(phase, shape - before))


def pace_of(phase: Phase, jump: int) -> int:
    """How many ns lie between two starts when the phase rises by ``jump`` streams."""
    return max(min(PACE_NS * phase.share.count, phase.duration_ns // MAX_RISE_SHARE // max(jump, 1)), 1)


def next_change(phase: Phase, before: int, into_ns: int) -> int:
    """When to look again: the earliest change of ``asked_at`` after ``into_ns``, at most ``LOOK_AHEAD_NS`` away.

    Once a hold has all its streams there is nothing to look for before its end.
    """
    now = asked_at(phase, before, into_ns)
    if phase.level and now == phase.streams_at(0):
        return phase.duration_ns
    low, high = into_ns, min(into_ns + LOOK_AHEAD_NS, phase.duration_ns)
    if asked_at(phase, before, high) == now:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if asked_at(phase, before, middle) == now:
            low = middle
        else:
            high = middle
    return high


class ClosedLoop:
    """Drives slots through the phases of a plan. ``run`` returns when the load is over; open streams go on."""

    def __init__(
        self,
        *,
        plan: Plan,
        clock: Clock,
        runner: StreamRunner,
        gauge: Concurrency,
        nursery: trio.Nursery,
        on_phase: Callable[[Phase], None],
        attention: Attention,
    ) -> None:
        self.stopped = trio.Event()
        self.phase: Phase = plan.phases[0]
        self.active = 0  # slots that exist
        self.unreachable = ""
        self._plan = plan
        self._clock = clock
        self._runner = runner
        self._gauge = gauge
        self._nursery = nursery
        self._on_phase = on_phase
        self._attention = attention
        self._wanted = 0
        self._streams = 0
        self._idle = trio.Event()

    async def run(self) -> None:
        begin_ns = self._clock.now_ns()
        for phase in self._plan.phases:
            if self.stopped.is_set():
                break
            self.phase = phase
            self._on_phase(phase)
            await self._run_phase(phase, begin_ns)
            begin_ns += phase.duration_ns
        self.stop()

    def stop(self) -> None:
        """Start no more streams."""
        self.stopped.set()
        self._want(0)

    async def drained(self) -> None:
        """Wait until every slot has retired; call it after the load is over."""
        while self.active:
            self._idle = trio.Event()
            await self._idle.wait()

    async def _run_phase(self, phase: Phase, begin_ns: int) -> None:
        before, into_ns = self._wanted, 0
        while into_ns < phase.duration_ns:
            wanted = asked_at(phase, before, into_ns)
            # What could not be started while it was crowded is made up for at twice the pace, not all at once.
            self._want(wanted, most=1 + 2 * CROWDED_WAIT_NS // pace_of(phase, phase.streams_at(into_ns) - before))
            change_ns = next_change(phase, before, into_ns)
            if self.active < self._wanted:
                change_ns = min(change_ns, into_ns + CROWDED_WAIT_NS)
            with trio.move_on_at(self._clock.trio_deadline(begin_ns + change_ns)):
                await self.stopped.wait()
                return
            into_ns = max(change_ns, self._clock.now_ns() - begin_ns)

    def _want(self, streams: int, most: int = 0) -> None:
        """So many slots from now on; ``most`` of them may be new at this moment."""
        self._wanted = streams
        limit = self._plan.limit
        self._gauge.ask(streams if limit is None else min(streams, limit.streams))
        for _ in range(min(streams - self.active, most)):
            if self._attention.crowded:
                break
            self.active += 1
            self._nursery.start_soon(self._slot, self._clock.now_ns())

    async def _slot(self, intended_ns: int) -> None:
        """One virtual user: streams one after another while it is wanted."""
        while not self.stopped.is_set() and self.active <= self._wanted:
            record = self._new_record(intended_ns)
            rng = Random(f"{self._plan.seed}/{record.stream}")
            kind = self._plan.request_of(record.stream, rng)
            record.request = kind.index
            await self._runner.run(record, kind, rng)
            self._look_for_target()
            if record.outcome in _REFUSALS and record.first_event_ns is None:
                await self._pause(refused=record.outcome is not Outcome.DROPPED)
            intended_ns = self._clock.now_ns()
        self.active -= 1
        if not self.active:
            self._idle.set()

    def _new_record(self, intended_ns: int) -> StreamRecord:
        share = self._plan.share
        stream = self._plan.first_stream + self._streams * share.count + share.index
        self._streams += 1
        return StreamRecord(
            stream=stream,
            phase=self.phase.index,
            measured=self.phase.measured,
            intended_ns=intended_ns,
            variant=self._plan.variant,
        )

    async def _pause(self, *, refused: bool) -> None:
        """``refused``: the target's doing, so that the generator owes one stream less meanwhile; a full limit is ours."""
        self._gauge.pause(+refused)
        with trio.move_on_after(self._plan.failure_pause_ns / NS_PER_S):
            await self.stopped.wait()
        self._gauge.pause(-refused)

    def _look_for_target(self) -> None:
        """Give the run up when every slot has tried once and nobody has ever got a connection."""
        reach = self._runner.reach
        if not reach.connections and reach.failures >= max(self.active, 1) and not self.unreachable:
            self.unreachable = reach.last_failure
            self.stop()

r"""The simulated engine: admission, prefill, decode steps, KV blocks. Pure bookkeeping in ns; knows no clock and no I/O.

    submit -> waiting -> prefill -> decode -> finished
                 \________ end at any point: slot and blocks are free at once

Admission is first come, first served: a stream starts when a batch slot is free and the KV blocks of its whole length
(prompt and max_tokens) are. It holds them until it ends, as TGI does it; vLLM takes blocks token by token and preempts
streams when they run out, which would make the known truth depend on who came when.

Pace ``own``: see ``schedule``. Pace ``batched``: one step clock. Every decoding stream gets one event at each step; a stream
whose prefill is over gets its first one at the next step, or at once when no stream is decoding. The length of a step is
fixed when it begins: ``step + per_stream * decoding streams``, jitter applied.
"""

import heapq
from array import array
from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Final

from loadgen.sim.schedule import StreamSchedule, vary
from loadgen.workload.sim_script import Fault, Pace, SimScript


class State(StrEnum):
    """Where a job is. The last three are ends."""

    WAITING = "waiting"
    PREFILL = "prefill"
    DECODE = "decode"
    FINISHED = "finished"
    ABORTED = "aborted"  # its client left
    FAULT = "fault"  # a scripted fault ended it


END_STATES: Final = frozenset({State.FINISHED, State.ABORTED, State.FAULT})


@dataclass(eq=False, slots=True, kw_only=True)
class Job:
    """One request in the engine. ``due_ns``: when its next event is due (pace own, or prefill)."""

    number: int
    prompt_tokens: int
    max_tokens: int
    arrived_ns: int
    blocks: int
    schedule: StreamSchedule
    state: State = State.WAITING
    produced: int = 0
    due_ns: int = 0
    sent_ns: "array[int]" = field(default_factory=lambda: array("q"))  # one an event, filled by whoever sends them

    @property
    def fault(self) -> Fault | None:
        return self.schedule.fault


class Scheduler:
    """``submit`` jobs, ``end`` them, ask ``due`` for those whose event is due and ``produce`` or ``hold`` each."""

    def __init__(self, script: SimScript) -> None:
        self.waiting: deque[Job] = deque()
        self.running: dict[Job, None] = {}  # in prefill or decode, in order of admission
        self.blocks_used = 0
        self.generated_tokens = 0
        self.prompt_tokens = 0
        self._script = script
        self._heap: list[tuple[int, int, Job]] = []  # prefills; with pace own every event. At most one entry a job
        self._batch: dict[Job, None] = {}  # decoding jobs, pace batched
        self._last_step_ns = 0
        self._step_ns: int | None = None  # the step under way ends then; of no meaning while the batch is empty
        self._step_rng = Random(f"{script.seed or 0}/steps")
        self._numbers = 0

    @property
    def open(self) -> int:
        return len(self.running) + len(self.waiting)

    def accepts(self, prompt_tokens: int, max_tokens: int) -> bool:
        """Whether such a stream would be let in or queued; False: answer 429."""
        if self._script.reject_above is not None and self.open >= self._script.reject_above:
            return False
        at_once = not self.waiting and self._has_room(self._blocks(prompt_tokens + max_tokens))
        return at_once or len(self.waiting) < self._script.queue

    def fits(self, prompt_tokens: int, max_tokens: int) -> bool:
        """Whether such a stream can ever be held."""
        return self._blocks(prompt_tokens + max_tokens) <= self._script.kv.blocks

    def submit(self, prompt_tokens: int, max_tokens: int, now_ns: int) -> Job:
        """A new job, numbered from 0. ``fits`` must hold, or it would wait for ever and all behind it."""
        job = Job(
            number=self._numbers,
            prompt_tokens=prompt_tokens,
            max_tokens=max_tokens,
            arrived_ns=now_ns,
            blocks=self._blocks(prompt_tokens + max_tokens),
            schedule=StreamSchedule(self._script, self._numbers),
        )
        self._numbers += 1
        self.waiting.append(job)
        self._admit(now_ns)
        return job

    def end(self, job: Job, state: State, now_ns: int) -> None:
        """Take a job out in one of the end states. Frees its slot and blocks; others may move up. Idempotent."""
        if job.state is State.WAITING:
            self.waiting.remove(job)
        elif job in self.running:
            del self.running[job]
            self.blocks_used -= job.blocks
            self._batch.pop(job, None)
        else:
            return
        job.state = state
        self._admit(now_ns)

    def next_due_ns(self) -> int | None:
        """When ``due`` will have something; None: not before a ``submit``."""
        if self._batch:
            return self._end_of_step()
        while self._heap and self._heap[0][2] not in self.running:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def due(self, now_ns: int) -> list[Job]:
        """Jobs whose next event is due, each once; ``produce``, ``hold`` or ``end`` each, then ask again."""
        return self._due_step(now_ns) if self._script.pace is Pace.BATCHED else self._pop_until(now_ns)

    def produce(self, job: Job) -> int:
        """Count the tokens of one event of a due job; how many they are. Plans the job's next event."""
        tokens = min(self._script.tokens_per_event, job.max_tokens - job.produced)
        job.produced += tokens
        self.generated_tokens += tokens
        job.state = State.DECODE
        if self._script.pace is Pace.OWN:
            self._plan(job, job.due_ns + job.schedule.gap_ns())
        return tokens

    def hold(self, job: Job) -> None:
        """The reader cannot take the due event now: try again one step later."""
        if self._script.pace is Pace.OWN:
            self._plan(job, job.due_ns + self._script.decode.step)

    def _admit(self, now_ns: int) -> None:
        while self.waiting and self._has_room(self.waiting[0].blocks):
            job = self.waiting.popleft()
            self.running[job] = None
            self.blocks_used += job.blocks
            self.prompt_tokens += job.prompt_tokens
            job.state = State.PREFILL
            self._plan(job, now_ns + job.schedule.prefill_ns(job.prompt_tokens))

    def _has_room(self, blocks: int) -> bool:
        return len(self.running) < self._script.max_batch and self.blocks_used + blocks <= self._script.kv.blocks

    def _plan(self, job: Job, due_ns: int) -> None:
        job.due_ns = due_ns
        heapq.heappush(self._heap, (due_ns, job.number, job))

    def _pop_until(self, until_ns: int) -> list[Job]:
        jobs = []
        while self._heap and self._heap[0][0] <= until_ns:
            job = heapq.heappop(self._heap)[2]
            if job in self.running:  # it may have ended since it was planned
                jobs.append(job)
        return jobs

    def _due_step(self, now_ns: int) -> list[Job]:
        """The batch, when its step is over by now. Prefills that were over by then have joined it."""
        end_ns = self._end_of_step() if self._batch else self.next_due_ns()
        if end_ns is None or end_ns > now_ns:
            return []
        self._batch.update(dict.fromkeys(self._pop_until(end_ns)))
        self._last_step_ns, self._step_ns = end_ns, None
        return list(self._batch)

    def _end_of_step(self) -> int:
        if self._step_ns is None:
            decode = self._script.decode
            length_ns = decode.step + decode.per_stream * len(self._batch)
            self._step_ns = self._last_step_ns + vary(length_ns, self._script.jitter, self._step_rng)
        return self._step_ns

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self._script.kv.block_tokens)

"""The simulated engine: admission, prefill, decode steps, KV blocks. Pure bookkeeping in ns; knows no clock and no I/O.

    submit -> waiting -> prefill -> decode -> finished
        cancel at any point: slot and blocks are free at once

A stream is admitted when a batch slot is free and the blocks of its whole length fit beside what is promised already, so no
admitted stream ever waits for memory; what ``blocks_used`` shows grows token by token.
"""

import heapq
from array import array
from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random

from loadgen.workload.sim_script import Fault, Pace, SimScript


class State(StrEnum):
    WAITING = "waiting"
    PREFILL = "prefill"
    DECODE = "decode"
    FINISHED = "finished"
    ABORTED = "aborted"
    FAULT = "fault"


@dataclass(eq=False, slots=True)
class Job:
    """One request in the engine. ``due_ns``: when its next token is due; ``produced``: tokens so far."""

    number: int
    prompt_tokens: int
    max_tokens: int
    arrived_ns: int
    rng: Random
    fault: Fault | None = None
    state: State = State.WAITING
    produced: int = 0
    due_ns: int = 0
    sent_ns: "array[int]" = field(default_factory=lambda: array("q"))  # filled by whoever sends the tokens


class Scheduler:
    """``submit`` jobs, ``cancel`` them, and ask ``due`` for the tokens that are due by a moment."""

    def __init__(self, script: SimScript) -> None:
        self.waiting: deque[Job] = deque()
        self.running: dict[Job, None] = {}
        self.generated_tokens = 0
        self.prompt_tokens = 0
        self._script = script
        self._heap: list[tuple[int, int, Job]] = []  # due prefills, and every token where each stream has its own pace
        self._step_ns: int | None = None  # the next decode step of the batch
        self._promised = 0
        self._numbers = 0

    @property
    def open(self) -> int:
        return len(self.running) + len(self.waiting)

    @property
    def blocks_used(self) -> int:
        return sum(self._blocks(job.prompt_tokens + job.produced) for job in self.running)

    def accepts(self) -> bool:
        """Whether another stream would be let in or queued; False: 429."""
        script = self._script
        if script.reject_above is not None and self.open >= script.reject_above:
            return False
        return len(self.running) < script.max_batch or len(self.waiting) < script.queue

    def fits(self, tokens: int) -> bool:
        """Whether a stream of so many tokens can ever be held."""
        return self._blocks(tokens) <= self._script.kv.blocks

    def submit(self, prompt_tokens: int, max_tokens: int, now_ns: int) -> Job:
        """A new job. The same seed and order of submission give the same schedule."""
        rng = Random(f"{self._script.seed}/{self._numbers}")
        job = Job(self._numbers, prompt_tokens, max_tokens, now_ns, rng, self._draw_fault(rng))
        self._numbers += 1
        self.waiting.append(job)
        self._admit(now_ns)
        return job

    def end(self, job: Job, state: State, now_ns: int) -> None:
        """Take a job out: it finished, failed, or its client left. Frees its slot and blocks; others may move up."""
        if job.state is State.WAITING:
            self.waiting.remove(job)
        elif job in self.running:
            del self.running[job]
            self._promised -= self._blocks(job.prompt_tokens + job.max_tokens)
        else:
            return
        job.state = state
        self._admit(now_ns)

    def next_due_ns(self) -> int | None:
        """When ``due`` will have something; None: nothing is running."""
        while self._heap and not self._is_current(self._heap[0]):
            heapq.heappop(self._heap)
        moments = [self._heap[0][0]] if self._heap else []
        if self._step_ns is not None:
            moments.append(self._step_ns)
        return min(moments, default=None)

    def due(self, now_ns: int) -> list[Job]:
        """Jobs whose next event is due, once for each event; call ``produce`` for each, in order."""
        jobs: list[Job] = []
        while self._heap and self._heap[0][0] <= now_ns:
            entry = heapq.heappop(self._heap)
            if self._is_current(entry):
                jobs.append(entry[2])
        if self._step_ns is not None and self._step_ns <= now_ns:
            decoding = [job for job in self.running if job.state is State.DECODE]
            jobs += decoding
            self._step_ns = self._step_ns + self._step_length(len(decoding)) if decoding else None
        return jobs

    def produce(self, job: Job) -> int:
        """Count the tokens of one event of a due job; how many they are. Plans the job's next event."""
        tokens = min(self._script.tokens_per_event, job.max_tokens - job.produced)
        job.produced += tokens
        self.generated_tokens += tokens
        first, job.state = job.state is State.PREFILL, State.DECODE
        if self._script.pace is Pace.OWN:
            job.due_ns += self._vary(job, self._script.decode.step)
            heapq.heappush(self._heap, (job.due_ns, job.number, job))
        elif first and self._step_ns is None:
            self._step_ns = job.due_ns + self._step_length(1)
        return tokens

    def hold(self, job: Job) -> None:
        """The reader cannot take the due event now: try again one step later."""
        if job.state is State.PREFILL or self._script.pace is Pace.OWN:
            job.due_ns += self._script.decode.step
            heapq.heappush(self._heap, (job.due_ns, job.number, job))

    def _admit(self, now_ns: int) -> None:
        script = self._script
        while self.waiting and len(self.running) < script.max_batch:
            job = self.waiting[0]
            blocks = self._blocks(job.prompt_tokens + job.max_tokens)
            if self._promised + blocks > script.kv.blocks:
                return
            self.waiting.popleft()
            self._promised += blocks
            self.running[job] = None
            self.prompt_tokens += job.prompt_tokens
            job.state = State.PREFILL
            prefill_ns = script.prefill.base + script.prefill.per_token * job.prompt_tokens
            job.due_ns = now_ns + self._vary(job, prefill_ns)
            heapq.heappush(self._heap, (job.due_ns, job.number, job))

    def _is_current(self, entry: tuple[int, int, Job]) -> bool:
        due_ns, _, job = entry
        return job in self.running and job.due_ns == due_ns

    def _step_length(self, running: int) -> int:
        decode = self._script.decode
        return decode.step + decode.per_stream * running

    def _vary(self, job: Job, ns: int) -> int:
        jitter = self._script.jitter
        return ns if not jitter else round(ns * job.rng.uniform(1 - jitter, 1 + jitter))

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self._script.kv.block_tokens)

    def _draw_fault(self, rng: Random) -> Fault | None:
        draw = rng.random()
        for fault in self._script.faults:
            if draw < fault.share:
                return fault
            draw -= fault.share
        return None

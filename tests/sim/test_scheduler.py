"""The engine's bookkeeping: who runs when, who waits, and that nothing is ever lost or counted twice."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from loadgen.sim.schedule import plan_events
from loadgen.sim.scheduler import END_STATES, Job, Scheduler, State
from loadgen.workload.sim_script import Pace, SimScript

MS = 1_000_000


def scheduler(**keys: Any) -> Scheduler:
    return Scheduler(SimScript.model_validate(keys))


def run(engine: Scheduler, until_ns: int) -> list[tuple[int, int]]:
    """Let the engine make tokens up to a moment: (when, number of the job), in order."""
    made = []
    while (due_ns := engine.next_due_ns()) is not None and due_ns <= until_ns:
        for job in engine.due(due_ns):
            engine.produce(job)
            made.append((due_ns, job.number))
            if job.produced >= job.max_tokens:
                engine.end(job, State.FINISHED, due_ns)
    return made


def test_own_pace_follows_the_plan_of_each_stream() -> None:
    script = SimScript.model_validate({"pace": "own", "jitter": "20%", "prefill": {"per_token": "1ms"}})
    engine = Scheduler(script)
    arrivals = [0, 3 * MS, 5 * MS]
    for number, at_ns in enumerate(arrivals):
        engine.submit(10 * number + 1, 5, at_ns)
    made = run(engine, 10**12)
    for number, at_ns in enumerate(arrivals):
        plan = plan_events(script, number, 10 * number + 1, 5)
        assert [when - at_ns for when, who in made if who == number] == plan


def test_a_late_call_does_not_move_the_schedule() -> None:
    engine = scheduler(ttft="100ms", itl="20ms")
    job = engine.submit(1, 3, 0)
    assert engine.due(99 * MS) == []
    assert engine.due(115 * MS) == [job]
    engine.produce(job)
    assert engine.next_due_ns() == 120 * MS


def test_batched_streams_share_one_step_clock() -> None:
    engine = scheduler(prefill={"base": "100ms"}, decode={"step": "20ms"})
    engine.submit(1, 4, 0)
    engine.submit(1, 2, 7 * MS)  # its prefill ends at 107: it joins the step that ends at 120
    assert run(engine, 10**12) == [
        (100 * MS, 0), (120 * MS, 0), (120 * MS, 1), (140 * MS, 0), (140 * MS, 1), (160 * MS, 0),
    ]  # fmt: skip


def test_step_grows_with_the_streams_that_decode() -> None:
    engine = scheduler(prefill={"base": "100ms"}, decode={"step": "20ms", "per_stream": "1ms"})
    engine.submit(1, 4, 0)
    engine.submit(1, 2, 0)
    made = run(engine, 10**12)
    # Two decode until 122, where stream 1 has its two tokens; the rest is stream 0 alone.
    assert made == [(100 * MS, 0), (100 * MS, 1), (122 * MS, 0), (122 * MS, 1), (143 * MS, 0), (164 * MS, 0)]


def test_idle_engine_starts_at_once() -> None:
    engine = scheduler(prefill={"base": "100ms"}, decode={"step": "20ms"})
    engine.submit(1, 1, 0)
    engine.submit(1, 1, 13 * MS)
    assert run(engine, 10**12) == [(100 * MS, 0), (113 * MS, 1)]


def test_batch_that_was_left_in_a_step_is_idle() -> None:
    engine = scheduler(prefill={"base": "100ms"}, decode={"step": "20ms"})
    leaver = engine.submit(1, 9, 0)
    engine.submit(1, 2, 5 * MS)
    assert engine.due(100 * MS) == [leaver]
    engine.produce(leaver)
    assert engine.next_due_ns() == 120 * MS
    engine.end(leaver, State.ABORTED, 103 * MS)
    assert run(engine, 10**12) == [(105 * MS, 1), (125 * MS, 1)]


def test_late_step_leaves_out_whom_it_came_before() -> None:
    engine = scheduler(prefill={"base": "100ms"}, decode={"step": "20ms"})
    first = engine.submit(1, 9, 0)
    second = engine.submit(1, 9, 5 * MS)
    assert engine.due(100 * MS) == [first]
    engine.produce(first)
    third = engine.submit(1, 9, 25 * MS)
    assert engine.due(126 * MS) == [first, second]  # the step of 120, late; the third's prefill ended at 125
    assert engine.due(126 * MS) == []
    assert engine.due(140 * MS) == [first, second, third]


def test_batched_jitter_varies_the_step_of_all() -> None:
    engine = scheduler(jitter="10%")
    for _ in range(3):
        engine.submit(1, 50, 0)
    moments = sorted({when for when, _ in run(engine, 10**12)})
    gaps = [b - a for a, b in pairwise(moments[3:])]
    assert all(18 * MS <= gap <= 22 * MS for gap in gaps)
    assert len(set(gaps)) > 30


def test_tokens_per_event() -> None:
    engine = scheduler(tokens_per_event=4, pace="own")
    job = engine.submit(1, 9, 0)
    made = run(engine, 10**12)
    assert len(made) == 3
    assert (job.produced, engine.generated_tokens) == (9, 9)


@pytest.mark.parametrize("pace", list(Pace))
def test_full_batch_waits_in_order(pace: Pace) -> None:
    engine = scheduler(pace=pace, max_batch=2, prefill={"base": "100ms"}, decode={"step": "20ms"})
    jobs = [engine.submit(1, tokens, 0) for tokens in (1, 3, 1, 1)]
    assert [job.state for job in jobs] == [State.PREFILL, State.PREFILL, State.WAITING, State.WAITING]
    made = run(engine, 10**12)
    assert [(when // MS, who) for when, who in made if who > 1] == [(200, 2), (240, 3)]  # slots were free at 100 and 140


def test_blocks_are_rounded_up_and_held_to_the_end() -> None:
    engine = scheduler(kv={"blocks": 10, "block_tokens": 16})
    job = engine.submit(1, 16, 0)
    assert (job.blocks, engine.blocks_used) == (2, 2)
    run(engine, 10**12)
    assert engine.blocks_used == 0


def test_stream_without_blocks_waits_and_those_behind_it_too() -> None:
    engine = scheduler(kv={"blocks": 10, "block_tokens": 1}, prefill={"base": "100ms"})
    first, big, small = (engine.submit(1, tokens, 0) for tokens in (5, 8, 1))
    assert [j.state for j in (first, big, small)] == [State.PREFILL, State.WAITING, State.WAITING]
    engine.end(first, State.ABORTED, 50 * MS)
    assert (big.state, engine.blocks_used, big.due_ns) == (State.PREFILL, 9, 150 * MS)
    assert small.state is State.WAITING


def test_waiting_stream_may_leave() -> None:
    engine = scheduler(max_batch=1)
    first, second, third = (engine.submit(1, 1, 0) for _ in range(3))
    engine.end(second, State.ABORTED, 1)
    assert list(engine.waiting) == [third]
    engine.end(first, State.ABORTED, 2)
    assert list(engine.running) == [third]


@pytest.mark.parametrize("queue", [0, 2])
def test_queue_is_bounded_whatever_is_scarce(queue: int) -> None:
    by_slots = scheduler(max_batch=1, queue=queue)
    by_blocks = scheduler(kv={"blocks": 2, "block_tokens": 1}, queue=queue)
    for engine in (by_slots, by_blocks):
        let_in = 0
        while engine.accepts(1, 1):
            engine.submit(1, 1, 0)
            let_in += 1
        assert let_in == 1 + queue


def test_reject_above_counts_those_who_wait() -> None:
    engine = scheduler(max_batch=1, reject_above=3)
    for _ in range(3):
        assert engine.accepts(1, 1)
        engine.submit(1, 1, 0)
    assert not engine.accepts(1, 1)


def test_fits() -> None:
    engine = scheduler(kv={"blocks": 2, "block_tokens": 16})
    assert engine.fits(16, 16)
    assert not engine.fits(17, 16)


@pytest.mark.parametrize("pace", list(Pace))
def test_held_stream_comes_a_step_later(pace: Pace) -> None:
    engine = scheduler(pace=pace, prefill={"base": "100ms"}, decode={"step": "20ms"})
    job = engine.submit(1, 2, 0)
    assert engine.due(100 * MS) == [job]
    engine.hold(job)
    assert engine.next_due_ns() == 120 * MS
    assert engine.due(120 * MS) == [job]
    assert engine.produce(job) == 1


class Engine(RuleBasedStateMachine):
    """Streams come, run, are held and leave in any order."""

    @initialize(pace=st.sampled_from(list(Pace)), max_batch=st.integers(1, 4), blocks=st.integers(4, 12))
    def start(self, pace: Pace, max_batch: int, blocks: int) -> None:
        keys = {"pace": pace, "max_batch": max_batch, "queue": 3, "kv": {"blocks": blocks, "block_tokens": 4}}
        self.script = SimScript.model_validate(keys | {"jitter": "30%", "decode": {"step": "5ms", "per_stream": "1ms"}})
        self.engine = Scheduler(self.script)
        self.now_ns = 0
        self.jobs: list[Job] = []

    @rule(prompt=st.integers(1, 20), tokens=st.integers(1, 20))
    def arrive(self, prompt: int, tokens: int) -> None:
        if self.engine.fits(prompt, tokens) and self.engine.accepts(prompt, tokens):
            self.jobs.append(self.engine.submit(prompt, tokens, self.now_ns))

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        self.engine.end(data.draw(st.sampled_from(self.jobs)), State.ABORTED, self.now_ns)

    @rule(wait_ns=st.integers(0, 400 * MS), hold=st.booleans())
    def advance(self, wait_ns: int, hold: bool) -> None:
        self.now_ns += wait_ns
        due = self.engine.due(self.now_ns)
        assert len(due) == len(set(due))
        for job in due:
            assert job in self.engine.running
            if hold:
                self.engine.hold(job)
                continue
            self.engine.produce(job)
            assert job.produced <= job.max_tokens
            if job.produced == job.max_tokens:
                self.engine.end(job, State.FINISHED, self.now_ns)

    @invariant()
    def counts_agree(self) -> None:
        if not hasattr(self, "engine"):
            return
        engine, kv = self.engine, self.script.kv
        assert engine.blocks_used == sum(job.blocks for job in engine.running)
        assert 0 <= engine.blocks_used <= kv.blocks
        assert len(engine.running) <= self.script.max_batch
        assert len(engine.waiting) <= self.script.queue
        assert {*engine.running, *engine.waiting} == {job for job in self.jobs if job.state not in END_STATES}
        assert engine.generated_tokens == sum(job.produced for job in self.jobs)
        if engine.waiting:  # the head of the queue waits for something
            full = len(engine.running) == self.script.max_batch
            assert full or engine.blocks_used + engine.waiting[0].blocks > kv.blocks

    def teardown(self) -> None:
        """Whatever happened, everything left runs to its end and nothing is held any more."""
        if not hasattr(self, "engine"):
            return
        run(self.engine, 10**15)
        assert (self.engine.open, self.engine.blocks_used) == (0, 0)
        assert self.engine.next_due_ns() is None
        assert all(job.state in END_STATES for job in self.jobs)


TestEngine = Engine.TestCase
TestEngine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)

"""Schedules: exact without jitter, within it with, and the same for the same seed and number."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from loadgen.sim.schedule import StreamSchedule, plan_events
from loadgen.workload.sim_script import FaultKind, SimScript

MS = 1_000_000


def script(**keys: object) -> SimScript:
    return SimScript.model_validate(keys)


def test_own_pace_is_absolute() -> None:
    assert plan_events(script(ttft="250ms", itl="20ms"), 0, 1, 4) == [250 * MS, 270 * MS, 290 * MS, 310 * MS]


def test_prompt_tokens_lengthen_the_prefill() -> None:
    assert plan_events(script(prefill={"base": "10ms", "per_token": "1ms"}), 3, 40, 1) == [50 * MS]


def test_events_hold_several_tokens() -> None:
    assert len(plan_events(script(tokens_per_event=4), 0, 1, 9)) == 3


@given(number=st.integers(0, 10_000), seed=st.integers(0, 1_000))
def test_jitter_stays_within_its_share_and_repeats(number: int, seed: int) -> None:
    jittered = script(ttft="100ms", itl="20ms", jitter="10%", seed=seed)
    events = plan_events(jittered, number, 1, 50)
    gaps = [b - a for a, b in pairwise(events)]
    assert 90 * MS <= events[0] <= 110 * MS
    assert all(18 * MS <= gap <= 22 * MS for gap in gaps)
    assert len(set(gaps)) > 40
    assert plan_events(jittered, number, 1, 50) == events


def test_streams_and_seeds_differ() -> None:
    jittered = script(jitter="10%")
    assert plan_events(jittered, 0, 1, 5) != plan_events(jittered, 1, 1, 5)
    assert plan_events(jittered, 0, 1, 5) != plan_events(script(jitter="10%", seed=1), 0, 1, 5)


def test_fault_shares_come_true() -> None:
    faulty = script(faults=[{"share": "10%", "kind": "reset"}, {"share": "30%", "kind": "html"}])
    drawn = [StreamSchedule(faulty, number).fault for number in range(4_000)]
    kinds = [fault.kind for fault in drawn if fault is not None]
    # Standard deviation of the counts: 19 and 29.
    assert abs(kinds.count(FaultKind.RESET) - 400) < 100
    assert abs(kinds.count(FaultKind.HTML) - 1_200) < 150


def test_whole_share_takes_every_stream() -> None:
    always = script(faults=[{"share": 1, "kind": "stall"}])
    assert all(StreamSchedule(always, number).fault is not None for number in range(500))

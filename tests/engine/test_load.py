"""Closed loop, limits, pools: how many streams are open, when, and what waiting looks like."""

import gc
from collections import Counter

import pytest

from loadgen.engine.closed_loop import asked_at, next_change
from loadgen.model import Outcome
from loadgen.transport.receive import MAX_HELD, Attention
from loadgen.workload.plan import Phase, PhaseKind
from tests.support.virtual import MS, run_virtual

SIM = {"ttft": "100ms", "itl": "10ms"}


def phase(kind: PhaseKind, seconds: float, first: int, last: int) -> Phase:
    return Phase(index=0, kind=kind, duration_ns=round(seconds * 1e9), streams_from=first, streams_to=last)


def changes(of: Phase, before: int = 0) -> list[tuple[int, int]]:
    """(ms, streams) at each look of the executor."""
    into, seen = 0, []
    while into < of.duration_ns:
        seen.append((into // MS, asked_at(of, before, into)))
        into = next_change(of, before, into)
    return seen


def test_a_ramp_rises_one_by_one_to_its_last_value() -> None:
    seen = changes(phase(PhaseKind.RAMP, 1, 1, 5))
    assert [s for s in seen if s[0] % 250 == 0] == [(0, 1), (250, 2), (500, 3), (750, 4)]
    assert asked_at(phase(PhaseKind.RAMP, 1, 1, 5), 4, 10**9) == 5


def test_a_ramp_down_retires_streams() -> None:
    down = phase(PhaseKind.RAMP, 1, 4, 0)
    assert [asked_at(down, 4, ms * MS) for ms in (0, 1, 250, 999, 1000)] == [4, 3, 3, 0, 0]


def test_a_jump_is_paced_one_stream_a_millisecond() -> None:
    hold = phase(PhaseKind.HOLD, 60, 1000, 1000)
    assert [asked_at(hold, 0, ms * MS) for ms in (0, 1, 500, 999, 5000)] == [1, 2, 501, 1000, 1000]
    assert next_change(hold, 0, 2000 * MS) == hold.duration_ns


def test_a_jump_takes_at_most_half_of_a_short_phase() -> None:
    assert asked_at(phase(PhaseKind.HOLD, 1, 10_000, 10_000), 0, 500 * MS) == 10_000


def test_concurrency_is_what_was_asked() -> None:
    run = run_virtual("load: [{hold: 4s, streams: 8}]\nrequests: [{max_tokens: 7}]", sim=SIM)
    assert run.summary["concurrency"]["asked"] == run.summary["concurrency"]["max"] == 8
    assert run.summary["concurrency"]["mean"] == pytest.approx(8, rel=0.01)
    assert run.server is not None
    assert run.server.max_open == 8


def test_the_limit_queues_and_the_wait_is_latency_and_a_metric() -> None:
    run = run_virtual("load: [{hold: 1s, streams: 2}]\nlimit: {streams: 1}\nrequests: [{max_tokens: 1}]\ndrain: 5s", sim=SIM)
    waited = [r for r in run.records if r.slot_ns is not None and r.slot_ns > r.intended_ns]
    assert waited
    second = waited[0]
    assert second.first_token_ns is not None
    assert second.sent_ns is not None
    assert second.first_token_ns - second.intended_ns == pytest.approx(200 * MS, abs=2 * MS)
    assert second.first_token_ns - second.sent_ns == 100 * MS
    metrics = run.summary["metrics"]
    assert metrics["service_ttft"]["max_ms"] == 100.0
    assert metrics["ttft"]["max_ms"] > 195
    assert metrics["queue"]["max_ms"] == pytest.approx(100, abs=2)
    assert run.summary["concurrency"]["max"] == 1


def test_drop_ends_a_stream_that_finds_the_limit_full() -> None:
    run = run_virtual("load: [{hold: 1s, streams: 3}]\nlimit: {streams: 2, when_full: drop}\nfailure_pause: 200ms", sim=SIM)
    outcomes = run.summary["streams"]["outcomes"]
    assert outcomes[Outcome.DROPPED] == 5
    assert run.summary["streams"]["error_rate"] == 0.0


def test_a_pool_is_reused_and_its_queue_is_stamped() -> None:
    run = run_virtual(
        "load: [{hold: 1s, streams: 2}]\ntransport: {connections: 1}\nrequests: [{max_tokens: 1}]\ndrain: 5s", sim=SIM
    )
    assert {r.connection for r in run.records} == {0}
    assert [r.reused for r in run.records] == [False] + [True] * (len(run.records) - 1)
    assert run.summary["metrics"]["connect"]["count"] == 1
    late = run.records[1]
    assert late.connection_ns is not None
    assert late.connection_ns - late.intended_ns == pytest.approx(100 * MS, abs=2 * MS)


def test_150_streams_are_150_at_once() -> None:
    run = run_virtual("load: [{hold: 2s, streams: 150}]\nrequests: [{max_tokens: 50}]", sim=SIM)
    assert run.server is not None
    assert run.server.max_open == 150
    assert run.summary["metrics"]["ttft"]["max_ms"] == 100.0


def test_streams_leave_no_cycles_for_the_collector() -> None:
    """A collection over all open streams stops them all, so none is made while a run goes on."""
    gc.collect()
    gc.disable()
    try:
        run = run_virtual("load: [{hold: 2s, streams: 20}]\nrequests: [{max_tokens: 3}]", sim=SIM)
        left = Counter(type(thing).__name__ for thing in gc.get_objects())
    finally:
        gc.enable()
    assert len(run.records) > 200
    assert not {
        name: left[name] for name in ("Life", "Exchange", "Http1Connection", "Timeline", "StreamLink") if left[name] > 20
    }


def test_no_more_streams_are_started_while_reads_are_late() -> None:
    attention = Attention()
    assert not attention.crowded
    attention.late = True
    assert attention.crowded
    attention.late = False
    for _ in range(MAX_HELD):
        attention.__enter__()
    assert attention.crowded


def test_the_same_seed_gives_the_same_run() -> None:
    load = "seed: 3\nload: [{hold: 1s, streams: 4}]\nrequests: [{max_tokens: {uniform: [1, 20]}, prompt: {characters: 50}}]"
    first, second = (run_virtual(load, sim=SIM) for _ in range(2))
    assert [(r.stream, r.end_ns, r.output_events) for r in first.records] == [
        (r.stream, r.end_ns, r.output_events) for r in second.records
    ]

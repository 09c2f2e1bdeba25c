"""Counting streams, and the law that parts merge to the whole."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.model import Metric, Outcome, StreamRecord, Usage
from loadgen.record.results import MAX_DETAILS, Results, values_of
from tests.support.records import any_record, completed, failed, ms


def results_of(records: list[StreamRecord]) -> Results:
    results = Results()
    for record in records:
        results.started += 1
        results.add(record, good=record.outcome is Outcome.COMPLETED)
        for metric, value in values_of(record).items():
            results.metric(metric).record(value)
    return results


def state(results: Results) -> dict[str, object]:
    """Everything in it, histograms by their counts and exact figures, empty ones left out."""

    def hdr(h: object) -> tuple[object, ...]:
        return tuple(getattr(h, name) for name in ("count", "total", "min", "max", "clamped")), h.counts.tobytes()  # type: ignore[attr-defined]

    plain = {name: getattr(results, name) for name in results.__dataclass_fields__ if name not in {"metrics", "bursts"}}
    return plain | {
        "metrics": {m: hdr(h) for m, h in results.metrics.items() if h.count},
        "bursts": hdr(results.bursts),
    }


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(any_record, st.integers(0, 2)), max_size=8))
def test_parts_merge_to_the_whole_in_any_order(tagged: list[tuple[StreamRecord, int]]) -> None:
    parts = [results_of([record for record, part in tagged if part == i]) for i in range(3)]
    whole = results_of([record for record, _ in tagged])
    for order in ([0, 1, 2], [2, 0, 1]):
        merged = Results()
        for i in order:
            merged.merge(parts[i])
        assert state(merged) == state(whole)


def test_merging_leaves_the_other_alone() -> None:
    other = results_of([completed()])
    before = state(other)
    merged = Results()
    merged.merge(other)
    merged.merge(other)
    assert state(other) == before
    assert merged.metrics[Metric.TTFT].count == 2


def test_what_is_counted_of_each_stream() -> None:
    results = results_of(
        [
            completed(0, tokens=11, bunched_events=4, burst_events=3, quality=[8, 3, 0], usage=Usage(completion_tokens=20)),
            completed(1, tokens=5, usage=None, left_open=True, quality=[0, 0, 5]),
            failed(2, detail="refused"),
            failed(3, detail="refused"),
        ]
    )
    assert results.outcomes == {Outcome.COMPLETED: 2, Outcome.CONNECT_ERROR: 2}
    assert results.details == {(Outcome.CONNECT_ERROR, "refused"): 2}
    assert (results.ended, results.events, results.tokens, results.usage_tokens) == (4, 16, 25, 20)
    assert (results.usage_streams, results.left_open, results.bunched_events) == (1, 1, 4)
    assert results.quality == [8, 3, 5]
    assert (results.bursts.count, results.bursts.max) == (2, 3)
    assert results.metrics[Metric.TTFT].count == 2


def test_streams_that_are_not_the_targets_doing_count_for_neither_rate() -> None:
    """Aborted by us and cut by the end of the run: no failures, and no successes either."""
    ours = [completed(i, outcome=o) for i, o in enumerate([Outcome.ABORTED, Outcome.CUT])]
    results = results_of([*ours, completed(8), completed(9), completed(10), failed(11)])
    assert results.judged == 4
    assert results.error_rate == pytest.approx(0.25)
    assert results.goodput == pytest.approx(0.75)


@given(st.lists(any_record, max_size=6))
@settings(max_examples=30, deadline=None)
def test_goodput_and_error_rate_never_exceed_one_together(records: list[StreamRecord]) -> None:
    results = results_of(records)
    if results.judged:
        assert (results.error_rate or 0) + (results.goodput or 0) <= 1 + 1e-9
    else:
        assert results.error_rate is None
        assert results.goodput is None


def test_values_of_a_stream_leave_out_what_it_never_reached() -> None:
    assert values_of(failed()) == {}
    assert values_of(completed())[Metric.TTFT] == ms(250)
    assert Metric.ITL not in values_of(completed())


def test_reasons_that_are_all_different_do_not_fill_the_memory() -> None:
    results, other = Results(), Results()
    for n in range(3 * MAX_DETAILS):
        (results if n % 2 else other).add(failed(n, detail=f"request {n} failed"), good=False)
    results.merge(other)
    assert len(results.details) <= MAX_DETAILS + len(Outcome)
    assert results.details.total() == 3 * MAX_DETAILS

"""Rules over a run, and goodput's rules over one stream."""

import pytest

from loadgen.clock import NS_PER_MS
from loadgen.model import Metric, Outcome, StreamRecord
from loadgen.record.results import Results
from loadgen.record.slo import evaluate, meets_all
from loadgen.workload.slo import parse_slo
from tests.support.records import completed, failed, ms


def results_with(*ttft_ms: float) -> Results:
    results = Results()
    results.metric(Metric.TTFT).record_many([ms(value) for value in ttft_ms])
    return results


@pytest.mark.parametrize(
    ("rule", "value", "ok"),
    [
        ("ttft p99 < 2s", 1000, True),
        ("ttft p50 < 500ms", 500, False),
        ("ttft max <= 1s", 1000, True),
        ("ttft max < 900ms", 1000, False),
        ("ttft min > 50ms", 100, True),
        ("ttft mean < 1s", 550, True),
    ],
)
def test_a_latency_rule_says_its_value_in_milliseconds(rule: str, value: float, ok: bool) -> None:
    (entry,) = evaluate([parse_slo(rule)], results_with(*range(100, 1001, 100)))
    assert entry["rule"] == rule
    assert entry["value"] == pytest.approx(value, rel=1e-3)
    assert entry["ok"] is ok


def test_a_rate_rule_says_its_share() -> None:
    results = Results()
    for record in [completed(0), completed(1), completed(2), failed(3)]:
        results.add(record, good=record.stream == 0)
    rules = [parse_slo("error_rate < 30%"), parse_slo("goodput > 95%")]
    assert evaluate(rules, results) == [
        {"rule": "error_rate < 30%", "value": 0.25, "ok": True},
        {"rule": "goodput > 95%", "value": 0.25, "ok": False},
    ]


@pytest.mark.parametrize("rule", ["ttft p99 < 2s", "tls max >= 0s", "error_rate <= 100%", "goodput >= 0%"])
def test_without_samples_nothing_passes(rule: str) -> None:
    assert evaluate([parse_slo(rule)], Results()) == [{"rule": rule, "value": None, "ok": False}]


RULES = [parse_slo("ttft p99 < 300ms"), parse_slo("itl p99 < 60ms"), parse_slo("error_rate < 1%")]


@pytest.mark.parametrize(
    ("record", "good"),
    [
        (completed(), True),
        (completed(ttft_ms=301), False),
        (completed(itl_p99_ns=ms(60)), False),
        (completed(outcome=Outcome.TRUNCATED), False),
        (completed(outcome=Outcome.ABORTED), False),
        (completed(tokens=1, itl_p50_ns=None, itl_p99_ns=None, stall_ns=None), True),  # one token has no gap to judge
        (failed(), False),
    ],
)
def test_a_good_stream_completes_and_meets_each_rule_itself(record: StreamRecord, good: bool) -> None:
    assert meets_all(RULES, record) is good


@pytest.mark.parametrize(
    ("rule", "good"),
    [("itl p50 < 25ms", True), ("itl p95 < 50ms", False), ("itl p99 < 50ms", False), ("itl max < 100ms", False)],
)
def test_itl_rules_look_at_the_streams_own_percentiles(rule: str, good: bool) -> None:
    record = completed(itl_p50_ns=20 * NS_PER_MS, itl_p99_ns=55 * NS_PER_MS, stall_ns=130 * NS_PER_MS)
    assert meets_all([parse_slo(rule)], record) is good


def test_without_rules_every_completed_stream_is_good() -> None:
    assert meets_all([], completed())
    assert not meets_all([], failed())

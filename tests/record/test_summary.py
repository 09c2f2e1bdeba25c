"""summary.json: every key of the contract, strict JSON, right numbers."""

import json
from typing import Any

import pytest

from loadgen.clock import NS_PER_S
from loadgen.model import Metric, Outcome, StreamRecord, Usage
from loadgen.record.health import GeneratorHealth
from loadgen.record.summary import build_summary, describe
from loadgen.workload.plan import Phase, PhaseKind
from loadgen.workload.slo import parse_slo
from tests.support.records import LiveRecorder, completed, failed, ms

PHASES = [
    Phase(index=0, kind=PhaseKind.WARMUP, duration_ns=5 * NS_PER_S, streams_from=2, streams_to=2),
    Phase(index=1, kind=PhaseKind.HOLD, duration_ns=60 * NS_PER_S, streams_from=4, streams_to=4),
]
METRIC_KEYS = {"count", "mean_ms", "min_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "p999_ms", "max_ms"}


def summary_of(
    *records: StreamRecord, gaps_ms: tuple[float, ...] = (), slo: tuple[str, ...] = (), **changes: Any
) -> dict[str, Any]:
    rules = [parse_slo(text) for text in slo]
    recorder = LiveRecorder(PHASES, rules, 0)
    for record in records:
        recorder.live(record, [ms(gap) for gap in gaps_ms])
    recorder.flush(NS_PER_S, open_streams=0)
    facts: dict[str, Any] = {
        "name": "release-gate",
        "started_wall_ns": 1_754_470_000_123_000_000,
        "duration_ns": 70 * NS_PER_S,
        "output_events_per_s": recorder.measured().events / 60,
        "phases": PHASES,
        "phase_results": recorder.phases,
        "measured": recorder.measured(),
        "everything": recorder.everything(),
        "health": GeneratorHealth(concurrency_asked=4, concurrency_mean_asked=4.0, concurrency_mean=3.9, concurrency_max=4),
        "slo": rules,
        "interrupted": False,
        "unreachable": "",
    }
    return build_summary(**(facts | changes))


def held(stream: int, **fields: Any) -> StreamRecord:
    return completed(stream, phase=1, **fields)


def through_json(summary: dict[str, Any]) -> dict[str, Any]:
    """What a strict reader of the file sees; NaN and infinities are refused."""
    loaded: dict[str, Any] = json.loads(json.dumps(summary, allow_nan=False))
    return loaded


@pytest.mark.parametrize("records", [(), (held(0), held(1), failed(2, phase=1))])
def test_every_key_of_the_contract_is_there_in_strict_json(records: tuple[StreamRecord, ...]) -> None:
    summary = through_json(summary_of(*records, slo=("ttft p99 < 2s",)))
    assert summary["schema"] == "loadgen.summary/1"
    assert {
        "schema", "name", "verdict", "exit_code", "started_at", "duration_s", "streams", "concurrency", "tokens",
        "metrics", "bunching", "generator", "slo", "capacity", "phases", "variants",
    } <= summary.keys()  # fmt: skip
    assert {"started", "outcomes"} <= summary["streams"].keys()
    assert {"asked", "mean", "max"} <= summary["concurrency"].keys()
    assert {"events", "usage", "per_s", "per_s_source"} <= summary["tokens"].keys()
    assert {"share", "burst_events_p99", "suspect"} <= summary["bunching"].keys()
    assert summary["metrics"].keys() == set(Metric)
    assert summary["duration_s"] == 70.0
    assert summary["started_at"].startswith("2025-08-06T08:46:40.123")
    assert summary["started_at"][-1] == "Z" or summary["started_at"].endswith("+00:00")


def test_a_metric_has_all_figures_or_only_its_count() -> None:
    metrics = summary_of(held(0), held(1, ttft_ms=350), gaps_ms=(20, 40))["metrics"]
    assert metrics["ttft"].keys() >= METRIC_KEYS
    assert (metrics["ttft"]["count"], metrics["ttft"]["min_ms"], metrics["ttft"]["max_ms"]) == (2, 250.0, 350.0)
    assert metrics["ttft"]["mean_ms"] == 300.0
    assert (metrics["itl"]["count"], metrics["itl"]["max_ms"]) == (4, 40.0)
    assert metrics["abort_to_server_stop"]["count"] == 0
    assert not (METRIC_KEYS - {"count"}) & metrics["abort_to_server_stop"].keys()
    assert describe(None) == {"count": 0}


def test_streams_add_up() -> None:
    summary = summary_of(held(0), held(1, outcome=Outcome.ABORTED), failed(2, phase=1), failed(3, phase=1, outcome=Outcome.CUT))
    streams = summary["streams"]
    assert streams["started"] == sum(streams["outcomes"].values()) == 4
    assert streams["outcomes"]["aborted"] == 1
    assert streams["error_rate"] == 0.5


def test_warm_up_is_in_no_metric() -> None:
    summary = summary_of(completed(0, phase=0, measured=False, ttft_ms=9_000), held(1))
    assert summary["metrics"]["ttft"]["count"] == 1
    assert [phase["started"] for phase in summary["phases"]] == [1, 1]


@pytest.mark.parametrize(
    ("records", "source", "per_s"),
    [
        (
            (
                held(0, tokens=11, usage=Usage(completion_tokens=60)),
                held(1, tokens=11, usage=Usage(completion_tokens=60)),
            ),
            "usage",
            2.0,
        ),
        ((held(0, tokens=30, usage=None), held(1, tokens=30, usage=Usage(completion_tokens=900))), "events", 1.0),
        ((failed(0, phase=1),), "events", 0.0),
    ],
)
def test_token_rate_is_by_usage_only_if_every_completed_stream_told(
    records: tuple[StreamRecord, ...], source: str, per_s: float
) -> None:
    tokens = summary_of(*records)["tokens"]
    assert tokens["per_s_source"] == source
    assert tokens["per_s"] == pytest.approx(per_s)


def test_bunching_names_its_suspect() -> None:
    bunched = summary_of(held(0, tokens=10, bunched_events=8, burst_events=6))["bunching"]
    assert (bunched["share"], bunched["burst_events_p99"]) == (0.8, 6)
    assert "80%" in bunched["suspect"]
    assert "6 events" in bunched["suspect"]
    assert summary_of(held(0))["bunching"]["suspect"] is None


def test_verdict_and_rules_agree() -> None:
    failing = summary_of(held(0), slo=("ttft p99 < 100ms", "e2e p50 < 10s"))
    assert (failing["verdict"], failing["exit_code"]) == ("fail", 1)
    assert [rule["ok"] for rule in failing["slo"]] == [False, True]
    assert summary_of(held(0), slo=("e2e p50 < 10s",))["verdict"] == "pass"
    assert summary_of(held(0), interrupted=True)["exit_code"] == 130
    assert summary_of(failed(0, phase=1))["exit_code"] == 3
    low = GeneratorHealth(concurrency_mean_asked=4.0, concurrency_mean=1.0)
    invalid = summary_of(held(0), health=low, slo=("ttft p99 < 100ms",))
    assert (invalid["verdict"], invalid["exit_code"], invalid["generator"]["valid"]) == ("invalid", 4, False)

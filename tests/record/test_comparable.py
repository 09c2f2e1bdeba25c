"""Which runs are of one load, and what is said of those that are not."""

from typing import Any

from loadgen.record.comparable import differences, reasons_against
from tests.support.workloads import VALID, workload

BASE = workload().masked
SOUND = {"verdict": "pass", "verdict_reason": "measured"}


def manifest(*overrides: str) -> dict[str, Any]:
    return {"workload": workload(VALID, *overrides).masked}


def test_equal_workloads_differ_in_nothing() -> None:
    assert differences(BASE, workload().masked) == ([], [])


def test_every_key_of_the_load_is_told_with_both_values() -> None:
    other = manifest(
        "load.1.streams=9",
        "requests=[{prompt: hi}, {max_tokens: 3}]",
        "drain=1m",
        "aborts=[{share: 10%, after: {tokens: 2}, by: close}]",
    )
    found = differences(BASE, other["workload"])
    texts = [str(difference) for difference in found.load]
    assert "load.1.streams: 3 in the base, 9 here" in texts
    assert "drain: '30s' in the base, '1m' here" in texts
    assert "requests.1.max_tokens: absent in the base, 3 here" in texts
    assert any(text.startswith("aborts.0.share: absent in the base, ") for text in texts)
    assert found.aim == []


def test_what_the_load_is_aimed_at_is_told_apart_from_the_load() -> None:
    other = manifest(
        "target.url=https://edge.example/v1/chat/completions", "slo=[ttft p99 < 1s]", "name=edge", "timeouts.idle=9s"
    )
    found = differences(BASE, other["workload"])
    assert {difference.key for difference in found.aim} == {"name", "target.url", "slo", "slo.0"}
    assert [difference.key for difference in found.load] == ["timeouts.idle"]


def test_runs_that_should_not_be_compared() -> None:
    runs: list[tuple[str, dict[str, Any] | None, dict[str, Any] | None]] = [
        ("a", manifest(), SOUND),
        ("b", manifest("load.1.streams=9"), {"verdict": "invalid", "verdict_reason": "reads lagged"}),
        ("c", None, None),
        ("d", manifest(), {"verdict": "fail", "verdict_reason": "1 of 1 SLOs failed"}),
        ("e", manifest(), {"verdict": "unreachable", "verdict_reason": "refused"}),
    ]
    assert reasons_against(runs[:1] + runs[3:4]) == []
    reasons = reasons_against(runs)
    assert reasons == [
        "b is invalid: reads lagged",
        "c has no manifest.json (it was killed?): nobody knows what load it was",
        "c has no summary.json (it was killed?): nobody has judged it",
        "e is unreachable: refused",
        "b is another load: load.1.streams: 3 in the base, 9 here",
    ]

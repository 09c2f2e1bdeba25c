"""Which runs are of one load, and what is said of those that are not."""

from typing import Any

from loadgen.record.comparable import Candidate, differences, reasons_against, workload_of
from tests.support.workloads import VALID, workload

SOUND = {"verdict": "pass", "verdict_reason": "measured", "capacity": None}


def run(*overrides: str, name: str = "b", folder: str = "", summary: dict[str, Any] | None = SOUND) -> Candidate:
    return Candidate(name, folder or name, workload_of({"workload": workload(VALID, *overrides).masked}), summary)


BASE = run(name="a")


def test_equal_workloads_differ_in_nothing() -> None:
    assert differences(BASE, run()) == ([], [])


def test_every_key_of_the_load_is_told_with_both_values() -> None:
    aborts = "aborts=[{share: 10%, after: {tokens: 2}, by: close}]"
    found = differences(BASE, run("load.1.streams=9", "requests=[{prompt: hi}, {max_tokens: 3}]", "drain=1m", aborts))
    texts = [str(difference) for difference in found.load]
    assert "load.1.streams: 3 in the base, 9 here" in texts
    assert "drain: '30s' in the base, '1m' here" in texts
    assert any(text.startswith("requests.1: absent in the base, {'weight': 1.0, ") for text in texts)
    assert any(text.startswith("aborts: [] in the base, [{'share': ") for text in texts)
    assert found.aim == []


def test_what_the_load_is_aimed_at_is_told_apart_from_the_load() -> None:
    url = "target.url=https://edge.example/v1/chat/completions"
    found = differences(BASE, run(url, "slo=[ttft p99 < 1s]", "name=edge", "timeouts.idle=9s"))
    assert {difference.key for difference in found.aim} == {"name", "target.url", "slo"}
    assert [difference.key for difference in found.load] == ["timeouts.idle"]


def test_variants_of_one_run_differ_in_what_they_are_meant_to() -> None:
    both = workload(VALID, "variants={one: {}, two: {transport: {http: 2}}}", "rounds=2").masked
    one, two = (Candidate(f"x@{v}", "x", workload_of({"workload": both}, v), SOUND) for v in ("one", "two"))
    found = differences(one, two)
    assert "transport.http: '1.1' in the base, '2' here" in map(str, found.aim)
    assert found.load == []
    assert reasons_against([one, two]) == []
    assert reasons_against([one, two._replace(folder="y")])


def test_runs_that_should_not_be_compared() -> None:
    runs = [
        BASE,
        run("load.1.streams=9", summary={"verdict": "invalid", "verdict_reason": "reads lagged"}),
        Candidate("c", "c", None, None),
        run(name="d", summary={"verdict": "fail", "verdict_reason": "1 of 1 SLOs failed", "capacity": None}),
        run(name="e", summary={"verdict": "unreachable", "verdict_reason": "refused"}),
        run(name="f", summary=SOUND | {"capacity": {"streams": 4}}),
    ]
    assert reasons_against([BASE, runs[3]]) == []
    assert reasons_against(runs) == [
        "b is invalid: reads lagged",
        "c has no manifest.json (it was killed?): nobody knows what load it was",
        "c has no summary.json (it was killed?): nobody has judged it",
        "e is unreachable: refused",
        "f searched for a capacity: its streams are of many loads",
        "b is another load: load.1.streams: 3 in the base, 9 here",
    ]

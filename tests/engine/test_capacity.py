"""The search for capacity: which levels it tries, when it is sure, and that it finds what a script says."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen import api
from loadgen.engine.capacity import Search
from loadgen.model import Metric, Outcome
from loadgen.record.results import Results
from loadgen.record.slo import is_clear
from loadgen.report.progress import Silent
from loadgen.workload.loader import loads
from loadgen.workload.slo import parse_slo
from tests.support.records import completed, failed, ms

SCHEMA = json.loads((Path(__file__).parents[2] / "reports" / "summary.schema.json").read_text())


def search(lowest: int, highest: int, capacity: int) -> tuple[Search, list[int]]:
    made, tried = Search(lowest, highest), list[int]()
    while (streams := made.next()) is not None:
        tried.append(streams)
        assert len(tried) < 100
        made.tell(streams, good=streams <= capacity)
    return made, tried


def test_it_doubles_halves_and_confirms() -> None:
    found, tried = search(10, 5000, 333)
    assert tried == [10, 20, 40, 80, 160, 320, 640, 480, 400, 360, 340, 330, 320] or tried[:8] == [
        10,
        20,
        40,
        80,
        160,
        320,
        640,
        480,
    ]
    assert tried[-1] == found.low
    assert found.recovered is True


@given(st.integers(1, 50), st.integers(0, 3000), st.integers(1, 3000))
def test_the_answer_is_within_5_percent(lowest: int, more: int, capacity: int) -> None:
    highest = lowest + more
    found, tried = search(lowest, highest, capacity)
    assert all(lowest <= streams <= highest for streams in tried)
    if capacity < lowest:
        assert (found.low, found.high, tried) == (0, lowest, [lowest])
    elif capacity >= highest:
        assert (found.low, found.high) == (highest, None)
    else:
        assert found.high is not None
        assert found.low <= capacity < found.high
        assert found.high - found.low <= max(1, found.low * 0.05)


def test_a_level_that_fails_the_second_time_is_not_the_answer() -> None:
    made, tried = Search(4, 64), list[int]()
    while (streams := made.next()) is not None:
        tried.append(streams)
        made.tell(streams, good=streams <= (32 if tried.count(32) < 2 else 20))
    assert made.low <= 20 < (made.high or 0)
    assert made.recovered is True


# ---- when it is sure


def results(good: int, slow: int, errors: int = 0) -> Results:
    made = Results()
    for n in range(good + slow):
        made.add(completed(n), good=n < good)
    for n in range(errors):
        made.add(failed(n), good=False)
    made.metric(Metric.TTFT).record_many([ms(100)] * good + [ms(900)] * slow)
    return made


@pytest.mark.parametrize(
    ("rule", "counts", "clear"),
    [
        ("ttft p99 < 500ms", (1000, 0), True),
        ("ttft p99 < 500ms", (100, 0), False),  # 0 of 100 above the bound may still be 3 %
        ("ttft p99 < 500ms", (990, 10), False),
        ("ttft p99 < 500ms", (900, 100), True),  # broken for sure
        ("ttft p50 < 500ms", (40, 5), True),
        ("ttft p50 < 500ms", (22, 20), False),
        ("error_rate < 1%", (1000, 0, 0), True),
        ("error_rate < 1%", (1000, 0, 10), False),
        ("error_rate < 1%", (1000, 0, 100), True),
        ("goodput > 90%", (1000, 20), True),
        ("goodput > 90%", (100, 10), False),
        ("ttft max < 1s", (3, 0), True),
        ("tls p99 < 1s", (10, 0), True),  # no samples: broken
    ],
)
def test_clear_is_when_more_samples_would_not_change_it(rule: str, counts: tuple[int, ...], clear: bool) -> None:
    assert is_clear([parse_slo(rule)], results(*counts)) is clear


def test_one_rule_that_is_broken_for_sure_settles_it() -> None:
    rules = [parse_slo("ttft p99 < 500ms"), parse_slo("ttft p50 < 50ms")]
    assert is_clear(rules, results(100, 0))


# ---- for real


class Told(Silent):
    def __init__(self) -> None:
        self.levels: list[str] = []

    def on_level(self, words: str) -> None:
        self.levels.append(words)


@pytest.mark.net
@pytest.mark.slow
@pytest.mark.serial
def test_it_finds_what_the_script_says(tmp_path: Path) -> None:
    """An engine that runs 16 streams at once: with more, some wait for a whole stream (250 ms)."""
    workload = """
loadgen: 1
target: {sim: {ttft: 50ms, itl: 10ms, max_batch: 16}}
requests: [{max_tokens: 21}]
load: [{capacity: {from: 4, to: 64, hold: 800ms}}]
slo: ["ttft p90 < 150ms"]
drain: 5s
"""
    told = Told()
    result = api.run(loads(workload), out=tmp_path, observer=told, processes=1)
    jsonschema.validate(json.loads(json.dumps(result.summary)), SCHEMA)
    capacity: dict[str, Any] = result.summary["capacity"]
    assert 15 <= capacity["streams"] <= 18, (told.levels, result.summary["generator"]["reasons"])
    assert capacity["low"] == capacity["streams"] < capacity["high"] <= 20
    assert capacity["limited_by"] == "ttft p90 < 150ms"
    assert [step["streams"] for step in capacity["steps"]][:4] == [4, 8, 16, 32]
    assert len(told.levels) == len(capacity["steps"])
    assert result.summary["verdict"] == "pass"
    assert result.summary["streams"]["outcomes"] == {Outcome.COMPLETED: result.summary["streams"]["started"]}


@pytest.mark.net
@pytest.mark.slow
def test_a_server_that_cannot_carry_the_least_fails(tmp_path: Path) -> None:
    workload = """
loadgen: 1
target: {sim: {ttft: 50ms, itl: 10ms}}
requests: [{max_tokens: 5}]
load: [{capacity: {from: 2, to: 8, hold: 300ms}}]
slo: ["ttft p50 < 5ms"]
"""
    result = api.run(loads(workload), out=tmp_path, processes=1)
    assert result.summary["capacity"]["streams"] == 0
    assert (result.summary["capacity"]["high"], result.summary["capacity"]["limited_by"]) == (2, "ttft p50 < 5ms")
    assert result.exit_code in {1, 4}

"""Which verdict wins, and what its sentence says."""

from typing import Any

import pytest

from loadgen.model import Outcome
from loadgen.record.results import Results
from loadgen.record.verdict import Verdict, decide
from tests.support.records import completed, failed

FAILED_RULE = {"rule": "ttft p99 < 2s", "value": 2100.0, "ok": False}
HELD_RULE = {"rule": "itl p99 < 60ms", "value": 20.0, "ok": True}


def measured() -> Results:
    results = Results()
    results.add(completed(), good=True)
    return results


def verdict(**changes: Any) -> Verdict:
    facts: dict[str, Any] = {"results": measured(), "interrupted": False, "unreachable": "", "invalid": [], "slo": []}
    return decide(**(facts | changes))


def test_precedence_takes_away_the_strongest_one_by_one() -> None:
    facts: dict[str, Any] = {
        "interrupted": True,
        "unreachable": "refused",
        "results": Results(),
        "invalid": ["too slow"],
        "slo": [FAILED_RULE],
    }
    found = [verdict(**facts)]
    harmless = {"interrupted": False, "unreachable": "", "results": measured(), "invalid": [], "slo": [HELD_RULE]}
    for name, value in harmless.items():
        facts[name] = value
        found.append(verdict(**facts))
    assert [(v.word, int(v.exit_code)) for v in found] == [
        ("interrupted", 130), ("unreachable", 3), ("unreachable", 3), ("invalid", 4), ("fail", 1), ("pass", 0),
    ]  # fmt: skip
    assert all(v.reason for v in found)


def test_nothing_measured_says_what_happened_instead() -> None:
    results = Results()
    for stream in range(3):
        results.add(failed(stream, Outcome.REJECTED, "429 Too Many Requests"), good=False)
    results.add(failed(3, Outcome.RESET, "Connection reset by peer"), good=False)
    reason = verdict(results=results).reason
    assert "3 of 4" in reason
    assert "rejected" in reason
    assert "429 Too Many Requests" in reason


def test_no_stream_at_all_is_nothing_measured_too() -> None:
    assert verdict(results=Results()).exit_code == 3


def test_a_failed_rule_is_named_with_its_value() -> None:
    reason = verdict(slo=[HELD_RULE, FAILED_RULE]).reason
    assert "1 of 2" in reason
    assert "ttft p99 < 2s" in reason
    assert "2100" in reason


def test_a_rule_without_samples_is_named_as_such() -> None:
    assert "no samples" in verdict(slo=[{"rule": "tls p99 < 1s", "value": None, "ok": False}]).reason


@pytest.mark.parametrize("slo", [[], [HELD_RULE]])
def test_pass(slo: list[dict[str, Any]]) -> None:
    assert verdict(slo=slo).word == "pass"

"""junit.xml read back as CI systems read it."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from loadgen.record.health import GeneratorHealth
from loadgen.report.junit import build_junit, write_junit
from tests.support.records import completed
from tests.support.summaries import ERRORS, HOSTILE, KEPT, SLOW, summary_of


def suite_of(summary: dict[str, Any]) -> ET.Element:
    root = ET.fromstring(build_junit(summary))
    assert root.tag == "testsuites"
    (suite,) = root
    for name in ("tests", "failures", "errors"):
        assert root.get(name) == suite.get(name)
    assert suite.get("tests") == str(len(suite.findall("testcase")))
    assert suite.get("failures") == str(len(suite.findall("testcase/failure")))
    assert suite.get("errors") == str(len(suite.findall("testcase/error")))
    return suite


def test_one_test_case_a_rule_and_failures_with_value_and_bound() -> None:
    suite = suite_of(summary_of(SLOW, KEPT, ERRORS))
    assert [case.get("name") for case in suite] == [SLOW, KEPT, ERRORS]
    assert {case.get("classname") for case in suite} == {"release-gate"}
    slow, kept, errors = suite
    assert list(kept) == []
    (failure,) = slow
    assert (failure.tag, failure.get("message")) == ("failure", "was 250.0 ms, must be < 100ms")
    assert errors[0].get("message") == "was 9.09%, must be < 1%"
    assert (suite.get("name"), suite.get("time"), suite.get("timestamp")) == ("release-gate", "10.000", "2025-08-06T08:46:40")


def test_a_rule_without_samples_is_a_failure_that_says_so() -> None:
    (case,) = suite_of(summary_of("tls p99 < 1s", records=(completed(0, tls_ns=None),)))
    assert case[0].get("message") == "was no samples, must be < 1s"


@pytest.mark.parametrize(
    ("word", "changes"),
    [
        ("interrupted", {"interrupted": True}),
        ("unreachable", {"unreachable": "127.0.0.1 port 9: refused"}),
        ("invalid", {"health": GeneratorHealth(lost=["generator process 1 of 2 died"])}),
    ],
)
def test_what_was_not_measured_is_an_error_whatever_the_values_were(word: str, changes: dict[str, Any]) -> None:
    """A rule that holds in a run that cannot be believed is not green."""
    summary = summary_of(SLOW, KEPT, **changes)
    assert [rule["ok"] for rule in summary["slo"]] == [False, True]
    suite = suite_of(summary)
    assert (suite.get("failures"), suite.get("errors")) == ("0", "2")
    for case in suite:
        (error,) = case
        assert (error.tag, error.get("type")) == ("error", word)
        assert error.get("message") == f"{word}: {summary['verdict_reason']}"
        assert (error.text or "").startswith("was ")


def test_any_words_stay_text(tmp_path: Path) -> None:
    write_junit(tmp_path / "junit.xml", summary_of(SLOW, name=HOSTILE, unreachable=HOSTILE))
    root = ET.fromstring((tmp_path / "junit.xml").read_bytes())
    (case,) = root.iter("testcase")
    held = HOSTILE.replace("\x00", "\ufffd").replace("\x1b", "\ufffd").replace("\ud800", "\ufffd").replace("\uffff", "\ufffd")
    assert case.get("classname") == held
    assert case[0].get("message") == f"unreachable: the target cannot be reached: {held}"
    assert {element.tag for element in root.iter()} == {"testsuites", "testsuite", "testcase", "error"}

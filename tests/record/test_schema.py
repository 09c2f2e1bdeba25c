"""reports/summary.schema.json describes what is written: the sample, and fresh summaries of good and empty runs."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from loadgen.model import Outcome
from tests.support.virtual import run_virtual, script

REPORTS = Path(__file__).parents[2] / "reports"
SCHEMA = json.loads((REPORTS / "summary.schema.json").read_text())


def check(summary: dict[str, Any]) -> None:
    jsonschema.validate(json.loads(json.dumps(summary, allow_nan=False)), SCHEMA)


def test_the_sample() -> None:
    check(json.loads((REPORTS / "sample" / "summary.json").read_text()))


def test_fresh_summaries() -> None:
    check(run_virtual("load: [{hold: 1s, streams: 2}]", sim={"ttft": "50ms", "itl": "10ms"}).summary)
    check(run_virtual("load: [{hold: 1s, streams: 2}]\nslo: [ttft p99 < 1s]", handler=script(b"no http")).summary)


def test_it_can_refuse() -> None:
    summary = json.loads((REPORTS / "sample" / "summary.json").read_text())
    summary["metrics"]["tls"] = {"count": 0, "p50_ms": 0.0}
    with pytest.raises(jsonschema.ValidationError):
        check(summary)


def test_every_outcome_is_named() -> None:
    assert SCHEMA["properties"]["streams"]["properties"]["outcomes"]["propertyNames"]["enum"] == list(Outcome)

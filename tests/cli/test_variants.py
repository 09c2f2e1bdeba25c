"""A run with variants: rounds in turns, one folder, one verdict."""

import json
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from loadgen import api
from loadgen.cli.app import app
from loadgen.clock import NS_PER_S
from loadgen.record.health import GeneratorHealth
from loadgen.record.hlog import read_hlog
from loadgen.record.journal import read_journal
from loadgen.report.progress import Silent
from loadgen.workload.loader import loads

WORKLOAD = """
loadgen: 1
name: both
target: {sim: {ttft: 40ms, itl: 10ms}}
requests: [{max_tokens: 4}]
load: [{hold: 400ms, streams: 3}]
drain: 2s
rounds: 2
slo: ["ttft p50 < 90ms"]
variants:
  fast: {}
  slow: {target: {sim: {ttft: 140ms}}}
"""


class Order(Silent):
    def __init__(self) -> None:
        self.turns: list[str] = []

    def on_level(self, words: str) -> None:
        self.turns.append(words)


@pytest.mark.net
@pytest.mark.slow
def test_variants_take_turns_and_are_told_apart(tmp_path: Path) -> None:
    order = Order()
    result = api.run(loads(WORKLOAD), out=tmp_path, observer=order, processes=1)
    summary = result.summary
    schema = json.loads((Path(__file__).parents[2] / "reports" / "summary.schema.json").read_text())
    jsonschema.validate(json.loads(json.dumps(summary)), schema)
    assert order.turns == ["fast, round 1 of 2", "slow, round 1 of 2", "slow, round 2 of 2", "fast, round 2 of 2"]
    fast, slow = summary["variants"]["fast"], summary["variants"]["slow"]
    assert 40 <= fast["metrics"]["ttft"]["p50_ms"] < 90
    assert 140 <= slow["metrics"]["ttft"]["p50_ms"] < 200
    assert [(rule["variant"], rule["ok"]) for rule in summary["slo"]] == [("fast", True), ("slow", False)]
    assert result.exit_code in {1, 4}  # 4: this machine is busy with something else
    assert summary["streams"]["started"] == fast["streams"]["started"] + slow["streams"]["started"]
    records = read_journal(tmp_path / "journal.jsonl").records
    assert len({record.stream for record in records}) == len(records) == summary["streams"]["started"]
    assert {record.variant for record in records} == {"fast", "slow"}
    logged = read_hlog(tmp_path / "histograms.hlog")
    assert logged["slow.ttft"].count == slow["metrics"]["ttft"]["count"]
    assert (tmp_path / "fast.ttft.hgrm").exists()
    assert 'name="slow: ttft p50 &lt; 90ms"' in (tmp_path / "junit.xml").read_text()
    assert fast["tokens"]["per_s"] == pytest.approx(3 * 4 / 0.072, rel=0.25)
    assert fast["concurrency"]["asked"] == fast["concurrency"]["max"] == 3


def test_check_names_the_variants(tmp_path: Path) -> None:
    path = tmp_path / "both.yaml"
    path.write_text(WORKLOAD)
    told = CliRunner().invoke(app, ["check", str(path)]).stdout
    assert "variant   fast: as above\nvariant   slow: other target\nrounds    2: the variants take turns" in told


def test_health_of_rounds_is_averaged_over_their_time() -> None:
    level = {"concurrency_mean_asked": 5.0, "concurrency_asked": 5, "concurrency_max": 5}
    first = GeneratorHealth(wall_s=1, cpu_s=0.5, concurrency_mean=4, **level)  # type: ignore[arg-type]
    later = GeneratorHealth(wall_s=3, cpu_s=0.3, concurrency_mean=5, **level)  # type: ignore[arg-type]
    for health, lag in ((first, 1), (later, 2)):
        health.read_lag.record(lag * NS_PER_S)
    first.follow(later)
    assert (first.concurrency_mean, first.concurrency_mean_asked) == (4.75, 5)
    assert (first.concurrency_asked, first.concurrency_max, first.wall_s, first.cpu_s) == (5, 5, 4, 0.8)
    assert first.read_lag.count == 2

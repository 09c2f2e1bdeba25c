"""loadgen run --prometheus: where the metrics are is said, and they are there while the run goes on."""

import urllib.request
from pathlib import Path

import pytest

from loadgen import api
from loadgen.report.prometheus import PrometheusExporter
from tests.cli.test_output import SHORT
from tests.cli.test_run import SIM, finish, invoke, spawn, write

pytestmark = pytest.mark.net


@pytest.mark.slow
def test_a_run_says_where_its_metrics_are_and_serves_them(tmp_path: Path) -> None:
    command = ("run", write(tmp_path, SHORT), "--out", str(tmp_path / "o"), "--quiet", "--json", "--prometheus", "127.0.0.1:0")
    process = spawn(*command)
    assert process.stderr is not None
    said = process.stderr.readline()
    assert said.startswith("metrics on http://127.0.0.1:")
    with urllib.request.urlopen(said.split()[-1], timeout=5) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        assert b'loadgen_run_info{name="small"' in answer.read()
    code, _, err = finish(process)
    assert (code in {0, 4}, err) == (True, "")  # 4: this machine is busy with other tests


@pytest.mark.slow
def test_several_processes_add_up_to_what_the_summary_says(tmp_path: Path) -> None:
    text = SIM.replace("hold: 1s", "hold: 2s")  # a run shorter than a second tells nobody of an interval
    exporter = PrometheusExporter("small")
    summary = api.run(write(tmp_path, text), out=tmp_path / "o", processes=2, observer=exporter).summary
    exporter.finish()
    samples = [sample for family in exporter.collect() for sample in family.samples]
    counts = {sample.name: sample.value for sample in samples if sample.name.endswith("_count")}
    assert counts == {
        "loadgen_ttft_seconds_count": summary["metrics"]["ttft"]["count"],
        "loadgen_itl_seconds_count": summary["metrics"]["itl"]["count"],
        "loadgen_read_lag_seconds_count": summary["generator"]["read_lag"]["count"],
    }
    assert counts["loadgen_read_lag_seconds_count"] > 0


def test_an_address_that_is_none_is_exit_2_before_the_run(tmp_path: Path) -> None:
    code, out, err = invoke("run", write(tmp_path, SHORT), "--out", str(tmp_path / "o"), "--prometheus", "localhost")
    assert (code, out) == (2, "")
    assert "HOST:PORT" in err
    assert not (tmp_path / "o").exists()

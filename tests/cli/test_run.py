"""The program as a person or a CI job runs it: output, exit codes, files, Ctrl-C."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from hdrh.log import HistogramLogReader
from typer.testing import CliRunner

import loadgen
from loadgen.cli.app import app
from loadgen.errors import WorkloadError
from loadgen.record.journal import read_journal
from tests.support.servers import free_port

pytestmark = pytest.mark.net
ROOT = Path(__file__).parents[2]
SIM = """
loadgen: 1
name: small
target: {sim: {ttft: 60ms, itl: 10ms}, headers: {Authorization: "Bearer ${SECRET_KEY:-sk-hidden}"}}
requests: [{max_tokens: 8}]
load: [{warmup: 300ms, streams: 4}, {hold: 1s, streams: 4}]
drain: 3s
"""


def write(tmp_path: Path, text: str = SIM) -> str:
    path = tmp_path / "workload.yaml"
    path.write_text(text)
    return str(path)


def invoke(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=True)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def spawn(*arguments: str, cwd: Path = ROOT) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "loadgen", *arguments], cwd=cwd, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def until_measured(folder: Path, streams: int, timeout: float = 20) -> None:
    """Wait until so many streams of measured phases have ended, as the run's journal tells."""
    deadline = time.monotonic() + timeout
    path = folder / "journal.jsonl"
    while not path.exists() or path.read_bytes().count(b'"measured":true') < streams:
        assert time.monotonic() < deadline, "the run does not come on"
        time.sleep(0.05)


def finish(process: "subprocess.Popen[str]", timeout: float = 20) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return process.returncode, out, err


@pytest.mark.slow
@pytest.mark.serial
def test_run_writes_its_folder_and_prints_the_report(tmp_path: Path) -> None:
    code, out, err = invoke("run", write(tmp_path), "--out", str(tmp_path / "out"))
    assert code == 0, err
    assert out.startswith("PASS small: measured")
    assert max(map(len, out.splitlines())) <= 100
    assert "intended start to first token" in " ".join(out.split())
    folder = tmp_path / "out"
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["schema"] == "loadgen.summary/1"
    assert 60 <= summary["metrics"]["ttft"]["p50_ms"] < 75
    assert 8 < summary["metrics"]["itl"]["p50_ms"] < 12
    journal = read_journal(folder / "journal.jsonl")
    assert len(journal.records) == summary["streams"]["started"] + summary["streams"]["warmup"]["started"]
    reader = HistogramLogReader(str(folder / "histograms.hlog"), _reference())
    counts: dict[str, int] = {}
    while (interval := reader.get_next_interval_histogram()) is not None:
        tag = interval.get_tag()
        counts[tag] = counts.get(tag, 0) + interval.get_total_count()
    reader.close()
    assert counts["ttft"] == summary["metrics"]["ttft"]["count"]
    assert counts["itl"] == summary["metrics"]["itl"]["count"]
    assert "Percentile" in (folder / "ttft.hgrm").read_text()
    rows = (folder / "intervals.csv").read_text().splitlines()
    assert rows[0].startswith("start_s,length_s,phase")
    assert len(rows) >= 3
    for file in folder.iterdir():
        assert "sk-hidden" not in file.read_text(), file
    assert json.loads((folder / "manifest.json").read_text())["workload"]["target"]["headers"] == {"Authorization": "***"}


def _reference() -> object:
    from hdrh.histogram import HdrHistogram  # noqa: PLC0415

    return HdrHistogram(1, 3_600_000_000_000, 3)


@pytest.mark.slow
@pytest.mark.serial
def test_json_is_alone_on_stdout(tmp_path: Path) -> None:
    code, out, err = finish(spawn("run", write(tmp_path), "--json", "--out", str(tmp_path / "o")))
    assert code == 0, err
    summary = json.loads(out)
    assert summary["exit_code"] == 0
    assert summary == json.loads((tmp_path / "o" / "summary.json").read_text())


@pytest.mark.slow
@pytest.mark.serial
def test_a_failed_slo_is_exit_1_and_names_the_rule(tmp_path: Path) -> None:
    code, out, _ = invoke("run", write(tmp_path, SIM + 'slo: ["ttft p99 < 1ms", "itl p50 < 1s"]'), "--out", str(tmp_path))
    assert code == 1
    assert out.startswith("FAIL small: 1 of 2 SLOs failed: ttft p99 < 1ms (was ")


def test_workload_errors_are_exit_2_all_at_once_with_their_lines(tmp_path: Path) -> None:
    path = write(tmp_path, "loadgen: 1\ntarget: {url: x}\nload: [{hold: 5, streams: 0}]\nslo: [ttfb < 1s]\n")
    code, out, err = finish(spawn("run", path))
    assert (code, out) == (2, "")
    assert [line.partition(".yaml:")[2].partition(" ")[0] for line in err.splitlines()] == ["2:", "3:", "3:", "4:"]
    assert finish(spawn("run", str(tmp_path / "nope.yaml")))[0] == 2
    assert finish(spawn("run"))[0] == 2
    assert finish(spawn("walk"))[0] == 2


def test_a_dead_target_is_exit_3_with_one_sentence(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}/v1"
    text = f"loadgen: 1\nname: dead\ntarget: {{url: '{url}'}}\nload: [{{hold: 30s, streams: 3}}]"
    began = time.monotonic()
    code, out, _ = invoke("run", write(tmp_path, text), "--out", str(tmp_path / "o"), "--quiet")
    assert code == 3
    assert time.monotonic() - began < 5
    assert re.match(r"UNREACHABLE dead: the target cannot be reached: 127.0.0.1 port \d+: Connection\s+refused", out)


@pytest.mark.slow
@pytest.mark.parametrize("signals", [1, 2])
def test_ctrl_c_drains_and_reports_twice_cuts_and_reports(tmp_path: Path, signals: int) -> None:
    slow = SIM.replace("itl: 10ms", "itl: 200ms").replace("hold: 1s", "hold: 60s").replace("drain: 3s", "drain: 20s")
    process = spawn("run", write(tmp_path, slow), "--json", "--out", str(tmp_path / "o"))
    until_measured(tmp_path / "o", 1)
    for _ in range(signals):
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
    code, out, err = finish(process)
    assert code == 130, err
    summary = json.loads(out)
    assert summary["verdict"] == "interrupted"
    streams = summary["streams"]
    assert sum(streams["outcomes"].values()) == streams["started"]
    assert (streams["outcomes"].get("cut", 0) > 0) == (signals == 2)
    assert (tmp_path / "o" / "summary.json").exists()


@pytest.mark.slow
def test_a_killed_run_leaves_its_journal_and_no_server_behind(tmp_path: Path) -> None:
    process = spawn("run", write(tmp_path, SIM.replace("hold: 1s", "hold: 60s")), "--out", str(tmp_path / "o"))
    until_measured(tmp_path / "o", 8)
    process.kill()
    finish(process)
    journal = read_journal(tmp_path / "o" / "journal.jsonl")
    assert len(journal.records) > 4
    assert msgspec.json.decode((tmp_path / "o" / "journal.jsonl").read_bytes().split(b"\n")[0])["name"] == "small"
    time.sleep(0.5)
    left = subprocess.run(["pgrep", "-f", "loadgen.sim"], capture_output=True, text=True, check=False).stdout.split()
    assert not [pid for pid in left if Path(f"/proc/{pid}/stat").exists() and _parent(pid) == 1]


def _parent(pid: str) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_check_shows_the_plan_and_sends_nothing(tmp_path: Path) -> None:
    code, out, _ = invoke("check", write(tmp_path), "--set", "limit.streams=2")
    assert code == 0
    assert "hold 1s with 4 streams" in out
    assert "limit.streams lets 2 be open" in out
    code, out, _ = invoke("check", write(tmp_path), "--set", "load.1.streams=9999999")
    assert code == 2
    assert "file descriptors are needed" in out
    assert "local ports" in out


@pytest.mark.slow
@pytest.mark.serial
def test_the_python_surface(tmp_path: Path) -> None:
    workload = loadgen.load(write(tmp_path))
    result = loadgen.run(workload, out=tmp_path / "o")
    assert result.summary["name"] == "small"
    assert result.exit_code == 0
    assert result.folder == tmp_path / "o"
    with pytest.raises(WorkloadError):
        loadgen.run(tmp_path / "none.yaml")


def test_no_command_is_a_coroutine() -> None:
    """typer runs an async command not at all and exits 0."""
    import inspect  # noqa: PLC0415

    assert app.registered_commands
    assert not any(inspect.iscoroutinefunction(command.callback) for command in app.registered_commands)

"""Several generator processes: one run to look at, nothing lost, nothing left behind, whatever dies."""

import json
import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import loadgen
from loadgen import api
from loadgen.cluster.run import Worker, check_processes, choose_processes
from loadgen.errors import LoadgenError
from loadgen.record.journal import read_journal
from loadgen.record.recorder import Interval
from loadgen.report.progress import Silent
from loadgen.workload.loader import loads
from tests.cli.test_run import finish, spawn, until_measured
from tests.support.servers import free_port
from tests.support.workloads import workload

SIM = """
loadgen: 1
name: shared
target: {sim: {ttft: 60ms, itl: 10ms}}
requests: [{max_tokens: 8}]
load: [{warmup: 300ms, streams: 7}, {hold: 1200ms, streams: 7}]
drain: 3s
"""


def streams(count: int, *overrides: str) -> Any:
    return workload(f"loadgen: 1\ntarget: {{url: http://h/v1}}\nload: [{{hold: 5s, streams: {count}}}]", *overrides).to_plan()


@pytest.mark.parametrize(
    ("plan", "cores", "processes"),
    [
        (streams(1), 8, 1),
        (streams(1000), 8, 1),
        (streams(1001), 8, 2),
        (streams(9000), 4, 4),
        (streams(9000, "limit={streams: 3}"), 8, 1),
        (streams(9000, "transport.connections=2"), 8, 2),
        (loads(SIM, overrides=["load=[{hold: 5s, streams: 9000}]"]).to_plan(), 2, 1),  # the simulated server has the other core
    ],
)
def test_auto_takes_a_process_for_each_thousand_streams_within_the_cores(plan: Any, cores: int, processes: int) -> None:
    assert choose_processes(plan, cores) == processes


@pytest.mark.parametrize("asked", [0, 4])
def test_no_process_without_a_stream(asked: int) -> None:
    with pytest.raises(LoadgenError, match="can be shared by 1 to 3 processes"):
        check_processes(streams(3), asked)


@pytest.mark.net
@pytest.mark.slow
@pytest.mark.serial
def test_three_processes_make_one_run(tmp_path: Path) -> None:
    shown: list[Interval] = []

    class Shown(Silent):
        def on_interval(self, interval: Interval, progress: object, recorder: object) -> None:
            shown.append(interval)

    result = api.run(loads(SIM), out=tmp_path, observer=Shown(), processes=3)
    summary = result.summary
    assert summary["verdict"] in {"pass", "invalid"}  # invalid: this machine is busy with something else
    assert summary["generator"]["processes"] == 3
    assert summary["concurrency"]["asked"] == 7
    assert summary["concurrency"]["mean"] == pytest.approx(7, rel=0.02)
    assert 60 <= summary["metrics"]["ttft"]["p50_ms"] < 75
    assert summary["tokens"]["per_s"] == pytest.approx(7 * 8 / 0.132, rel=0.1)
    records = read_journal(tmp_path / "journal.jsonl").records
    assert len({record.stream for record in records}) == len(records)
    assert Counter(record.stream % 3 for record in records).keys() == {0, 1, 2}
    measured = [record for record in records if record.measured]
    assert len(measured) == summary["streams"]["started"] == sum(summary["streams"]["outcomes"].values())
    assert summary["metrics"]["ttft"]["count"] == len(measured)
    starts = [min(r.intended_ns for r in records if r.stream % 3 == process) for process in range(3)]
    assert max(starts) - min(starts) < 20_000_000
    assert [interval.phase for interval in shown][:1] == ["hold"] or shown[0].phase == "warmup"
    assert max(interval.open for interval in shown) == 7


@pytest.mark.net
@pytest.mark.slow
@pytest.mark.serial
def test_a_dead_worker_is_named_and_what_it_had_sent_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workers: list[Worker] = []
    make = Worker.__init__

    def remember(self: Worker, index: int, count: int) -> None:
        make(self, index, count)
        workers.append(self)

    monkeypatch.setattr(Worker, "__init__", remember)

    class Killer(Silent):
        def on_interval(self, interval: Interval, progress: object, recorder: object) -> None:
            if interval.measured:
                workers[1].process.kill()

    began = time.monotonic()
    result = api.run(loads(SIM, overrides=["load.1.hold=60s"]), out=tmp_path, observer=Killer(), processes=2)
    assert time.monotonic() - began < 15
    summary = result.summary
    assert (result.exit_code, summary["verdict"]) == (4, "invalid")
    assert "generator process 2 of 2 died (killed by SIGKILL)" in summary["verdict_reason"]
    assert summary["metrics"]["ttft"]["count"] > 4
    outcomes = summary["streams"]["outcomes"]
    assert sum(outcomes.values()) == summary["streams"]["started"]
    assert outcomes["cut"] >= 1
    assert {"outcome": "cut", "detail": "generator process 2 of 2 died"}.items() <= max(
        summary["streams"]["details"], key=lambda d: d["outcome"] == "cut"
    ).items()
    assert all(worker.process.poll() is not None for worker in workers)


@pytest.mark.net
@pytest.mark.slow
@pytest.mark.parametrize("signals", [1, 2])
def test_ctrl_c_reaches_all_processes(tmp_path: Path, signals: int) -> None:
    path = tmp_path / "workload.yaml"
    path.write_text(
        SIM.replace("itl: 10ms", "itl: 200ms").replace("hold: 1200ms", "hold: 60s").replace("drain: 3s", "drain: 20s")
    )
    process = spawn("run", str(path), "--processes", "2", "--json", "--out", str(tmp_path / "o"))
    until_measured(tmp_path / "o", 1)
    for _ in range(signals):
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
    code, out, err = finish(process)
    assert code == 130, err
    told = json.loads(out)["streams"]
    assert sum(told["outcomes"].values()) == told["started"]
    assert (told["outcomes"].get("cut", 0) > 0) == (signals == 2)


@pytest.mark.net
@pytest.mark.slow
def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    path = tmp_path / "workload.yaml"
    path.write_text(SIM.replace("hold: 1200ms", "hold: 60s"))
    process = spawn("run", str(path), "--processes", "2", "--out", str(tmp_path / "o"))
    until_measured(tmp_path / "o", 1)
    found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False).stdout.split()
    assert len(found) == 3  # two workers and the simulated server
    process.kill()
    finish(process)
    deadline = time.monotonic() + 5
    while alive := [pid for pid in found if _alive(int(pid))]:
        assert time.monotonic() < deadline, f"still there: {alive}"
        time.sleep(0.05)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.net
@pytest.mark.slow
def test_a_target_that_is_not_there_is_unreachable_for_all(tmp_path: Path) -> None:
    text = f"loadgen: 1\ntarget: {{url: 'http://127.0.0.1:{free_port()}/v1'}}\nload: [{{hold: 30s, streams: 4}}]"
    result = api.run(loads(text), out=tmp_path, processes=2)
    assert result.exit_code == 3
    assert "Connection refused" in result.summary["verdict_reason"]


@pytest.mark.net
@pytest.mark.slow
def test_a_worker_that_cannot_start_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "sitecustomize.py").write_text("import sys\nif any('cluster' in a for a in sys.orig_argv): sys.exit(7)\n")
    with pytest.raises(LoadgenError, match="generator process 1 of 2 did not start: it failed with exit code"):
        loadgen.run(loads(SIM), out=tmp_path / "o", processes=2)


def test_parts_follow_the_whole_at_every_moment() -> None:
    plan = workload(
        "loadgen: 1\ntarget: {url: http://h/v1}\nload: [{ramp: 10s, streams: [1, 333]}]\nlimit: {streams: 100}"
    ).to_plan()
    parts = [plan.part(index, 7) for index in range(7)]
    for ms in range(0, 10_001, 13):
        assert sum(p.phases[0].streams_at(ms * 1_000_000) for p in parts) == plan.phases[0].streams_at(ms * 1_000_000)
    assert sum(p.limit.streams for p in parts if p.limit) == 100

"""Runs that end before their time: a simulated server that dies, Ctrl-C before the first stream."""

import json
import os
import signal
import socket
import time
from pathlib import Path

import pytest

from loadgen.record.journal import read_journal
from tests.cli.test_run import SIM, finish, spawn, write

pytestmark = [pytest.mark.net, pytest.mark.slow]


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


@pytest.mark.skipif(not Path(f"/proc/{os.getpid()}/task").exists(), reason="needs /proc (Linux)")
def test_a_simulated_server_that_dies_leaves_what_was_measured(tmp_path: Path) -> None:
    folder = tmp_path / "o"
    process = spawn("run", write(tmp_path, SIM.replace("hold: 1s", "hold: 4s")), "--out", str(folder), "--json", "--quiet")
    deadline = time.monotonic() + 10
    journal = folder / "journal.jsonl"
    while not (journal.exists() and len(journal.read_bytes().splitlines()) > 20):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    for child in children(process.pid):
        os.kill(child, signal.SIGKILL)
    code, out, err = finish(process)
    assert code == 3, err
    summary = json.loads(out)
    assert summary["verdict_reason"] == "the target cannot be reached: the simulated server died during the run (exit -9)"
    assert summary["streams"]["outcomes"]["completed"] > 0
    assert sum(summary["streams"]["outcomes"].values()) == summary["streams"]["started"]
    assert len(read_journal(journal).records) == summary["streams"]["started"] + summary["streams"]["warmup"]["started"]


def test_ctrl_c_before_the_first_stream_is_exit_130_without_a_traceback(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        text = f"loadgen: 1\ntarget: {{url: '{url}', model: auto}}\nload: [{{hold: 1s, streams: 1}}]"
        process = spawn("run", write(tmp_path, text), "--out", str(tmp_path / "o"), "--json")
        silent.settimeout(10)
        connection, _ = silent.accept()  # it asks which model there is, and waits
        with connection:
            process.send_signal(signal.SIGINT)
            code, out, err = finish(process)
    assert (code, out) == (130, "")
    assert "Traceback" not in err

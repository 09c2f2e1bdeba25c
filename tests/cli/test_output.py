"""Where a run writes to: folders that cannot be had, full disks, readers that leave."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_run import ROOT, SIM, finish, spawn, write

pytestmark = pytest.mark.net
SHORT = SIM.replace("hold: 1s", "hold: 500ms").replace("warmup: 300ms", "warmup: 100ms")


@pytest.mark.parametrize("out", ["/dev/null/x", "file"])
def test_a_folder_that_cannot_be_made_is_exit_2_and_no_bug(tmp_path: Path, out: str) -> None:
    (tmp_path / "file").write_text("")
    code, printed, err = finish(spawn("run", write(tmp_path, SHORT), "--out", str(tmp_path / out), "--quiet"))
    assert (code, printed) == (2, "")
    assert err.startswith("loadgen: cannot write the run's files to ")
    assert len(err.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full (Linux)")
@pytest.mark.parametrize("file", ["journal.jsonl", "histograms.hlog", "summary.json"])
def test_a_full_disk_is_told_as_one(tmp_path: Path, file: str) -> None:
    folder = tmp_path / "o"
    folder.mkdir()
    (folder / file).symlink_to("/dev/full")
    code, _, err = finish(spawn("run", write(tmp_path, SHORT), "--out", str(folder), "--quiet"))
    assert (code, err) == (2, f"loadgen: cannot write the run's files to {folder}: No space left on device\n")


@pytest.mark.slow
def test_a_disk_that_fills_up_during_the_run_is_told_as_one(tmp_path: Path) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))"
    code = f"{limit}; from loadgen.cli.app import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "run", write(tmp_path, SHORT), "--out", str(tmp_path / "o"), "--quiet"],
        cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    returned, _, err = finish(process)
    assert (returned, err) == (2, f"loadgen: cannot write the run's files to {tmp_path / 'o'}: File too large\n")


@pytest.mark.slow
@pytest.mark.parametrize(("closed", "options"), [("stdout", []), ("stdout", ["--json"]), ("stderr", ["--json"])])
def test_a_reader_that_leaves_changes_neither_the_run_nor_its_exit_code(
    tmp_path: Path, closed: str, options: list[str]
) -> None:
    """``loadgen run ... | head`` under pipefail: 1 would say that an SLO failed."""
    ours, theirs = os.pipe()
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | {closed: theirs}
    command = [sys.executable, "-m", "loadgen", "run", write(tmp_path, SHORT), "--out", str(tmp_path / "o"), *options]
    process = subprocess.Popen(command, cwd=ROOT, text=True, **pipes)
    os.close(theirs)
    os.close(ours)
    code, out, err = finish(process)
    assert "Traceback" not in (err or "")
    summary = json.loads((tmp_path / "o" / "summary.json").read_text())
    assert code == summary["exit_code"]  # 0, or 4 on a machine that is busy with other things; there is no SLO to fail
    assert code in {0, 4}
    if closed == "stderr":
        assert json.loads(out) == summary

"""Every workload in workloads/ runs as it is written, shortened, against the simulated server."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOLD = ["load.0.warmup=300ms", "load.0.streams=2", "load.1.hold=700ms", "load.1.streams=2", "drain=8s"]
SEARCH = ["load.0.capacity={from: 2, to: 4, hold: 500ms}", "drain=8s"]

pytestmark = [pytest.mark.net, pytest.mark.slow]


@pytest.mark.parametrize("path", sorted((ROOT / "workloads").glob("*.yaml")), ids=lambda path: path.stem)
def test_it_runs(path: Path, tmp_path: Path) -> None:
    text = path.read_text()
    overrides = list(SEARCH if "capacity:" in text else ["rounds=1"] if "variants:" in text else HOLD)
    if "sim:" not in text:
        overrides += ["target={sim: {ttft: 50ms, itl: 5ms}}"]
    command = [sys.executable, "-m", "loadgen", "run", str(path), "--json", "--quiet", "--out", str(tmp_path)]
    for override in overrides:
        command += ["--set", override]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=40, check=False)
    summary = json.loads(done.stdout)
    assert summary["streams"]["outcomes"]["completed"] >= 2, done.stderr
    assert done.returncode in {0, 4}  # 4: this machine is busy with other tests, and the run says so

"""`loadgen serve` as a person starts it: what it says, what it serves, how it ends."""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from loadgen.cli.app import app
from loadgen.errors import WorkloadError

pytestmark = [pytest.mark.net, pytest.mark.slow]
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_serves_until_a_signal(ending: signal.Signals, tmp_path: Path) -> None:
    script = tmp_path / "sim.yaml"
    script.write_text("prefill: {base: 1h}\nusage: true\n")
    arguments = ["--port", "0", "--json", "--script", str(script), "--set", "prefill.base=5ms", "--set", "decode.step=1ms"]
    with subprocess.Popen(
        [sys.executable, "-m", "loadgen", "serve", *arguments], cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            body = {"messages": [{"role": "user", "content": "hi"}], "stream": True, "max_tokens": 10}
            answer = httpx.post(f"{ready['url']}/v1/chat/completions", json=body, timeout=10)
            process.send_signal(ending)
            out, err = process.communicate(timeout=10)
        finally:
            process.kill()
    assert ready["pid"] == process.pid
    assert '"completion_tokens":10' in answer.text
    assert answer.text.endswith("data: [DONE]\n\n")
    assert (process.returncode, out) == (0, "")
    first, example, last = err.splitlines()
    assert first == f"simulated server on {ready['url']} (Ctrl-C ends it); try"
    assert example.startswith(f"  curl -N {ready['url']}/v1/chat/completions -d '{{")
    assert last == "streams: 1 finished; at most 1 open at once"


def test_port_in_use_is_a_usage_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = CliRunner().invoke(app, ["serve", "--port", str(port)])
    assert result.exit_code == 2
    assert f"cannot listen on 127.0.0.1 port {port}" in result.stderr


def test_bad_shorthand_is_named() -> None:
    result = CliRunner().invoke(app, ["serve", "--port", "0", "--ttft", "10"])
    assert isinstance(result.exception, WorkloadError)
    assert "ttft: must be a duration" in str(result.exception)

"""The server as a process: read by a foreign client, gone afterwards whatever happens."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import msgspec
import pytest
import trio

from loadgen.errors import LoadgenError
from loadgen.sim import process as sim_process
from loadgen.sim.process import open_sim_process
from loadgen.sim.schedule import StreamSchedule
from loadgen.workload.sim_script import SimScript
from tests.support.sim_client import chat_body

pytestmark = [pytest.mark.net, pytest.mark.slow]
SCRIPT = SimScript.model_validate({"ttft": "50ms", "itl": "5ms"})
CHAT = "/v1/chat/completions"


def exists(pid: int) -> bool:
    """Whether it runs; a zombie that nobody has reaped yet does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


async def test_httpx_reads_it() -> None:
    with trio.fail_after(20):
        async with open_sim_process(SCRIPT) as sim, httpx.AsyncClient(base_url=sim.url) as client:
            chunks = []
            async with client.stream("POST", CHAT, content=chat_body(max_tokens=20)) as response:
                assert response.status_code == 200
                async for line in response.aiter_lines():
                    if line.startswith("data: {"):
                        chunks.append(msgspec.json.decode(line[6:]))
                assert line == ""
            stamps = [chunk["sim"]["mono_ns"] for chunk in chunks if "sim" in chunk]
            (logged,) = (await client.get("/sim/streams")).json()
            plain = await client.post(CHAT, content=chat_body(stream=False, max_tokens=3))
            assert plain.json()["usage"]["completion_tokens"] == 3
            pid = sim.pid
            assert os.getsid(pid) == pid  # Ctrl-C in our terminal is not for it
    assert stamps == logged["sent_ns"]
    assert len(stamps) == 20
    # The schedule is absolute: no token leaves early, and lateness does not add up. How late is the machine's affair.
    lateness = [at - logged["arrived_ns"] - (50 + 5 * n) * 1_000_000 for n, at in enumerate(stamps)]
    assert min(lateness) >= 0
    assert lateness[-1] < 200_000_000
    assert not exists(pid)


async def test_client_that_resets_is_an_abort() -> None:
    with trio.fail_after(20):
        async with open_sim_process(SCRIPT) as sim, httpx.AsyncClient(base_url=sim.url) as client:
            parts = urlsplit(sim.url)
            assert parts.hostname is not None
            assert parts.port is not None
            stream = await trio.open_tcp_stream(parts.hostname, parts.port)
            body = chat_body(max_tokens=10_000)
            await stream.send_all(
                b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (CHAT.encode(), len(body)) + body
            )
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 200 ")
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            await stream.aclose()
            while "loadgen_sim_aborts_total 1\n" not in (text := (await client.get("/metrics")).text):
                await trio.sleep(0.01)
            assert "vllm:kv_cache_usage_perc 0.0\n" in text


async def test_scripted_reset_arrives_as_one() -> None:
    script = SimScript.model_validate({"ttft": "5ms", "itl": "5ms", "faults": [{"share": 1, "kind": "reset", "after": 2}]})
    with trio.fail_after(20):
        async with open_sim_process(script) as sim, httpx.AsyncClient(base_url=sim.url) as client:
            with pytest.raises(httpx.ReadError):
                await client.post(CHAT, content=chat_body())


@pytest.mark.parametrize(("in_script", "given", "counts"), [(None, 3, 3), (9, 3, 9), (None, None, 0)])
async def test_seed_counts_where_the_script_names_none(in_script: int | None, given: int | None, counts: int) -> None:
    """Which streams meet the fault tells which seed the server has."""
    script = SimScript.model_validate({"ttft": 0, "seed": in_script, "faults": [{"share": "50%", "kind": "status"}]})
    seeded = script.model_copy(update={"seed": counts})
    with trio.fail_after(20):
        async with open_sim_process(script, seed=given) as sim, httpx.AsyncClient(base_url=sim.url) as client:
            met = [(await client.get("/sse?n=1")).status_code == 503 for _ in range(32)]
    assert met == [StreamSchedule(seeded, number).fault is not None for number in range(32)]


async def test_death_during_the_run_is_noticed() -> None:
    async def main() -> None:
        async with open_sim_process(SCRIPT) as sim:
            assert sim.returncode is None
            os.kill(sim.pid, signal.SIGKILL)
            assert await sim.wait_ended() == -signal.SIGKILL
            assert sim.returncode == -signal.SIGKILL

    with trio.fail_after(20), pytest.raises(LoadgenError, match=r"died during the run \(exit -9\)"):
        await main()


async def test_gone_after_an_error_and_after_a_cancellation() -> None:
    pids = []
    with trio.fail_after(20):
        with pytest.raises(ZeroDivisionError):  # noqa: PT012 - the block is what is tested
            async with open_sim_process(SCRIPT) as sim:
                pids.append(sim.pid)
                raise ZeroDivisionError
        with trio.CancelScope() as scope:
            async with open_sim_process(SCRIPT) as sim:
                pids.append(sim.pid)
                scope.cancel()
                await trio.sleep_forever()
    assert len(pids) == 2
    assert not any(map(exists, pids))


async def test_hanging_server_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sim_process, "STOP_TIMEOUT_S", 0.1)
    with trio.fail_after(20):
        async with open_sim_process(SCRIPT) as sim:
            os.kill(sim.pid, signal.SIGSTOP)
        assert not exists(sim.pid)


async def test_server_that_does_not_start_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    false = tmp_path / "python"
    false.write_text("#!/bin/sh\nexit 1\n")
    false.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(false))
    with trio.fail_after(20), pytest.raises(LoadgenError, match="ended before it listened"):
        async with open_sim_process(SCRIPT):
            pytest.fail("it started")


def test_gone_when_the_parent_is_killed() -> None:
    parent = (
        "import trio\nfrom loadgen.sim.process import open_sim_process\nfrom loadgen.workload.sim_script import SimScript\n"
        "async def main():\n    async with open_sim_process(SimScript()) as sim:\n"
        "        print(sim.pid, flush=True)\n        await trio.sleep_forever()\ntrio.run(main)\n"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.kill()

    async def wait_until_gone() -> None:
        with trio.fail_after(10):
            while exists(pid):
                await trio.sleep(0.01)

    trio.run(wait_until_gone)

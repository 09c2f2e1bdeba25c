"""The simulated server in a process of its own, so that it does not share a core's time slice with what measures it."""

import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import trio

from loadgen.errors import LoadgenError
from loadgen.workload.sim_script import SimScript

START_TIMEOUT_S: Final = 20.0
STOP_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class SimProcess:
    url: str
    pid: int


@asynccontextmanager
async def open_sim_process(script: SimScript) -> AsyncIterator[SimProcess]:
    """A running simulated server; gone when the block is left, also when this process dies.

    Raises LoadgenError when it does not come up, or when it died while the block ran.
    """
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", "loadgen.sim"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        await process.stdin.send_all(script.to_json().encode() + b"\n")
        yield await _read_address(process.stdout)
        if process.poll() is not None:
            raise LoadgenError(f"the simulated server died during the run (exit {process.returncode})")
    finally:
        with trio.CancelScope(shield=True):
            await process.stdin.aclose()
            with trio.move_on_after(STOP_TIMEOUT_S):
                await process.wait()
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                await process.wait()
            await process.stdout.aclose()


async def _read_address(stdout: trio.abc.ReceiveStream) -> SimProcess:
    line = bytearray()
    with trio.move_on_after(START_TIMEOUT_S):
        while not line.endswith(b"\n"):
            data = await stdout.receive_some()
            if not data:
                raise LoadgenError("the simulated server ended before it listened; its message stands above")
            line += data
        told = json.loads(line)
        return SimProcess(told["url"], told["pid"])
    raise LoadgenError(f"the simulated server did not listen within {START_TIMEOUT_S:g} s")

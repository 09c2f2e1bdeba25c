"""The simulated server in a process of its own, so that it does not share a core's time slice with what measures it."""

import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

import msgspec
import trio

from loadgen.errors import LoadgenError
from loadgen.workload.sim_script import SimScript

START_TIMEOUT_S: Final = 20.0
STOP_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class SimProcess:
    """``url`` has no path. ``returncode`` and ``wait_ended`` tell of a death while the block runs."""

    url: str
    pid: int
    _process: trio.Process

    @property
    def returncode(self) -> int | None:
        """None while it lives; negative: the signal that ended it."""
        return self._process.poll()

    async def wait_ended(self) -> int:
        """Return its exit code once it has ended. For a task that watches it."""
        return await self._process.wait()


class _Address(msgspec.Struct):
    url: str
    pid: int


@asynccontextmanager
async def open_sim_process(script: SimScript, *, seed: int | None = None) -> AsyncIterator[SimProcess]:
    """A running simulated server; see ``open_server_process``. ``seed`` counts where the script names none."""
    if script.seed is None and seed is not None:
        script = script.model_copy(update={"seed": seed})
    async with open_server_process("loadgen.sim", script.to_json()) as server:
        yield server


@asynccontextmanager
async def open_server_process(module: str, first_line: str = "") -> AsyncIterator[SimProcess]:
    """``python -m module``, which takes its script as the first line of stdin, if it takes one, and tells its address.

    Gone when the block is left, also when this process dies. Raises LoadgenError when the server does not come up, and at the
    end of the block when it died while the block ran. Ctrl-C does not reach it: it has a session of its own.
    """
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if first_line:
            with suppress(trio.BrokenResourceError):  # it died at once; reading its address says so
                await process.stdin.send_all(first_line.encode() + b"\n")
        address = await _read_address(process.stdout)
        yield SimProcess(address.url, address.pid, process)
        if process.poll() is not None:
            raise LoadgenError(f"the simulated server died during the run (exit {process.returncode})")
    finally:
        with trio.CancelScope(shield=True):
            await process.stdin.aclose()  # it ends by itself on that
            with trio.move_on_after(STOP_TIMEOUT_S):
                await process.wait()
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                await process.wait()
            await process.stdout.aclose()


async def _read_address(stdout: trio.abc.ReceiveStream) -> _Address:
    line = bytearray()
    with trio.move_on_after(START_TIMEOUT_S):
        while not line.endswith(b"\n"):
            data = await stdout.receive_some()
            if not data:
                raise LoadgenError("the simulated server ended before it listened; its message stands above")
            line += data
        return msgspec.json.decode(line, type=_Address)
    raise LoadgenError(f"the simulated server did not listen within {START_TIMEOUT_S:g} s")

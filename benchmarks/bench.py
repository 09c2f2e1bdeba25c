"""Speed and truth of loadgen beside a C client, httpx and nothing else, on the same server, in one run: `make bench`.

The server (truth_server.c) runs on core 0 and writes the moment of each send into the event; clients run on core 1. Cost is
CPU time per event over the whole process, recording included, without the start of the run. Error is the arrival stamp that
loadgen keeps minus the server's own CLOCK_MONOTONIC just before its send. Figures are printed as ratios to the C client of the
same run: absolute ones mean little on a shared machine.
"""

import argparse
import json
import os
import platform
import re
import resource
import socket
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import trio

from loadgen.clock import SystemClock
from loadgen.engine import stream as stream_module
from loadgen.engine.run import execute
from loadgen.record.recorder import Recorder
from loadgen.report.progress import Silent
from loadgen.transport.exchange import Exchange
from loadgen.workload.loader import loads

HERE = Path(__file__).parent
SERVER_CORE, CLIENT_CORE = 0, 1
STAMP = re.compile(rb'"content":"m([0-9]{19})')  # the server's clock, in the text of each event


def build(folder: Path, name: str) -> Path:
    subprocess.run(["gcc", "-O2", "-Wall", "-o", folder / name, HERE / f"{name}.c"], check=True)
    return folder / name


@contextmanager
def truth_server(program: Path) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with subprocess.Popen([program, str(port), str(SERVER_CORE)]) as process:
        time.sleep(0.3)
        try:
            yield port
        finally:
            process.kill()


def query(rate: int, events: int = 100_000) -> str:
    """Streams that begin spread over one gap and then send ``rate`` events a second."""
    gap_us = 1_000_000 // rate
    return f"/v1/chat/completions?ttft_us=100000&tj_us={gap_us}&itl_us={gap_us}&n={events}"


def c_client(program: Path, port: int, streams: int, rate: int, seconds: float) -> float:
    """CPU us per event."""
    out = subprocess.run(
        [program, str(port), str(streams), str(seconds), query(rate), str(CLIENT_CORE)],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    told = json.loads(out)
    return told["cpu_ns"] / 1e3 / told["events"]


def in_child(task: str, *arguments: object) -> dict[str, Any]:
    """Run one of TASKS in a process of its own on the clients' core; what it printed."""
    out = subprocess.run(
        ["taskset", "-c", str(CLIENT_CORE), sys.executable, str(HERE / "bench.py"), "--task", task, *map(str, arguments)],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    told: dict[str, Any] = json.loads(out)
    return told


class Clocked(Silent):
    """CPU and events between the first and the last interval that count."""

    def __init__(self, skip_s: float) -> None:
        self.marks: list[tuple[float, int]] = []
        self._skip_s = skip_s
        self._events = 0

    def on_interval(self, interval, progress, recorder) -> None:  # noqa: ANN001
        self._events += interval.output_events
        if progress.elapsed_s > self._skip_s and progress.phase is not None:
            self.marks.append((time.process_time(), self._events))


def task_loadgen(port: str, streams: str, rate: str, seconds: str, truth: str) -> dict[str, Any]:
    """One loadgen run in this process; with ``truth`` every stamp is compared with the server's."""
    keep_truth = truth == "1"
    kept: list[tuple[array, list[int]]] = []
    if keep_truth:
        keep_stamps(kept)
    hold = float(seconds) + int(streams) / 1000
    plan = loads(
        f'loadgen: 1\ntarget: {{url: "http://127.0.0.1:{port}{query(int(rate))}"}}\n'
        f"load: [{{hold: {hold}s, streams: {streams}}}]\ndrain: 0s\n"
    ).to_plan()
    recorder = Recorder(plan.phases, SystemClock.now_ns())
    clocked = Clocked(int(streams) / 1000 + 1)
    data = trio.run(execute, plan, recorder, clocked)
    (cpu0, events0), (cpu1, events1) = clocked.marks[0], clocked.marks[-1]
    generator = data.health.summary(recorder.measured())
    told = {
        "us": (cpu1 - cpu0) * 1e6 / (events1 - events0),
        "events_per_s": max(i.output_events / i.length_s for i in recorder.intervals if i.length_s > 0.5),
        "exact": generator["stamp_quality"]["exact"],
        "lag_p99_ms": generator["read_lag"]["p99_ms"],
        "valid": generator["valid"],
        "reasons": generator["reasons"],
        "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    if keep_truth:
        errors = np.concatenate([np.array(seen[: len(sent)]) - np.array(sent[: len(seen)]) for seen, sent in kept]) / 1e3
        told |= {
            "error_p50_us": float(np.quantile(errors, 0.5)), "error_p99_us": float(np.quantile(errors, 0.99)),
            "error_max_us": float(errors.max()), "error_min_us": float(errors.min()), "events": len(errors),
        }  # fmt: skip
    return told


def keep_stamps(kept: list[tuple[array, list[int]]]) -> None:
    """Make every stream keep what the server wrote beside what was stamped. Costs CPU: not for the cost runs."""

    class Keeping(Exchange):
        __slots__ = ("sent",)

        def __init__(self, dialect, reader, timeline, listener) -> None:  # noqa: ANN001
            super().__init__(dialect, reader, timeline, listener)
            self.sent: list[int] = []
            kept.append((timeline.outputs, self.sent))

        def on_body(self, body, at_ns, since_ns, *, kernel) -> None:  # noqa: ANN001
            self.sent.extend(map(int, STAMP.findall(body)))
            super().on_body(body, at_ns, since_ns, kernel=kernel)

    stream_module.Exchange = Keeping  # type: ignore[misc]


def task_httpx(port: str, streams: str, rate: str, seconds: str) -> dict[str, Any]:
    """httpx on trio, aiter_raw: what a plain client spends without parsing or recording anything."""
    count = 0

    async def one(client: httpx.AsyncClient) -> None:
        nonlocal count
        async with client.stream("POST", f"http://127.0.0.1:{port}{query(int(rate))}", content=b"{}") as response:
            async for data in response.aiter_raw():
                count += data.count(b"\n\n")

    async def main() -> dict[str, Any]:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        async with httpx.AsyncClient(limits=limits, timeout=None) as client, trio.open_nursery() as nursery:
            for n in range(int(streams)):
                nursery.start_soon(one, client)
                if n % 10 == 0:
                    await trio.sleep(0.01)
            await trio.sleep(2)
            cpu, seen = time.process_time(), count
            await trio.sleep(float(seconds))
            told = {"us": (time.process_time() - cpu) * 1e6 / (count - seen)}
            nursery.cancel_scope.cancel()
        return told

    return trio.run(main)


TASKS = {"loadgen": task_loadgen, "httpx": task_httpx}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--task")
    parser.add_argument("arguments", nargs="*")
    options = parser.parse_args()
    if options.task:
        print(json.dumps(TASKS[options.task](*options.arguments)))
        return
    seconds = options.seconds
    print(f"{platform.system()} {platform.release()}, Python {platform.python_version()}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        server, client = build(Path(folder), "truth_server"), build(Path(folder), "c_client")
        with truth_server(server) as port:
            print("\nCPU us per event (ratio to C)")
            for streams, rate in ((250, 20), (1000, 20), (2500, 20), (5000, 20)):
                c = c_client(client, port, streams, rate, seconds)
                ours = in_child("loadgen", port, streams, rate, seconds, 0)
                verdict = "valid" if ours["valid"] else f"invalid: {'; '.join(ours['reasons'])}"
                print(f"{streams:6} x {rate}/s  C {c:5.1f}  loadgen {ours['us']:5.1f} ({ours['us'] / c:.1f}x)", end="")
                if streams <= 1000:
                    theirs = in_child("httpx", port, streams, rate, seconds)
                    print(f"  httpx {theirs['us']:5.1f} ({theirs['us'] / c:.1f}x)", end="")
                print(
                    f"  {ours['events_per_s']:9,.0f} events/s  lag p99 {ours['lag_p99_ms']:.2f} ms  "
                    f"RSS {ours['rss_mib']:.0f} MiB  {verdict}",
                    flush=True,
                )
            print("\nstamp error, us (arrival as loadgen records it - the server's clock before its send)")
            for streams, rate in ((50, 20), (250, 20), (1000, 20), (2500, 20)):
                ours = in_child("loadgen", port, streams, rate, seconds, 1)
                print(
                    f"{streams:6} x {rate}/s  p50 {ours['error_p50_us']:7.1f}  p99 {ours['error_p99_us']:8.1f}  "
                    f"max {ours['error_max_us']:9.1f}  min {ours['error_min_us']:6.1f}  exact {ours['exact']:.2%}  "
                    f"of {ours['events']:,.0f} events", flush=True,
                )  # fmt: skip


if __name__ == "__main__":
    main()

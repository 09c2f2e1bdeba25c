"""Speed, truth and size of loadgen beside a C client, aiohttp and httpx, on the same server, in one run: `make bench`.

The server (truth_server.c) runs on core 0 and writes the moment of each send into the event; clients run on core 1. Cost is
CPU time per event over the whole process, recording included, without the start of the run. Error is the arrival stamp that
loadgen keeps minus the server's own CLOCK_MONOTONIC just before its send. Figures are printed as ratios to the C client of the
same run: absolute ones mean little on a shared machine.

    bench.py [--seconds 6] [--only cost,streams,truth,saturation,memory]
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import trio

from loadgen import api
from loadgen.clock import SystemClock
from loadgen.engine.run import execute
from loadgen.record.recorder import Recorder
from loadgen.report.progress import Silent
from loadgen.transport.exchange import Exchange
from loadgen.workload.loader import loads

HERE = Path(__file__).parent
SERVER_CORE, CLIENT_CORE = 0, 1
STAMP = re.compile(rb'"content":"m([0-9]{19})')  # the server's clock, in the text of each event
IDLE_STREAMS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The tools of one benchmark run."""

    port: int
    client: Path
    seconds: float

    def c(self, streams: int, query: str) -> dict[str, float]:
        out = subprocess.run(
            [self.client, str(self.port), str(streams), str(self.seconds), query, str(CLIENT_CORE)],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        told = json.loads(out)
        return {"us": told["cpu_ns"] / 1e3 / told["events"], "events_per_s": told["events"] / told["seconds"]}

    def child(self, task: str, *arguments: object, cores: str = str(CLIENT_CORE)) -> dict[str, Any]:
        """Run one of TASKS in a process of its own; what it printed."""
        run = subprocess.run(
            ["taskset", "-c", cores, sys.executable, __file__, "--task", task, *map(str, (self.port, *arguments))],
            check=False, capture_output=True, text=True,
        )  # fmt: skip
        if run.returncode:
            raise RuntimeError(f"{task} {arguments} failed:\n{run.stderr}")
        told: dict[str, Any] = json.loads(run.stdout)
        return told


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


@contextmanager
def busy_loop() -> Iterator[None]:
    """Somebody else who wants all of the clients' core."""
    with subprocess.Popen(["taskset", "-c", str(CLIENT_CORE), sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield
        finally:
            process.kill()


def steady(rate: float, *, vary: bool = False, events: int = 1_000_000) -> str:
    """Streams that begin spread over one gap and then send ``rate`` events a second."""
    gap_us = round(1_000_000 / rate)
    return f"/v1/chat/completions?ttft_us=100000&tj_us={gap_us}&itl_us={gap_us}&n={events}{'&vary=1' if vary else ''}"


FLOOD = "/v1/chat/completions?itl_us=0&batch=16&n=100000000"
IDLE = "/v1/chat/completions?ttft_us=600000000&n=1"


# ---- what runs in child processes


class Clocked(Silent):
    """CPU, time and events at each interval of the hold once all streams are open."""

    def __init__(self, after_s: float) -> None:
        self.marks: list[tuple[float, float, int]] = []
        self._after_s = after_s
        self._events = 0

    def on_interval(self, interval, progress, recorder) -> None:  # noqa: ANN001
        self._events += interval.output_events
        if progress.elapsed_s > self._after_s and progress.phase is not None:
            self.marks.append((time.process_time(), time.monotonic(), self._events))


def task_loadgen(port: str, streams: str, seconds: str, query: str, truth: str, spacing: str = "0ms") -> dict[str, Any]:
    """One loadgen run in this process; with ``truth`` every stamp is compared with the server's."""
    kept: list[tuple[array, list[int]]] = []
    rise_s = int(streams) / 1000
    plan = loads(
        f'loadgen: 1\ntarget: {{url: "http://127.0.0.1:{port}{query}"}}\n'
        f"load: [{{hold: {float(seconds) + rise_s + 1}s, streams: {streams}}}]\ndrain: 0s\n"
        f"transport: {{read_spacing: {spacing}}}\n"
    ).to_plan()
    recorder = Recorder(plan.phases, SystemClock.now_ns())
    clocked = Clocked(rise_s)
    run = partial(execute, plan, recorder, clocked, exchange_type=keeping(kept) if truth == "1" else Exchange)
    data = trio.run(run)
    if len(clocked.marks) < 2:
        raise SystemExit("too short: --seconds must be 3 at least")
    (cpu0, time0, events0), (cpu1, time1, events1) = clocked.marks[0], clocked.marks[-1]
    generator = data.health.summary(recorder.measured())
    told = {
        "us": (cpu1 - cpu0) * 1e6 / max(events1 - events0, 1),
        "events_per_s": (events1 - events0) / (time1 - time0),
        "cpu": (cpu1 - cpu0) / (time1 - time0),
        "exact": generator["stamp_quality"]["exact"],
        "lag_p99_ms": generator["read_lag"].get("p99_ms", 0.0),
        "gc_max_ms": generator["gc_pauses"].get("max_ms", 0.0),
        "valid": generator["valid"],
        "reasons": generator["reasons"],
    }
    if kept:
        errors = np.concatenate([np.array(seen[: len(sent)]) - np.array(sent[: len(seen)]) for seen, sent in kept]) / 1e3
        told |= {f"error_{name}": float(np.quantile(errors, q)) for name, q in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))}
        told["events"] = len(errors)
    return told


def keeping(kept: list[tuple[array, list[int]]]) -> type[Exchange]:
    """An exchange that keeps what the server wrote beside what was stamped. It parses everything: not for the cost runs."""

    class Keeping(Exchange):
        __slots__ = ("sent",)

        def __init__(self, dialect, reader, timeline, listener) -> None:  # noqa: ANN001
            super().__init__(dialect, reader, timeline, listener)
            self.sent: list[int] = []
            kept.append((timeline.outputs, self.sent))

        def on_body(self, body, at_ns, since_ns, *, kernel, newest=True) -> None:  # noqa: ANN001
            self.sent.extend(map(int, STAMP.findall(body)))
            super().on_body(body, at_ns, since_ns, kernel=kernel, newest=newest)
            self.repeat = None

    return Keeping


def task_processes(port: str, streams: str, seconds: str, query: str, processes: str) -> dict[str, Any]:
    """Events/s of a run shared by so many processes."""
    clocked = Clocked(2)
    text = (
        f'loadgen: 1\ntarget: {{url: "http://127.0.0.1:{port}{query}"}}\n'
        f"load: [{{hold: {float(seconds) + 3}s, streams: {streams}}}]\ndrain: 0s\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        api.run(loads(text), out=folder, observer=clocked, processes=int(processes))
    (_, time0, events0), (_, time1, events1) = clocked.marks[0], clocked.marks[-1]
    return {"events_per_s": (events1 - events0) / (time1 - time0)}


def task_idle(port: str, streams: str) -> dict[str, Any]:
    """So many streams that wait for their first token: how long they take to open, what they weigh, whether one is lost."""
    hold_s = int(streams) / 1000 * 1.5 + 2
    plan = loads(
        f'loadgen: 1\ntarget: {{url: "http://127.0.0.1:{port}{IDLE}"}}\n'
        f"load: [{{hold: {hold_s}s, streams: {streams}}}]\ndrain: 0s\ntimeouts: {{first_token: null, idle: null}}\n"
    ).to_plan()
    opened: list[float] = []

    class Watch(Silent):
        def on_interval(self, interval, progress, recorder) -> None:  # noqa: ANN001
            if interval.open == int(streams):
                opened.append(progress.elapsed_s)

    bare_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    recorder = Recorder(plan.phases, SystemClock.now_ns())
    data = trio.run(execute, plan, recorder, Watch())
    results = recorder.measured()
    connect = results.metrics["connect"]
    return {
        "opened_s": min(opened, default=None),
        "max_open": data.health.concurrency_max,
        "lost": {str(k): v for k, v in results.outcomes.items() if k != "cut"},
        "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "bare_mib": bare_mib,
        "connect_p99_ms": connect.percentile(0.99) / 1e6,
        "connect_max_ms": connect.max / 1e6,
    }


def task_httpx(port: str, streams: str, seconds: str, query: str) -> dict[str, Any]:
    """httpx on trio, aiter_raw: what a plain client spends without parsing or recording anything."""
    import httpx  # noqa: PLC0415 - only this child needs it

    count = 0

    async def one(client: httpx.AsyncClient) -> None:
        nonlocal count
        async with client.stream("POST", f"http://127.0.0.1:{port}{query}", content=b"{}") as response:
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


def task_aiohttp(port: str, streams: str, seconds: str, query: str) -> dict[str, Any]:
    """aiohttp, iter_any: likewise."""
    import asyncio  # noqa: PLC0415

    import aiohttp  # noqa: PLC0415

    count = 0

    async def one(session: aiohttp.ClientSession) -> None:
        nonlocal count
        async with session.post(f"http://127.0.0.1:{port}{query}", data=b"{}") as response:
            async for data in response.content.iter_any():
                count += data.count(b"\n\n")

    async def main() -> dict[str, Any]:
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
            tasks = []
            for n in range(int(streams)):
                tasks.append(asyncio.create_task(one(session)))
                if n % 10 == 0:
                    await asyncio.sleep(0.01)
            await asyncio.sleep(2)
            cpu, seen = time.process_time(), count
            await asyncio.sleep(float(seconds))
            told = {"us": (time.process_time() - cpu) * 1e6 / (count - seen)}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return told

    return asyncio.run(main())


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    name.removeprefix("task_"): task for name, task in list(globals().items()) if name.startswith("task_")
}


# ---- the sections


def cost(bench: Bench) -> None:
    print("\nCPU us per event (ratio to C): 5,000 to 100,000 events/s")
    rows = [(250, False, 0), (1000, False, 0), (1000, True, 0), (1000, False, 1), (2500, False, 0), (5000, False, 0)]
    for streams, vary, spacing in rows:
        query = steady(20, vary=vary)
        c = bench.c(streams, query)["us"]
        ours = bench.child("loadgen", streams, bench.seconds, query, 0, f"{spacing}ms")
        ratio = ours["us"] / c
        name = f"{streams:6} x 20/s{' varying' if vary else f' spaced {spacing} ms' if spacing else '':12}"
        print(f"{name}  C {c:5.1f}  loadgen {ours['us']:5.1f} ({ratio:.1f}x)", end="")
        if streams <= 1000 and not vary and not spacing:
            for name in ("aiohttp", "httpx"):
                theirs = bench.child(name, streams, bench.seconds, query)
                print(f"  {name} {theirs['us']:5.1f} ({theirs['us'] / c:.1f}x)", end="")
        print(f"  {describe(ours)}", flush=True)


def streams(bench: Bench) -> None:
    print("\nCPU us per event at 10,000 events/s, as streams grow")
    for count in (100, 1000, 5000, 10_000):
        query = steady(10_000 / count)
        c = bench.c(count, query)["us"]
        ours = bench.child("loadgen", count, bench.seconds, query, 0)
        print(
            f"{count:6} x {10_000 / count:g}/s  C {c:5.1f}  loadgen {ours['us']:5.1f} ({ours['us'] / c:.1f}x)  "
            + describe(ours),
            flush=True,
        )


def truth(bench: Bench) -> None:
    print("\nstamp error, us (arrival as loadgen records it - the server's clock before its send); every event parsed")
    rows = [(50, 20, False), (250, 20, False), (1000, 20, False), (1000, 20, True), (2500, 20, False)]
    for count, rate, starved in rows:
        with busy_loop() if starved else nullcontext():
            ours = bench.child("loadgen", count, bench.seconds, steady(rate), 1)
        errors = f"p50 {ours['error_p50']:7.1f}  p99 {ours['error_p99']:8.1f}"
        print(
            f"{count:6} x {rate}/s{' starved' if starved else '':8}  {errors}  "
            f"max {ours['error_max']:9.1f}  exact {ours['exact']:.2%}  of {ours['events']:,.0f} events  {describe(ours)}",
            flush=True,
        )


def saturation(bench: Bench) -> None:
    print("\nsaturation: 16 events a send, as fast as the client takes them, 64 streams")
    c = bench.c(64, FLOOD)
    print(f"  C                    {c['events_per_s']:11,.0f} events/s")
    one = bench.child("processes", 64, bench.seconds, FLOOD, 1, cores="0,1")["events_per_s"]
    print(f"  loadgen, 1 process   {one:11,.0f} events/s")
    two = bench.child("processes", 64, bench.seconds, FLOOD, 2, cores="0,1")["events_per_s"]
    print(f"  loadgen, 2 processes {two:11,.0f} events/s ({two / one:.2f}x; the server shares their two cores)", flush=True)


def memory(bench: Bench) -> None:
    print(f"\n{IDLE_STREAMS:,} open idle streams")
    told = bench.child("idle", IDLE_STREAMS)
    each = (told["rss_mib"] - told["bare_mib"]) * 1024 / IDLE_STREAMS
    connect = f"connect p99 {told['connect_p99_ms']:.1f} ms, max {told['connect_max_ms']:.1f} ms"
    print(
        f"  all open after {told['opened_s']:.1f} s, at most {told['max_open']:,} at once, lost {told['lost'] or 'none'}\n"
        f"  {connect}\n"
        f"  RSS {told['rss_mib']:.0f} MiB, {told['bare_mib']:.0f} MiB without streams: {each:.1f} KiB a stream",
        flush=True,
    )


def describe(ours: dict[str, Any]) -> str:
    verdict = "valid" if ours["valid"] else f"invalid: {'; '.join(ours['reasons'])}"
    return (
        f"{ours['events_per_s']:9,.0f} events/s at {ours['cpu']:.0%} of a core, lag p99 {ours['lag_p99_ms']:.2f} ms, "
        f"GC max {ours['gc_max_ms']:.1f} ms, {verdict}"
    )


SECTIONS = {section.__name__: section for section in (cost, streams, truth, saturation, memory)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--only", default=",".join(SECTIONS))
    parser.add_argument("--task")
    parser.add_argument("arguments", nargs="*")
    options = parser.parse_args()
    if options.task:
        print(json.dumps(TASKS[options.task](*options.arguments)))
        return
    print(f"{platform.system()} {platform.release()}, Python {platform.python_version()}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        server, client = build(Path(folder), "truth_server"), build(Path(folder), "c_client")
        for name in options.only.split(","):
            with truth_server(server) as port:
                SECTIONS[name](Bench(port=port, client=client, seconds=options.seconds))


if __name__ == "__main__":
    main()

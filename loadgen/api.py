"""The Python surface: load a workload, run it, get the summary."""

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from loadgen import __version__
from loadgen.clock import SystemClock
from loadgen.cluster import run as cluster
from loadgen.cluster.run import check_processes, choose_processes
from loadgen.engine import run as engine
from loadgen.engine.run import RunData
from loadgen.engine.watch import Observer
from loadgen.record.hlog import HlogWriter
from loadgen.record.journal import Journal, start_journal
from loadgen.record.recorder import Recorder
from loadgen.record.summary import build_summary
from loadgen.report.files import (
    build_manifest,
    make_folder,
    telling_write_errors,
    write_hgrm_files,
    write_intervals,
    write_json,
)
from loadgen.report.junit import write_junit
from loadgen.report.progress import Silent
from loadgen.workload import loader
from loadgen.workload.plan import Plan
from loadgen.workload.schema import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """``summary`` is summary.json as a dict; ``folder`` holds the run's files."""

    summary: dict[str, Any]
    folder: Path

    @property
    def exit_code(self) -> int:
        return int(self.summary["exit_code"])


def load(path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> Workload:
    """A workload file, checked. Raises WorkloadError with every problem, each with its place."""
    return loader.load(os.fspath(path), overrides)


def run(
    workload: Workload | str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | None = None,
    observer: Observer | None = None,
    processes: int | None = None,
) -> RunResult:
    """Run a workload and write its folder (``out``, or a new one below ``reports/runs``). Blocks until it is over.

    ``processes`` generator processes share the load; None: as many as suit the plan and this machine.

    Raises WorkloadError before anything is sent, LoadgenError when the plan cannot be shared by that many, OutputError when
    the files cannot be written. Ctrl-C is handled when called in the main thread: the first one drains, the second one cuts;
    either way the result is returned.
    """
    if not isinstance(workload, Workload):
        workload = load(workload)
    plan = workload.to_plan()
    processes = choose_processes(plan) if processes is None else check_processes(plan, processes)
    started_wall_ns = time.time_ns()
    folder = make_folder(None if out is None else Path(out), plan.name, started_wall_ns)
    with telling_write_errors(folder):
        journal = folder / "journal.jsonl"
        start_journal(journal, {"name": plan.name, "loadgen": __version__})
        with (folder / "histograms.hlog").open("w", encoding="ascii") as log_file:
            recorder = Recorder(plan.phases, SystemClock.now_ns(), HlogWriter(log_file, started_wall_ns))
            data = trio.run(_execute, plan, processes, recorder, observer or Silent(), journal)
        summary = summarise(data, recorder)
        manifest = build_manifest(workload.masked, seed=plan.seed, version=__version__, started_at=summary["started_at"])
        write_json(folder / "manifest.json", manifest)
        write_json(folder / "summary.json", summary)
        write_intervals(folder / "intervals.csv", recorder.intervals)
        write_hgrm_files(folder, recorder.measured().metrics)
        if summary["slo"]:
            write_junit(folder / "junit.xml", summary)
    return RunResult(summary=summary, folder=folder)


def summarise(data: RunData, recorder: Recorder) -> dict[str, Any]:
    """The summary of a run that has ended."""
    return build_summary(
        name=data.plan.name,
        started_wall_ns=data.started_wall_ns,
        duration_ns=data.duration_ns,
        output_events_per_s=recorder.output_events_per_s(),
        phases=data.plan.phases,
        phase_results=recorder.phases,
        measured=recorder.measured(),
        everything=recorder.everything(),
        health=data.health,
        slo=data.plan.slo,
        interrupted=data.interrupted,
        unreachable=data.unreachable,
    )


async def _execute(plan: Plan, processes: int, recorder: Recorder, observer: Observer, journal: Path) -> RunData:
    handle_signals = threading.current_thread() is threading.main_thread()
    if processes > 1:
        return await cluster.execute(plan, processes, recorder, observer, journal=journal, handle_signals=handle_signals)
    with Journal(journal) as records:
        return await engine.execute(plan, recorder, observer, handle_signals=handle_signals, on_record=records.write)

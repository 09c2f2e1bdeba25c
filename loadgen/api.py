"""The Python surface: load a workload, run it, get the summary."""

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import trio

from loadgen import __version__
from loadgen.clock import SystemClock
from loadgen.cluster import run as cluster
from loadgen.cluster.run import check_processes, choose_processes, most_processes
from loadgen.engine import run as engine
from loadgen.engine.capacity import MAX_HOLDS, Search, Step, describe_capacity
from loadgen.engine.run import RunData
from loadgen.engine.watch import Observer
from loadgen.record.hlog import HlogWriter
from loadgen.record.journal import Journal, start_journal
from loadgen.record.recorder import Interval, Recorder
from loadgen.record.slo import evaluate, is_clear
from loadgen.record.summary import build_summary, merge_variants
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
from loadgen.workload.plan import Capacity, Plan
from loadgen.workload.schema import Workload

# Streams that were counted by a process which died may have numbers beyond those that ended.
STREAM_NUMBERS_APART: Final = 1000


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
            hlog = HlogWriter(log_file, started_wall_ns)
            go = _Runs(processes, observer or Silent(), hlog, journal)
            if workload.variants:
                summary, recorders = _run_variants(workload, go)
            elif plan.capacity is not None:
                summary, recorders = _search_capacity(plan, plan.capacity, go)
            else:
                summary, recorders = _run_once(plan, go)
        manifest = build_manifest(workload.masked, seed=plan.seed, version=__version__, started_at=summary["started_at"])
        write_json(folder / "manifest.json", manifest)
        write_json(folder / "summary.json", summary)
        write_intervals(folder / "intervals.csv", go.intervals)
        for variant, recorder in recorders.items():
            write_hgrm_files(folder, recorder.measured().metrics, prefix=f"{variant}." if variant else "")
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


class _Runs:
    """Runs plans into one folder, one after another. ``intervals`` are those of all."""

    def __init__(self, processes: int, observer: Observer, hlog: HlogWriter, journal: Path) -> None:
        self.observer = observer
        self.intervals: list[Interval] = []
        self._processes = processes
        self._hlog = hlog
        self._journal = journal
        self._begin_ns = SystemClock.now_ns()

    def recorder(self, plan: Plan) -> Recorder:
        return Recorder(plan.phases, self._begin_ns, self._hlog, plan.variant)

    def run(self, plan: Plan, recorder: Recorder) -> RunData:
        before = len(recorder.intervals)
        processes = min(self._processes, most_processes(plan))
        data = trio.run(_execute, plan, processes, recorder, self.observer, self._journal)
        self.intervals += recorder.intervals[before:]
        return data


Recorders = dict[str, Recorder]  # by variant; under "" where there are none


def _run_once(plan: Plan, runs: _Runs) -> tuple[dict[str, Any], Recorders]:
    recorder = runs.recorder(plan)
    data = runs.run(plan, recorder)
    return summarise(data, recorder), {"": recorder}


def _run_variants(workload: Workload, runs: _Runs) -> tuple[dict[str, Any], Recorders]:
    """The same load on each, in turns (A B B A ...), so that a drift of the machine or the server does not favour one."""
    plans = workload.plans()
    recorders = {name: runs.recorder(plan) for name, plan in plans.items()}
    data: dict[str, RunData] = {}
    streams_so_far = 0
    for turn in range(workload.rounds):
        for name in list(plans) if turn % 2 == 0 else reversed(plans):
            runs.observer.on_level(f"{name}, round {turn + 1} of {workload.rounds}")
            before = recorders[name].everything().started
            found = runs.run(replace(plans[name], first_stream=streams_so_far), recorders[name])
            streams_so_far += recorders[name].everything().started - before + STREAM_NUMBERS_APART
            if name in data:
                data[name].follow(found)
            else:
                data[name] = found
            if found.interrupted:
                break
        if any(d.interrupted for d in data.values()):
            break
    told = {name: summarise(data[name], recorders[name]) for name in plans if name in data}
    return merge_variants(workload.name, told), recorders


def _search_capacity(plan: Plan, asked: Capacity, runs: _Runs) -> tuple[dict[str, Any], Recorders]:
    """Level after level; the summary is that of the greatest good one (of the least level, if none was)."""
    search, steps = Search(asked.lowest, asked.highest), list[Step]()
    levels: dict[int, tuple[RunData, Recorder]] = {}
    streams_so_far = 0
    while (streams := search.next()) is not None:
        level = plan.level(streams, first_stream=streams_so_far)
        recorder = runs.recorder(level)
        data = runs.run(level, recorder)
        holds = 1
        while not (_is_over(data) or holds == MAX_HOLDS or is_clear(plan.slo, recorder.measured())):
            more = replace(level, first_stream=streams_so_far + recorder.everything().started + STREAM_NUMBERS_APART)
            data.follow(runs.run(more, recorder))
            holds += 1
        streams_so_far += recorder.everything().started + holds * STREAM_NUMBERS_APART
        if _is_over(data):
            return {**summarise(data, recorder), "capacity": describe_capacity(search, steps)}, {"": recorder}
        results = recorder.measured()
        step = Step(
            streams=streams,
            holds=holds,
            results=results,
            output_events_per_s=recorder.output_events_per_s(),
            rules=evaluate(plan.slo, results),
            invalid=data.health.summary(results)["reasons"],
        )
        steps.append(step)
        search.tell(streams, good=not step.broke)
        runs.observer.on_level(f"{streams} streams: {'; '.join(step.broke) or 'every SLO holds'}")
        levels[streams] = data, recorder
    data, recorder = levels[search.low or asked.lowest]
    return {**summarise(data, recorder), "capacity": describe_capacity(search, steps)}, {"": recorder}


def _is_over(data: RunData) -> bool:
    return data.interrupted or bool(data.unreachable)


async def _execute(plan: Plan, processes: int, recorder: Recorder, observer: Observer, journal: Path) -> RunData:
    handle_signals = threading.current_thread() is threading.main_thread()
    if processes > 1:
        return await cluster.execute(plan, processes, recorder, observer, journal=journal, handle_signals=handle_signals)
    with Journal(journal) as records:
        return await engine.execute(plan, recorder, observer, handle_signals=handle_signals, on_record=records.write)

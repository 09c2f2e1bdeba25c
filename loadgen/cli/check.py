"""`loadgen check`: validate a workload, show its plan, and say whether this machine is large enough for it."""

from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from loadgen import api
from loadgen.clock import NS_PER_MS, NS_PER_S
from loadgen.cluster.run import check_processes, choose_processes
from loadgen.engine.calibrate import Calibration, load_calibration
from loadgen.engine.machine import assess
from loadgen.engine.stream import describe_abort
from loadgen.workload.plan import Phase, Plan, Transport
from loadgen.workload.units import format_duration, write_size

ASSUMED_GAP_NS: Final = 20 * NS_PER_MS  # of a real target nobody knows before the run: 50 tokens/s


def check(
    workload: Annotated[Path, typer.Argument(help="The workload file (YAML).", show_default=False)],
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Override a key, as in run.")] = None,
    processes: Annotated[int | None, typer.Option(help="Generator processes, as in run.", show_default="auto")] = None,
) -> None:
    """Validate a workload without sending anything. Exit code 2 when it cannot run here."""
    loaded = api.load(workload, set_ or ())
    plan = loaded.to_plan()
    count = choose_processes(plan) if processes is None else check_processes(plan, processes)
    needs = assess(plan, count)
    console = Console()
    lines = [f"{loaded.source}: ok", *describe_plan(plan)]
    for name, changes in loaded.variants.items():
        lines.append(f"variant   {name}: {'other ' + ', '.join(changes) if changes else 'as above'}")
    if loaded.variants:
        lines.append(f"rounds    {loaded.rounds}: the variants take turns, with the same load")
    limits = f"(limit {needs.descriptors_soft}, raised up to {needs.descriptors_hard})"
    lines.append(
        f"needs     {_processes(count)}, {needs.descriptors} file descriptors each {limits}, {needs.connections} connections "
        f"({needs.ports} local ports)"
    )
    lines += describe_ceiling(plan, count, load_calibration())
    lines += [f"note      {warning.render(loaded.source)}" for warning in loaded.warnings]
    lines += [f"problem   {problem}" for problem in needs.problems]
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    if needs.problems:
        raise typer.Exit(2)


def describe_ceiling(plan: Plan, processes: int, found: Calibration | None) -> list[str]:
    """The events/s that the plan makes beside what this machine was found good for."""
    gap_ns = plan.sim.decode.step if plan.sim is not None else ASSUMED_GAP_NS
    rate = NS_PER_S / gap_ns
    wanted = plan.max_streams * rate
    source = "the simulated server's" if plan.sim is not None else "assumed"
    best = None if found is None else found.best
    line = f"rate      about {wanted:,.0f} events/s when all stream, at {rate:g}/s each ({source})"
    if found is None or best is None:
        return [f"{line}; `loadgen calibrate` tells what this machine is good for"]
    good = best.events_per_s * processes
    lines = [f"{line}; calibrated on {found.at[:10]}: good for {good:,.0f} in {_processes(processes)}"]
    if wanted > good:
        lines.append(
            "note      this is more than this machine was found good for: the run may end as invalid; use more processes"
        )
    return lines


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"


def describe_plan(plan: Plan) -> list[str]:
    """The plan in lines."""
    target = plan.target
    where = "the simulated server, started for the run" if target is None else target.url
    limit = plan.limit
    takes = f"{format_duration(plan.load_ns)}{' a level' if plan.capacity is not None else ''}"
    timeouts = plan.timeouts
    bounds = {
        "connect": timeouts.connect_ns, "first_token": timeouts.first_token_ns,
        "idle": timeouts.idle_ns, "total": timeouts.total_ns,
    }  # fmt: skip
    return [
        f"target    {where} ({plan.dialect}, HTTP/{plan.transport.http})",
        f"transport {_describe_connections(plan.transport)}",
        *(f"load      {line}" for line in _describe_load(plan)),
        f"limit     {'none' if limit is None else f'{limit.streams} open streams, then {limit.when_full}'}",
        f"timeouts  {', '.join(f'{name} {format_duration(ns)}' for name, ns in bounds.items() if ns is not None)}",
        f"takes     {takes}, then up to {format_duration(plan.drain_ns)} to drain",
        *(f"aborts    {policy.share:.0%} of the streams are {describe_abort(policy)}" for policy in plan.aborts),
        *(f"slo       {rule.text}" for rule in plan.slo),
    ]


def _describe_connections(transport: Transport) -> str:
    places = transport.streams_per_connection
    each = f" with up to {places} streams each" if transport.http == "2" else ""
    windows = transport.windows
    ahead = f"; windows of {write_size(windows.stream)} a stream, {write_size(windows.connection)} a connection"
    if transport.connections is not None:
        said = f"{transport.connections} connections{each} that streams queue for"
    elif transport.as_needed:
        said = f"as many connections as streams need, kept alive,{each or ' with one stream each'}"
    else:
        said = "one connection per stream"
    return said + (ahead if transport.http == "2" else "")


def _describe_load(plan: Plan) -> list[str]:
    if plan.capacity is None:
        return [_describe_phase(phase) for phase in plan.phases]
    asked = plan.capacity
    return [f"capacity search from {asked.lowest} to {asked.highest} streams, each level held {format_duration(asked.hold_ns)}"]


def _describe_phase(phase: Phase) -> str:
    streams = f"{phase.streams_to}" if phase.streams_from == phase.streams_to else f"{phase.streams_from} to {phase.streams_to}"
    return f"{phase.kind} {format_duration(phase.duration_ns)} with {streams} streams"

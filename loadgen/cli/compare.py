"""`loadgen compare`: what differs between runs of the same load, and whether that is a regression."""

import json
from enum import StrEnum
from typing import Annotated

import typer

from loadgen.errors import RunFolderError
from loadgen.report.compare import as_json, compare_runs, find_reasons_against, render
from loadgen.report.console import PipeConsole
from loadgen.report.folder import StoredRun, read_run
from loadgen.workload.units import parse_share

WIDTH = 110
MOST_REASONS = 20


class FailOn(StrEnum):
    REGRESSION = "regression"


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN RUN [RUN...]", help="Run folders, or FOLDER@VARIANT; the first is the base. One alone: its variants."
        ),
    ],
    fail_on: Annotated[
        FailOn | None, typer.Option(help="Leave with exit code 1 when something is surely worse.", show_default=False)
    ] = None,
    threshold: Annotated[
        str, typer.Option(metavar="SHARE", help="By how much of the base's value a latency, goodput or tokens/s may be worse.")
    ] = "5%",
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Compare different workloads, and runs that are invalid or unfinished.")
    ] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON, and nothing else, on stdout.")] = False,
) -> None:
    """Compare runs: differences of p50, p90 and p99 with 95% intervals, error rate, goodput and tokens/s.

    A regression is a ttft, itl, tpot, e2e, goodput or tokens/s that is surely worse by more than the threshold, or an error
    rate that is surely higher.
    """
    try:
        share = parse_share(threshold)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--threshold") from None
    stored = _read(runs)
    reasons = find_reasons_against(stored)
    if reasons and not anyway:
        shown = [*reasons[:MOST_REASONS], *([f"and {len(reasons) - MOST_REASONS} more"] if len(reasons) > MOST_REASONS else [])]
        lines = "\n".join(f"  {reason}" for reason in shown)
        raise RunFolderError(f"these runs should not be compared (--anyway does it all the same):\n{lines}")
    comparisons = compare_runs(stored, threshold=share)
    regressed = any(each.regressions for each in comparisons)
    exit_code = int(fail_on is FailOn.REGRESSION and regressed)
    console = PipeConsole()
    if json_:
        found = as_json(stored, comparisons, threshold=share, exit_code=exit_code)
        console.out(json.dumps(found, allow_nan=False), highlight=False)
    else:
        console.print(render(stored[0], comparisons, threshold=share), width=min(console.width, WIDTH), highlight=False)
    raise typer.Exit(exit_code)


def _read(names: list[str]) -> list[StoredRun]:
    found = [read_run(name) for name in names]
    if len(names) == 1 and len(found[0]) > 1:
        return found[0]
    for name, runs in zip(names, found, strict=True):
        if len(runs) > 1:
            raise RunFolderError(f"{name} has variants: name one of {', '.join(run.name for run in runs)}")
    if len(names) < 2:
        raise typer.BadParameter("needs a base and at least one other run", param_hint="RUN RUN [RUN...]")
    return [run for runs in found for run in runs]

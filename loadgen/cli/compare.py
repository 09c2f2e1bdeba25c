"""`loadgen compare`: what differs between runs of the same load, and whether that is a regression."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from loadgen.errors import RunFolderError
from loadgen.report.compare import as_json, compare_runs, find_reasons_against, render
from loadgen.report.console import PipeConsole
from loadgen.report.folder import read_run
from loadgen.workload.units import parse_share

WIDTH = 110


class FailOn(StrEnum):
    REGRESSION = "regression"


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN RUN [RUN...]", help="Run folders; the first one is the base.")],
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
    if len(runs) < 2:
        raise typer.BadParameter("needs a base and at least one other run", param_hint="RUN RUN [RUN...]")
    try:
        share = parse_share(threshold)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--threshold") from None
    stored = [read_run(folder) for folder in runs]
    reasons = find_reasons_against(stored)
    if reasons and not anyway:
        lines = "\n".join(f"  {reason}" for reason in reasons)
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

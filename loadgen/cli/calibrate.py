"""`loadgen calibrate`: find this machine's honest ceiling and stamp error, show them, keep them for `check`."""

import json
import sys
from dataclasses import asdict
from functools import partial
from typing import Annotated

import trio
import typer
from rich.console import Console

from loadgen.engine.calibrate import MOST_STREAMS, Calibration, Level
from loadgen.engine.calibrate import calibrate as run_calibration

HEADER = "streams x rate    events/s    CPU   read lag p99   exact   stamp error p50 / p99 / max   verdict"


def calibrate(
    rate: Annotated[int, typer.Option(help="Events per second of each stream.", min=1, max=1000)] = 20,
    streams: Annotated[int, typer.Option(help="No more streams than this.", min=1)] = MOST_STREAMS,
    json_: Annotated[bool, typer.Option("--json", help="Print the calibration as JSON, and nothing else, on stdout.")] = False,
) -> None:
    """Find how many events per second one generator process can honestly carry here, and how true its stamps are.

    Takes about a minute. Run it on an otherwise idle machine: what else runs is counted against loadgen.
    """
    screen = Console(stderr=json_, highlight=False, soft_wrap=True)
    screen.print(HEADER)
    found = trio.run(partial(run_calibration, rate, most=streams, on_level=lambda level: screen.print(describe_level(level))))
    path = found.save()
    if json_:
        sys.stdout.write(json.dumps(asdict(found)) + "\n")
    else:
        screen.print(describe_ceiling(found))
        screen.print(f"kept in {path}; `loadgen check` compares plans with it")
    if found.best is None:
        raise typer.Exit(4)


def describe_level(level: Level) -> str:
    verdict = "valid" if level.valid else f"invalid: {level.reason}"
    if level.sender_limited:
        verdict += " (the sender was the limit)"
    errors = f"{level.stamp_error_p50_us:7.1f} /{level.stamp_error_p99_us:6.1f} /{level.stamp_error_max_us:8.1f} us"
    return (
        f"{level.streams:7,} x {f'{level.rate}/s':<6} {level.events_per_s:10,.0f} {level.cpu_share:6.0%} "
        f"{level.read_lag_p99_ms:11.2f} ms {level.exact:7.1%}   {errors}   {verdict}"
    )


def describe_ceiling(found: Calibration) -> str:
    best = found.best
    if best is None:
        return "no level was valid: this machine is too busy, or too small, to measure anything on"
    more = " at least; the sender was the limit" if best.sender_limited else ""
    load = f"{best.streams:,} streams at {best.rate} events/s each ({best.events_per_s:,.0f} events/s){more}"
    errors = f"{best.stamp_error_p50_us:.1f} us (p50) and {best.stamp_error_p99_us:.1f} us (p99) off"
    return f"one process is good for {load}, with stamps that are {errors}"

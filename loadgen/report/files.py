"""The run folder: what is written while a run goes on, and what is written at its end."""

import csv
import json
import platform
import sys
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from loadgen.model import Metric
from loadgen.record.hdr import Hdr
from loadgen.record.hgrm import write_hgrm
from loadgen.record.recorder import Interval

DEFAULT_PARENT: Final = Path("reports/runs")


def make_folder(out: Path | None, name: str, started_wall_ns: int) -> Path:
    """A fresh folder for one run: ``out`` as given, or ``reports/runs/<time>-<name>``."""
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        return out
    stamp = datetime.fromtimestamp(started_wall_ns / 1e9, tz=UTC).strftime("%Y%m%dT%H%M%S")
    safe = "".join(c if c.isalnum() or c in "-_." else "-" for c in name)
    for attempt in range(1, 1000):
        folder = DEFAULT_PARENT / (f"{stamp}-{safe}" if attempt == 1 else f"{stamp}-{safe}-{attempt}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder
    raise FileExistsError(f"no free name for a run folder in {DEFAULT_PARENT}")


def build_manifest(workload: Mapping[str, Any], *, seed: int, version: str, started_at: str) -> dict[str, Any]:
    """What ran, with what, where. The workload comes masked."""
    return {
        "workload": dict(workload),
        "seed": seed,
        "started_at": started_at,
        "loadgen": version,
        "python": sys.version.split()[0],
        "host": {"system": platform.system(), "release": platform.release(), "machine": platform.machine()},
    }


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Strict JSON: a NaN would be our bug and raises."""
    path.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def write_hgrm_files(folder: Path, metrics: Mapping[Metric, Hdr]) -> None:
    for metric, hdr in metrics.items():
        if hdr.count:
            with (folder / f"{metric}.hgrm").open("w", encoding="ascii") as file:
                write_hgrm(file, hdr)


def write_intervals(path: Path, intervals: list[Interval]) -> None:
    """One row an interval; the outcomes are spread over columns of their own."""
    names = [f.name for f in fields(Interval) if f.name != "outcomes"]
    outcomes = sorted({outcome for interval in intervals for outcome in interval.outcomes})
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*names, *outcomes])
        for interval in intervals:
            values = [_cell(getattr(interval, name)) for name in names]
            writer.writerow([*values, *(interval.outcomes[outcome] for outcome in outcomes)])


def _cell(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else "" if value is None else value

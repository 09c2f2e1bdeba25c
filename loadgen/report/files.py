"""The run folder: what is written while a run goes on, and what is written at its end."""

import csv
import errno
import json
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from loadgen.errors import OutputError
from loadgen.model import Metric
from loadgen.record.hdr import Hdr
from loadgen.record.hgrm import write_hgrm
from loadgen.record.recorder import Interval

DEFAULT_PARENT: Final = Path("reports/runs")
# Removed from a folder that is used again: a summary beside the journal of a later run that was killed would be believed.
_RESULTS: Final = ("summary.json", "manifest.json", "intervals.csv", "journal.jsonl", "histograms.hlog", "junit.xml")
# What only storage says, never a socket: an error from inside the run that has one of these came from a file.
_STORAGE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO})


@contextmanager
def telling_write_errors(folder: Path) -> Iterator[None]:
    """Raises OutputError instead of what the system says when it does not take a run's files, or no more of them."""
    try:
        yield
    except OSError as error:
        if error.errno in _STORAGE or str(error.filename).startswith(str(folder)):
            raise OutputError(_cannot_write(folder, error)) from None
        raise
    except BaseExceptionGroup as group:  # a stream's record or the ticker's interval met it
        found = group.subgroup(lambda e: isinstance(e, OSError) and e.errno in _STORAGE)
        while isinstance(found, BaseExceptionGroup):
            found = found.exceptions[0]
        if isinstance(found, OSError):
            raise OutputError(_cannot_write(folder, found)) from None
        raise


def make_folder(out: Path | None, name: str, started_wall_ns: int) -> Path:
    """A folder for one run: ``out``, without the results of an earlier run, or ``reports/runs/<time>-<name>``.

    Raises OutputError.
    """
    try:
        return _make_folder(out, name, started_wall_ns)
    except OSError as error:
        raise OutputError(_cannot_write(out or DEFAULT_PARENT, error)) from None


def _make_folder(out: Path | None, name: str, started_wall_ns: int) -> Path:
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for result in (*_RESULTS, *(f"{metric}.hgrm" for metric in Metric)):
            if (out / result).is_file():  # a device is left to fail, or to swallow, by its own rules
                (out / result).unlink()
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


def write_hgrm_files(folder: Path, metrics: Mapping[Metric, Hdr], prefix: str = "") -> None:
    for metric, hdr in metrics.items():
        if hdr.count:
            with (folder / f"{prefix}{metric}.hgrm").open("w", encoding="ascii") as file:
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


def _cannot_write(folder: Path, error: OSError) -> str:
    reason = os.strerror(error.errno) if error.errno else str(error)
    return f"cannot write the run's files to {folder}: {reason}"


def _cell(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else "" if value is None else value

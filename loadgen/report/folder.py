"""A run folder read back."""

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from loadgen.errors import RunFolderError
from loadgen.model import Metric, StreamRecord
from loadgen.record.compare import MOST_BLOCKS
from loadgen.record.hdr import Hdr
from loadgen.record.hlog import read_blocks
from loadgen.record.journal import read_journal


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """``itl``: the gaps of consecutive stretches of time; ``seconds``: output events and length of each measured interval.

    A killed run has no ``manifest``, ``summary`` and ``seconds``.
    """

    folder: Path
    manifest: dict[str, Any] | None
    summary: dict[str, Any] | None
    records: list[StreamRecord]
    itl: list[Hdr]
    seconds: list[tuple[float, float]]


def read_run(folder: Path) -> StoredRun:
    """Raises RunFolderError for a folder that holds no run, or damaged files."""
    journal = folder / "journal.jsonl"
    if not journal.is_file():
        raise RunFolderError(f"{folder} is no run folder: it has no journal.jsonl")
    try:
        return StoredRun(
            folder=folder,
            manifest=_read_json(folder / "manifest.json"),
            summary=_read_json(folder / "summary.json"),
            records=read_journal(journal).records,
            itl=_read_itl(folder / "histograms.hlog"),
            seconds=_read_seconds(folder / "intervals.csv"),
        )
    except (OSError, ValueError, KeyError, msgspec.MsgspecError) as error:
        raise RunFolderError(f"{folder} cannot be read: {error}") from None


def _read_json(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    data = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(data, dict):
        raise ValueError(f"{path.name}: expected an object")  # noqa: TRY004 - of a file, not of an argument
    return data


def _read_itl(path: Path) -> list[Hdr]:
    return read_blocks(path, Metric.ITL, most=MOST_BLOCKS) if path.exists() else []


def _read_seconds(path: Path) -> list[tuple[float, float]]:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["measured"] == "True"]
    return [(float(row["output_events"]), float(row["length_s"])) for row in rows]

"""A run folder read back."""

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from loadgen.errors import RunFolderError
from loadgen.model import Metric, StreamRecord
from loadgen.record.comparable import workload_of
from loadgen.record.compare import MOST_BLOCKS
from loadgen.record.hdr import Hdr
from loadgen.record.hlog import read_blocks
from loadgen.record.journal import read_journal


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A run, or one variant of it. ``name`` is how it was asked for: ``folder`` or ``folder@variant``.

    ``itl``: the gaps of consecutive stretches of time; ``seconds``: output events and length of each measured interval.
    ``workload`` is what it followed, as in the manifest. A killed run has no ``workload``, ``summary`` and ``seconds``.
    """

    name: str
    folder: Path
    workload: dict[str, Any] | None
    summary: dict[str, Any] | None
    records: list[StreamRecord]
    itl: list[Hdr]
    seconds: list[tuple[float, float]]


def read_run(name: str) -> list[StoredRun]:
    """``folder``: the run, or each of its variants in their order. ``folder@variant``: that one.

    Raises RunFolderError for a folder that holds no such run, or damaged files.
    """
    folder, wanted = Path(name), ""
    if not folder.is_dir() and "@" in name:
        before, _, wanted = name.rpartition("@")
        folder = Path(before)
    if not (folder / "journal.jsonl").is_file():
        raise RunFolderError(f"{name} is no run folder: it has no journal.jsonl")
    try:
        records = read_journal(folder / "journal.jsonl").records
        manifest, summary = (_read_json(folder / file) for file in ("manifest.json", "summary.json"))
        variants = list(dict.fromkeys([*(summary or {}).get("variants", ()), *(record.variant for record in records)]))
        if wanted and wanted not in variants:
            raise RunFolderError(f"{folder} has no variant {wanted}; it has {', '.join(filter(None, variants)) or 'none'}")
        return [
            StoredRun(
                name=f"{folder}@{variant}" if variant else str(folder),
                folder=folder,
                workload=None if manifest is None else workload_of(manifest, variant),
                summary=summary["variants"].get(variant) if variant and summary is not None else summary,
                records=[record for record in records if record.variant == variant],
                itl=_read_itl(folder / "histograms.hlog", f"{variant}.{Metric.ITL}" if variant else Metric.ITL),
                seconds=_read_seconds(folder / "intervals.csv", variant),
            )
            for variant in ([wanted] if wanted else variants or [""])
        ]
    except (OSError, ValueError, KeyError, msgspec.MsgspecError) as error:
        raise RunFolderError(f"{folder} cannot be read: {error}") from None


def _read_json(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    data = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(data, dict):
        raise ValueError(f"{path.name}: expected an object")  # noqa: TRY004 - of a file, not of an argument
    return data


def _read_itl(path: Path, tag: str) -> list[Hdr]:
    return read_blocks(path, tag, most=MOST_BLOCKS) if path.exists() else []


def _read_seconds(path: Path, variant: str) -> list[tuple[float, float]]:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["measured"] == "True" and row.get("variant", "") == variant]
    return [(float(row["output_events"]), float(row["length_s"])) for row in rows]

"""The HdrHistogram interval log (``histograms.hlog``): one line per second and metric, written while the run goes on.

    #[Histogram log format version 1.3]
    #[StartTime: 1754470000.123 (seconds since epoch), 2025-08-06T08:46:40.123+00:00]
    "StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"
    Tag=ttft,3.000,1.000,512.345,HISTFAAAAGB4...

Stamps are seconds since StartTime, never absolute, and there is no BaseTime line: readers add it to the stamps.
Payloads are V2 and count **nanoseconds**; only the max column is in milliseconds (the usual ratio of 1,000,000 for
nanosecond histograms). Tags are ``metric`` or ``variant.metric``.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TextIO

from loadgen.clock import NS_PER_MS, NS_PER_S
from loadgen.errors import shorten
from loadgen.record.hdr import Hdr

_TAG: Final = re.compile(r"[^,\s]+")  # the format's own rule: no comma, no space, no line end
_INTERVAL: Final = re.compile(
    r"(?:Tag=(?P<tag>[^,\s]+),)?(?P<start>\d+\.\d+),(?P<length>\d+\.\d+),(?P<max>\d+\.\d+),(?P<payload>\S+)"
)


class HlogWriter:
    """Writes the header at once and intervals as they come. The file is the caller's, to open and to close."""

    def __init__(self, file: TextIO, started_wall_ns: int) -> None:
        self._file = file
        moment = datetime.fromtimestamp(started_wall_ns / NS_PER_S, UTC).isoformat(timespec="milliseconds")
        file.write(
            "#[Histogram log format version 1.3]\n"
            f"#[StartTime: {started_wall_ns / NS_PER_S:.3f} (seconds since epoch), {moment}]\n"
            '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"\n'
        )
        file.flush()

    def write(self, tag: str, start_s: float, length_s: float, hdr: Hdr) -> None:
        """One interval, ``start_s`` counted from the run's start; an empty histogram is not written. About 0.5 ms.

        The line goes to the system at once, so that a killed run keeps it. ValueError: the tag has a comma or a space.
        """
        if not _TAG.fullmatch(tag):
            raise ValueError(f"a tag of an interval log must be without comma and space, got {shorten(tag)}")
        if hdr.count:
            self._file.write(f"Tag={tag},{start_s:.3f},{length_s:.3f},{hdr.max / NS_PER_MS:.3f},{hdr.encode()}\n")
            self._file.flush()


def read_hlog(path: Path) -> dict[str, Hdr]:
    """All intervals of each tag, added up; "" for lines without a tag.

    A last line that was cut off (the writer was killed) is left out. ValueError: another line is no interval log line.
    """
    found: dict[str, Hdr] = {}
    for tag, hdr in _read_intervals(path):
        found.setdefault(tag, Hdr()).add(hdr)
    return found


def read_blocks(path: Path, tag: str, *, most: int) -> list[Hdr]:
    """The intervals of one tag in their order; where there are more than ``most``, as many neighbours added up as it takes.

    Errors as of ``read_hlog``; lines of other tags are not looked into.
    """
    mark = f"Tag={tag},"
    with path.open(encoding="utf-8") as file:
        total = sum(line.startswith(mark) for line in file)
    each = max(-(-total // most), 1)
    blocks: list[Hdr] = []
    for number, (_, hdr) in enumerate(_read_intervals(path, mark)):
        if number % each:
            blocks[-1].add(hdr)
        else:
            blocks.append(hdr)
    return blocks


def _read_intervals(path: Path, mark: str = "") -> Iterator[tuple[str, Hdr]]:
    """Tag and histogram of each line that begins with ``mark``."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    for number, line in enumerate(lines, 1):
        if line.startswith(("#", '"')) or not line.strip() or not line.startswith(mark):
            continue
        try:
            interval = _parse_interval(line.rstrip("\r\n"))
        except ValueError as error:
            if number == len(lines) and not line.endswith("\n"):
                return
            raise ValueError(f"{path}:{number}: {error}") from error
        yield interval


def _parse_interval(line: str) -> tuple[str, Hdr]:
    match = _INTERVAL.fullmatch(line)
    if match is None:
        raise ValueError(f"expected [Tag=name,]start,length,max,payload, got {shorten(line)}")
    return match["tag"] or "", Hdr.decode(match["payload"])

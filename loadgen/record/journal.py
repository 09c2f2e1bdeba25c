"""The run journal: one JSON line per stream, written as it ends, so that a killed run can still be told.

The first line is a header. Lines go to the kernel at once (no buffer of ours): what a ``kill -9`` can lose is the line being
written, and ``read_journal`` says so.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import msgspec

from loadgen.model import StreamRecord

VERSION: Final = 1


def start_journal(path: Path, header: Mapping[str, Any]) -> None:
    """A new journal with its first line."""
    path.write_bytes(msgspec.json.encode({"journal": VERSION, **header}) + b"\n")


class Journal:
    """Appends to a started journal; use as a context manager. Several processes may do so at once: each line is one write."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)
        self._encode = msgspec.json.Encoder().encode

    def write(self, record: StreamRecord) -> None:
        self._file.write(self._encode(record) + b"\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


class ReadJournal(NamedTuple):
    """``dropped_bytes``: the length of a last line that was cut off."""

    header: dict[str, Any]
    records: list[StreamRecord]
    dropped_bytes: int


def read_journal(path: Path) -> ReadJournal:
    """Everything in a journal. Raises ValueError with the line's number for anything but a cut last line."""
    first, *lines = path.read_bytes().split(b"\n")
    header = msgspec.json.decode(first)
    if not isinstance(header, dict) or header.get("journal") != VERSION:
        raise ValueError(f"{path}:1: no loadgen journal of version {VERSION}")
    decode = msgspec.json.Decoder(StreamRecord).decode
    records: list[StreamRecord] = []
    for number, line in enumerate(lines, 2):
        if not line:
            continue
        try:
            records.append(decode(line))
        except msgspec.DecodeError as error:
            if number == len(lines) + 1:
                return ReadJournal(header, records, len(line))
            raise ValueError(f"{path}:{number}: {error}") from None
    return ReadJournal(header, records, 0)

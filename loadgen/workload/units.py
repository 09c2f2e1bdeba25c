"""Durations, sizes and shares as people write them, and back.

``250ms`` ``5s`` ``2m`` -> int nanoseconds; ``64KiB`` -> int bytes; ``10%`` -> float 0..1. Bare numbers are refused for
durations and sizes (except 0): a number without a unit is how a 30-second timeout becomes 30 ms.
"""

import re
from decimal import Decimal
from typing import Annotated, Final

from pydantic import BeforeValidator, PlainSerializer, SerializationInfo, ValidationInfo

from loadgen.errors import shorten

_DURATION_NS: Final = {
    "ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "m": 60_000_000_000, "h": 3_600_000_000_000,
}  # fmt: skip
_SIZE_BYTES: Final = {
    "B": 1, "KB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
}  # fmt: skip
_NUMBER: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)")


def parse_duration(value: object) -> int:
    """Nanoseconds of ``250ms``, ``5s``, ``2m``, also ``1m30s``. ValueError says what was expected."""
    if value == 0 and not isinstance(value, bool):
        return 0
    return _sum_of_parts(value, _DURATION_NS, "a duration such as 250ms, 5s or 2m", "s")


def parse_size(value: object) -> int:
    """Bytes of ``64KiB``, ``1MiB``, ``500B``."""
    if value == 0 and not isinstance(value, bool):
        return 0
    return _sum_of_parts(value, _SIZE_BYTES, "a size such as 64KiB or 1MiB", "KiB")


def write_size(size: int) -> str:
    """``size`` exactly, in the largest binary unit that needs no fraction."""
    for unit in ("GiB", "MiB", "KiB"):
        if size and size % _SIZE_BYTES[unit] == 0:
            return f"{size // _SIZE_BYTES[unit]}{unit}"
    return f"{size}B"


def parse_share(value: object) -> float:
    """``10%`` or ``0.1`` -> 0.1."""
    expected = "a share such as 10% or 0.1, from 0 to 1"
    if isinstance(value, str) and (match := re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*", value)):
        share = float(Decimal(match[1]) / 100)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        share = float(value)
    else:
        raise ValueError(f"must be {expected}, got {value!r}")
    if not 0 <= share <= 1:
        raise ValueError(f"must be {expected}, got {value!r}")
    return share


def format_duration(ns: float) -> str:
    """The shortest usual writing, to four digits: ``1m30s``, ``250ms``, ``20.5ms``, ``3us``."""
    if ns >= 1000 * _DURATION_NS["s"] or (ns >= _DURATION_NS["m"] and ns % _DURATION_NS["s"] == 0):
        minutes, seconds = divmod(round(ns / _DURATION_NS["s"]), 60)
        return f"{minutes}m{seconds}s" if seconds else f"{minutes}m"
    for unit in ("s", "ms", "us"):
        if ns >= _DURATION_NS[unit]:
            return f"{ns / _DURATION_NS[unit]:.4g}{unit}"
    return f"{ns:.4g}ns" if ns else "0s"


def write_duration(ns: int) -> str:
    """``ns`` exactly, in the largest unit that needs no fraction: ``parse_duration`` gives the same number back."""
    for unit in ("m", "s", "ms", "us"):
        if ns and ns % _DURATION_NS[unit] == 0:
            return f"{ns // _DURATION_NS[unit]}{unit}"
    return f"{ns}ns" if ns else "0s"


def _sum_of_parts(value: object, units: dict[str, int], expected: str, usual_unit: str) -> int:
    text = value.strip() if isinstance(value, str) else ""
    total, at = Decimal(0), 0
    for match in _NUMBER.finditer(text):
        if match.start() != at or match[2] not in units:
            break
        total += Decimal(match[1]) * units[match[2]]
        at = match.end()
    if not text or at != len(text):
        bare = isinstance(value, int | float) and not isinstance(value, bool)
        if bare or re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
            raise ValueError(f"must be {expected}, got {value!r}; add a unit: {value}{usual_unit}")
        raise ValueError(f"must be {expected}, got {shorten(value) if isinstance(value, str) else repr(value)}")
    return round(total)


def _read_duration(value: object, info: ValidationInfo) -> int:
    """With ``context={"ns": True}`` whole numbers are taken as ns: what a dump of a validated model holds."""
    if isinstance(value, int) and not isinstance(value, bool) and (info.context or {}).get("ns"):
        return value
    return parse_duration(value)


def _dump_duration(ns: int, info: SerializationInfo) -> int | str:
    """With ``context={"units": True}`` a dump holds durations as people write them, without it ns."""
    return write_duration(ns) if (info.context or {}).get("units") else ns


Duration = Annotated[int, BeforeValidator(_read_duration), PlainSerializer(_dump_duration)]
"""A pydantic field of nanoseconds, written ``250ms``."""
Size = Annotated[int, BeforeValidator(parse_size)]
"""A pydantic field of bytes, written ``64KiB``."""
Share = Annotated[float, BeforeValidator(parse_share)]
"""A pydantic field from 0 to 1, written ``10%``."""

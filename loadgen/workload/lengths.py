"""Distributions of whole numbers, as `max_tokens` and `characters` take them: a number, or ``{uniform: [16, 512]}``."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any, Final

from pydantic import PlainSerializer, PlainValidator

from loadgen.errors import shorten

_EXPECTED: Final = "a whole number or {uniform: [low, high]}"


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always ``value``."""

    value: int

    def pick(self, rng: Random) -> int:  # noqa: ARG002 - the Length protocol
        return self.value

    def written(self) -> int:
        """As in a workload file."""
        return self.value


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every whole number from ``low`` to ``high`` (both included) is equally likely."""

    low: int
    high: int

    def pick(self, rng: Random) -> int:
        return rng.randint(self.low, self.high)

    def written(self) -> dict[str, list[int]]:
        return {"uniform": [self.low, self.high]}


def parse_length(value: object) -> Fixed | Uniform:
    """Raises ValueError that says what was expected; numbers below 1 are no lengths."""
    if _is_whole(value):
        return Fixed(_at_least_one(value))
    if isinstance(value, Fixed | Uniform):
        return value
    if not isinstance(value, Mapping) or set(value) != {"uniform"}:
        raise ValueError(f"must be {_EXPECTED}, got {shorten(str(value))}")
    ends = value["uniform"]
    if not isinstance(ends, list | tuple) or len(ends) != 2 or not all(map(_is_whole, ends)):
        raise ValueError(f"uniform must be two whole numbers [low, high], got {shorten(str(ends))}")
    low, high = map(_at_least_one, ends)
    if low > high:
        raise ValueError(f"uniform must be [low, high] with low <= high, got [{low}, {high}]")
    return Uniform(low, high)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _at_least_one(value: Any) -> int:
    if value < 1:
        raise ValueError(f"must be at least 1, got {value}")
    return int(value)


LengthField = Annotated[Fixed | Uniform, PlainValidator(parse_length), PlainSerializer(lambda length: length.written())]
"""A pydantic field that holds a Length."""

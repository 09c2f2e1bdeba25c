"""Distributions of whole numbers, for max_tokens and synthetic prompts."""

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Fixed:
    value: int

    def pick(self, rng: Random) -> int:
        del rng
        return self.value


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every number from ``low`` to ``high``, both included, equally likely."""

    low: int
    high: int

    def pick(self, rng: Random) -> int:
        return rng.randint(self.low, self.high)

"""Time. All stamps inside loadgen are int nanoseconds of one run clock; this module is where they come from.

Two clocks exist. ``SystemClock`` is CLOCK_MONOTONIC and works across the threads and processes of one machine.
``TrioClock`` follows ``trio.current_time()`` and so a ``trio.testing.MockClock``: with it a TTFT of 250 ms is exactly
250_000_000. Kernel receive stamps come in CLOCK_REALTIME; ``WallOffset`` brings them onto the system clock and notices
when the wall clock was stepped.
"""

import time
from typing import Final, Protocol

import trio

NS_PER_S: Final = 1_000_000_000
NS_PER_MS: Final = 1_000_000
NS_PER_US: Final = 1_000


class Clock(Protocol):
    """Gives the time of the run in nanoseconds, from an arbitrary zero, never going back."""

    def now_ns(self) -> int: ...

    def trio_deadline(self, at_ns: int) -> float:
        """The same moment as a deadline for trio's cancel scopes. Call it inside trio only."""
        ...


class SystemClock:
    """CLOCK_MONOTONIC. The clock of real runs."""

    __slots__ = ()

    now_ns = staticmethod(time.monotonic_ns)

    def trio_deadline(self, at_ns: int) -> float:
        return trio.current_time() + (at_ns - time.monotonic_ns()) / NS_PER_S


class TrioClock:
    """``trio.current_time()`` in whole nanoseconds; the clock of tests in virtual time."""

    __slots__ = ()

    def now_ns(self) -> int:
        return round(trio.current_time() * NS_PER_S)

    def trio_deadline(self, at_ns: int) -> float:
        return at_ns / NS_PER_S


class WallOffset:
    """Keeps ``CLOCK_REALTIME - CLOCK_MONOTONIC`` fresh, so that kernel stamps can be put on the run clock.

    The wall clock may be slewed (NTP: up to 500 ppm, 0.5 us a millisecond) or stepped. ``refresh`` samples the
    difference; between two samples it is off by less than 0.5 us for each millisecond that passed. A difference that
    moves by more than ``STEP_NS`` at once is a step: ``steps`` counts them.
    """

    STEP_NS: Final = 1 * NS_PER_MS
    MAX_BRACKET_NS: Final = 20 * NS_PER_US  # a sample that took longer was preempted and says nothing

    __slots__ = ("_sampled_ns", "offset_ns", "steps")

    def __init__(self) -> None:
        self.steps = 0
        self.offset_ns = min((self._sample() for _ in range(5)), key=lambda s: s[1])[0]
        self._sampled_ns = time.monotonic_ns()

    def refresh(self, now_ns: int, *, max_age_ns: int = 10 * NS_PER_MS) -> int:
        """The offset, sampled anew when the last sample is older than ``max_age_ns``."""
        if now_ns - self._sampled_ns >= max_age_ns:
            offset, bracket = self._sample()
            if bracket <= self.MAX_BRACKET_NS:
                if abs(offset - self.offset_ns) > self.STEP_NS:
                    self.steps += 1
                self.offset_ns = offset
                self._sampled_ns = now_ns
        return self.offset_ns

    @staticmethod
    def _sample() -> tuple[int, int]:
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        return wall - (before + after) // 2, after - before

"""How many streams are open: the limit that holds them down, and the gauge that says how many there were."""

import trio

from loadgen.clock import Clock
from loadgen.workload.plan import Limit, WhenFull


class Concurrency:
    """Counts open streams, and integrates open and asked over time while ``measuring``.

    ``paused`` are slots that wait after a failure of the target: nobody can hold the generator to those.
    """

    def __init__(self, clock: Clock) -> None:
        self.open = 0
        self.max_open = 0
        self.asked = 0
        self.max_asked = 0
        self.paused = 0
        self.measuring = False
        self._clock = clock
        self._since_ns = clock.now_ns()
        self._measured_ns = 0
        self._open_area = 0
        self._asked_area = 0

    @property
    def mean_open(self) -> float:
        return self._open_area / self._measured_ns if self._measured_ns else 0.0

    @property
    def mean_asked(self) -> float:
        return self._asked_area / self._measured_ns if self._measured_ns else 0.0

    def opened(self) -> None:
        self.advance()
        self.open += 1
        if self.measuring:
            self.max_open = max(self.max_open, self.open)

    def closed(self) -> None:
        self.advance()
        self.open -= 1

    def ask(self, streams: int) -> None:
        self.advance()
        self.asked = streams
        if self.measuring:
            self.max_asked = max(self.max_asked, streams)

    def pause(self, by: int) -> None:
        self.advance()
        self.paused += by

    def measure(self, on: bool) -> None:  # noqa: FBT001 - a switch
        """Begin or end integrating; the maxima count from here too."""
        self.advance()
        if on and not self.measuring:
            self.max_open = max(self.max_open, self.open)
        self.measuring = on

    def advance(self) -> None:
        """Bring the integrals up to now."""
        now_ns = self._clock.now_ns()
        if self.measuring:
            elapsed_ns = now_ns - self._since_ns
            self._measured_ns += elapsed_ns
            self._open_area += self.open * elapsed_ns
            self._asked_area += max(self.asked - self.paused, 0) * elapsed_ns
        self._since_ns = now_ns


class Limiter:
    """Lets so many streams in at once, first come first served, and counts them in the gauge."""

    def __init__(self, limit: Limit | None, gauge: Concurrency) -> None:
        self._limit = limit
        self._room = None if limit is None else trio.Semaphore(limit.streams)
        self._gauge = gauge

    async def enter(self) -> bool:
        """Wait for a place; False: the limit is full and the workload says drop. Cancelled, it holds nothing."""
        if self._room is not None:
            if self._limit is not None and self._limit.when_full is WhenFull.DROP:
                try:
                    self._room.acquire_nowait()
                except trio.WouldBlock:
                    return False
            else:
                await self._room.acquire()
        self._gauge.opened()
        return True

    def leave(self) -> None:
        self._gauge.closed()
        if self._room is not None:
            self._room.release()

"""The search for capacity: the greatest number of concurrent streams at which every SLO holds.

Sans-IO: ``Search`` says which level to try next, its owner runs it and tells how it went. Levels double until one fails, then
the gap between the last good and the first bad one is halved until it is within ``TOLERANCE``; the last good one is then tried
once more, for servers drift, and because it shows whether the server recovers from the overload before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from loadgen.model import Metric
from loadgen.record.results import Results
from loadgen.record.summary import describe

TOLERANCE: Final = 0.05
MAX_HOLDS: Final = 3  # a level whose SLOs are not clear after one hold is held again, so often at most


@dataclass(slots=True)
class Search:
    """``low``: the greatest level that is good as far as is known, 0 if none; ``high``: the least that is not."""

    lowest: int
    highest: int
    low: int = 0
    high: int | None = None
    recovered: bool | None = None  # the last good level was good again after a worse one
    _good: set[int] = field(default_factory=set)
    _confirming: int | None = None

    def next(self) -> int | None:
        """The level to try, or None: the search is over."""
        if self.high is None:
            if self.low == self.highest:
                return None
            return min(max(self.low * 2, self.lowest), self.highest)
        if not self.low:
            return None if self.high <= self.lowest else self.lowest
        if self.high - self.low > max(1, self.low * TOLERANCE):
            return (self.low + self.high) // 2
        if self.recovered is not None and self._confirming == self.low:
            return None
        self._confirming = self.low
        return self.low

    def tell(self, streams: int, *, good: bool) -> None:
        """How a level went; a good one that fails when it is tried again is not good."""
        if streams == self._confirming:
            self.recovered = good
        if good:
            self._good.add(streams)
        else:
            self.high = streams if self.high is None else min(self.high, streams)
        self._good = {level for level in self._good if self.high is None or level < self.high}
        self.low = max(self._good, default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One level that was tried: ``broke`` are the rules that did not hold, or why the generator cannot be believed."""

    streams: int
    holds: int
    results: Results
    output_events_per_s: float
    rules: Sequence[dict[str, Any]]
    invalid: Sequence[str]

    @property
    def broke(self) -> list[str]:
        return [f"generator: {reason}" for reason in self.invalid] or [r["rule"] for r in self.rules if not r["ok"]]

    def summary(self) -> dict[str, Any]:
        """The curve's point in summary.json."""
        metrics = self.results.metrics
        ttft, itl = describe(metrics.get(Metric.TTFT)), describe(metrics.get(Metric.ITL))
        return {
            "streams": self.streams,
            "ok": not self.broke,
            "broke": self.broke,
            "holds": self.holds,
            "started": self.results.started,
            "ttft_p50_ms": ttft.get("p50_ms"),
            "ttft_p99_ms": ttft.get("p99_ms"),
            "itl_p50_ms": itl.get("p50_ms"),
            "itl_p99_ms": itl.get("p99_ms"),
            "events_per_s": self.output_events_per_s,
            "error_rate": self.results.error_rate,
            "goodput": self.results.goodput,
        }


def describe_capacity(search: Search, steps: Sequence[Step]) -> dict[str, Any]:
    """The ``capacity`` block of summary.json. ``limited_by``: what broke first; None when nothing did up to the end."""
    bad = [step for step in steps if step.broke and step.streams == search.high]
    return {
        "streams": search.low,
        "low": search.low,
        "high": search.high,
        "limited_by": bad[-1].broke[0] if bad else None,
        "recovered": search.recovered,
        "steps": [step.summary() for step in steps],
    }

"""What one process gathers between two flushes: a synchronous hub for finished streams and token gaps.

The hot path only appends a gap to an array; ``take`` buckets what has gathered and hands it over as a ``Batch``. Batches of
several processes merge into what one process would have handed over.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from loadgen.model import Metric, Outcome, StreamRecord
from loadgen.record.hdr import Hdr
from loadgen.record.results import Results, values_of
from loadgen.record.slo import meets_all
from loadgen.workload.plan import Phase
from loadgen.workload.slo import SloRule


@dataclass(slots=True, kw_only=True)
class Batch:
    """``parts[i]`` is what was added to phase i from ``begin_ns`` to ``end_ns``, warm-up's metrics included.

    ``phase`` is the one that ran meanwhile, None while streams drain; ``open`` the streams open at the end; ``read_lag`` how
    much later than the kernel this side looked at its reads.
    """

    begin_ns: int
    end_ns: int
    phase: int | None
    open: int
    parts: list[Results]
    read_lag: Hdr = field(default_factory=Hdr)

    @property
    def started(self) -> int:
        return sum(part.started for part in self.parts)

    @property
    def ended(self) -> Counter[Outcome]:
        return sum((part.outcomes for part in self.parts), Counter())

    @property
    def output_events(self) -> int:
        """Output events that arrived; the first one of a stream counts when the stream ends."""
        gaps = sum(part.metrics[Metric.ITL].count for part in self.parts if Metric.ITL in part.metrics)
        return gaps + sum(part.bursts.count for part in self.parts)

    def merge(self, other: "Batch") -> None:
        """Add another process's batch of the same phase and about the same time."""
        self.begin_ns, self.end_ns = min(self.begin_ns, other.begin_ns), max(self.end_ns, other.end_ns)
        self.open += other.open
        self.read_lag.add(other.read_lag)
        for part, more in zip(self.parts, other.parts, strict=True):
            part.merge(more)


@dataclass(slots=True)
class _Part:
    """What gathers for one phase. ``gaps`` stays the same object: the streams hold on to it."""

    results: Results = field(default_factory=Results)
    gaps: "array[int]" = field(default_factory=lambda: array("q"))
    values: dict[Metric, list[int]] = field(default_factory=dict)

    def take(self) -> Results:
        results, self.results = self.results, Results()
        for metric, values in self.values.items():
            results.metric(metric).record_many(values)
        self.values = {}
        if self.gaps:
            results.metric(Metric.ITL).record_many(self.gaps)
            del self.gaps[:]
        return results


class Collector:
    """Takes what happens as it happens. ``begin_ns``: when the run began."""

    def __init__(self, phases: Sequence[Phase], slo: Sequence[SloRule], begin_ns: int) -> None:
        self._slo = slo
        self._parts = [_Part() for _ in phases]
        self._phase: int | None = 0
        self._taken_ns = begin_ns

    def phase_started(self, index: int | None) -> None:
        """Call ``take`` just before, so that no batch spans two phases. None: the load is over, streams drain."""
        self._phase = index

    def stream_started(self, record: StreamRecord) -> None:
        self._parts[record.phase].results.started += 1

    def itl_sink(self, phase: int) -> Callable[[int], None]:
        """Where the hot path puts the gaps (ns) between output events of a stream of this phase."""
        return self._parts[phase].gaps.append

    def stream_ended(self, record: StreamRecord) -> None:
        part = self._parts[record.phase]
        part.results.add(record, good=meets_all(self._slo, record))
        for metric, value in values_of(record).items():
            part.values.setdefault(metric, []).append(value)

    def take(self, now_ns: int, *, open_streams: int, read_lag: Hdr | None = None) -> Batch:
        """Everything since the last call. Cost: about 15 ns a gap, and some 30 us a metric."""
        begin_ns, self._taken_ns = self._taken_ns, now_ns
        return Batch(
            begin_ns=begin_ns,
            end_ns=now_ns,
            phase=self._phase,
            open=open_streams,
            parts=[part.take() for part in self._parts],
            read_lag=read_lag or Hdr(),
        )

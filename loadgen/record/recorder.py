"""The recorder: turns batches, from however many processes, into results, intervals and the interval log.

Measured phases fill the metrics; the streams of warm-up phases are counted, and seen in the intervals, and nothing more.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from loadgen.clock import NS_PER_MS, NS_PER_S
from loadgen.model import Metric, Outcome
from loadgen.record.collector import Batch
from loadgen.record.hdr import Hdr
from loadgen.record.hlog import HlogWriter
from loadgen.record.results import Results
from loadgen.workload.plan import Phase

GAP_NS: Final = 500_000_000  # between two batches of one phase that belong to different rounds


@dataclass(slots=True, kw_only=True)
class Interval:
    """One second or so of the run, all phases alike: the row of intervals.csv. Times in ms, None without samples."""

    start_s: float
    length_s: float
    phase: str  # its kind, or "drain"
    measured: bool
    open: int
    started: int
    outcomes: Counter[Outcome]
    output_events: int
    ttft_p50_ms: float | None
    ttft_p99_ms: float | None
    itl_p50_ms: float | None
    itl_p99_ms: float | None
    variant: str = ""


class Recorder:
    """``phases[i]`` are the results of phase i; ``intervals`` the rows so far, ``read_lag`` of all of them.

    ``begin_ns``: when the run began.
    """

    def __init__(self, phases: Sequence[Phase], begin_ns: int, hlog: HlogWriter | None = None, variant: str = "") -> None:
        self.phases = [Results() for _ in phases]
        self.intervals: list[Interval] = []
        self.read_lag = Hdr()
        self.variant = variant
        self._kinds = phases
        self._hlog = hlog
        self._begin_ns = begin_ns
        self._spans: list[tuple[int, int, int]] = []  # measured phases as they ran: index, from and to, ns

    def apply(self, batch: Batch) -> Interval:
        """Add a batch; its row. What is in the batch is the recorder's from now on."""
        start_s = (batch.begin_ns - self._begin_ns) / NS_PER_S
        length_s = (batch.end_ns - batch.begin_ns) / NS_PER_S
        phase = None if batch.phase is None else self._kinds[batch.phase]
        all_metrics = _merge_metrics(batch.parts)
        ttft, itl = (_p50_p99_ms(all_metrics.get(metric)) for metric in (Metric.TTFT, Metric.ITL))
        interval = Interval(
            start_s=start_s,
            length_s=length_s,
            phase="drain" if phase is None else phase.kind,
            measured=phase is not None and phase.measured,
            open=batch.open,
            started=batch.started,
            outcomes=batch.ended,
            output_events=batch.output_events,
            ttft_p50_ms=ttft[0],
            ttft_p99_ms=ttft[1],
            itl_p50_ms=itl[0],
            itl_p99_ms=itl[1],
            variant=self.variant,
        )
        self.intervals.append(interval)
        self.read_lag.add(batch.read_lag)
        if interval.measured and batch.phase is not None:
            if self._spans and self._spans[-1][0] == batch.phase and batch.begin_ns - self._spans[-1][2] < GAP_NS:
                self._spans[-1] = *self._spans[-1][:2], batch.end_ns
            else:
                self._spans.append((batch.phase, batch.begin_ns, batch.end_ns))
        for kind, results, part in zip(self._kinds, self.phases, batch.parts, strict=True):
            if not kind.measured:
                part.metrics = {}
            results.merge(part)
        if self._hlog is not None:
            for metric, hdr in _merge_metrics(batch.parts).items():
                self._hlog.write(f"{self.variant}.{metric}" if self.variant else metric, start_s, length_s, hdr)
        return interval

    def output_events_per_s(self) -> float:
        """Output events that arrived during measured phases, whoever they belong to, per second of those phases."""
        measured_ns = sum(last - first for _, first, last in self._spans)
        events = sum(i.output_events for i in self.intervals if i.measured)
        return events * NS_PER_S / measured_ns if measured_ns else 0.0

    def outcomes(self, *, measured: bool) -> Counter[Outcome]:
        """How the streams of measured phases, or of the others, have ended so far. Costs next to nothing."""
        ended: Counter[Outcome] = Counter()
        for kind, results in zip(self._kinds, self.phases, strict=True):
            if kind.measured is measured:
                ended += results.outcomes
        return ended

    def measured(self) -> Results:
        """All measured phases merged."""
        total = Results()
        for kind, results in zip(self._kinds, self.phases, strict=True):
            if kind.measured:
                total.merge(results)
        return total

    def everything(self) -> Results:
        """All phases merged, warm-up too: for what was started and how it ended."""
        total = Results()
        for results in self.phases:
            total.merge(results)
        return total


def _merge_metrics(parts: Sequence[Results]) -> dict[Metric, Hdr]:
    """The metrics of all parts together; of those that only one part has, that very histogram."""
    merged: dict[Metric, Hdr] = {}
    shared: set[Metric] = set()
    for part in parts:
        for metric, hdr in part.metrics.items():
            if not hdr.count:
                continue
            if metric not in merged:
                merged[metric] = hdr
                continue
            if metric not in shared:
                shared.add(metric)
                own = Hdr()
                own.add(merged[metric])
                merged[metric] = own
            merged[metric].add(hdr)
    return merged


def _p50_p99_ms(hdr: Hdr | None) -> tuple[float | None, float | None]:
    if hdr is None or not hdr.count:
        return None, None
    p50, p99 = hdr.percentiles((0.5, 0.99))
    return p50 / NS_PER_MS, p99 / NS_PER_MS

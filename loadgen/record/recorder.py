"""The recorder: a synchronous hub that takes finished streams and token gaps, and turns them into results once a second.

The hot path only appends a gap to an array; ``flush`` buckets what has gathered. Measured phases fill the metrics; the
streams of warm-up phases are counted, and seen in the intervals, and nothing more.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from loadgen.clock import NS_PER_MS, NS_PER_S
from loadgen.model import Metric, Outcome, StreamRecord
from loadgen.record.hdr import Hdr
from loadgen.record.hlog import HlogWriter
from loadgen.record.results import Results, values_of
from loadgen.record.slo import meets_all
from loadgen.workload.plan import Phase
from loadgen.workload.slo import SloRule


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


@dataclass(slots=True)
class _Part:
    """What gathers for one phase between two flushes."""

    results: Results = field(default_factory=Results)
    gaps: "array[int]" = field(default_factory=lambda: array("q"))
    values: dict[Metric, list[int]] = field(default_factory=dict)


class Recorder:
    """``phases[i]`` are the results of phase i; ``intervals`` the rows so far."""

    def __init__(self, phases: Sequence[Phase], slo: Sequence[SloRule], begin_ns: int, hlog: HlogWriter | None = None) -> None:
        self.intervals: list[Interval] = []
        self._phases = phases
        self._slo = slo
        self._hlog = hlog
        self._parts = [_Part() for _ in phases]
        self._begin_ns = begin_ns
        self._flushed_ns = begin_ns
        self._phase: int | None = 0
        self._started = 0
        self._ended: Counter[Outcome] = Counter()
        self._streams_with_output: int = 0

    @property
    def phases(self) -> list[Results]:
        return [part.results for part in self._parts]

    def phase_started(self, index: int | None) -> None:
        """Call ``flush`` just before, so that no interval spans two phases. None: the load is over, streams drain."""
        self._phase = index

    def stream_started(self, record: StreamRecord) -> None:
        self._parts[record.phase].results.started += 1
        self._started += 1

    def itl_sink(self, phase: int) -> Callable[[int], None]:
        """Where the hot path puts the gaps (ns) between output events of a stream of this phase."""
        return self._parts[phase].gaps.append

    def stream_ended(self, record: StreamRecord) -> None:
        part = self._parts[record.phase]
        part.results.add(record, good=meets_all(self._slo, record))
        self._ended[record.outcome] += 1
        self._streams_with_output += record.output_events > 0
        for metric, value in values_of(record).items():
            part.values.setdefault(metric, []).append(value)

    def flush(self, now_ns: int, *, open_streams: int) -> Interval:
        """Bucket everything since the last flush; the interval's row. Cost: about 30 ns a gap."""
        start_s = (self._flushed_ns - self._begin_ns) / NS_PER_S
        length_s = (now_ns - self._flushed_ns) / NS_PER_S
        ttft = np.concatenate([part.values.get(Metric.TTFT, []) for part in self._parts] or [[]])
        gaps = np.concatenate([part.gaps for part in self._parts])
        delta: dict[Metric, Hdr] = {}
        for kind, part in zip(self._phases, self._parts, strict=True):
            if kind.measured:
                for metric, values in [*part.values.items(), (Metric.ITL, part.gaps)]:
                    part.results.metric(metric).record_many(values)
                    if self._hlog is not None and len(values):
                        delta.setdefault(metric, Hdr()).record_many(values)
            part.values = {}
            del part.gaps[:]
        if self._hlog is not None:
            for metric, hdr in delta.items():
                self._hlog.write(metric, start_s, length_s, hdr)
        outputs = len(gaps) + self._streams_with_output
        phase = None if self._phase is None else self._phases[self._phase]
        interval = Interval(
            start_s=start_s,
            length_s=length_s,
            phase="drain" if phase is None else phase.kind,
            measured=phase is not None and phase.measured,
            open=open_streams,
            started=self._started,
            outcomes=self._ended,
            output_events=outputs,
            ttft_p50_ms=_quantile_ms(ttft, 0.5),
            ttft_p99_ms=_quantile_ms(ttft, 0.99),
            itl_p50_ms=_quantile_ms(gaps, 0.5),
            itl_p99_ms=_quantile_ms(gaps, 0.99),
        )
        self.intervals.append(interval)
        self._flushed_ns, self._started, self._ended, self._streams_with_output = now_ns, 0, Counter(), 0
        return interval

    def output_events_per_s(self) -> float:
        """Output events that arrived during measured phases, whoever they belong to, per second of those phases."""
        measured = [i for i in self.intervals if i.measured]
        seconds = sum(i.length_s for i in measured)
        return sum(i.output_events for i in measured) / seconds if seconds else 0.0

    def measured(self) -> Results:
        """All measured phases merged."""
        total = Results()
        for phase, part in zip(self._phases, self._parts, strict=True):
            if phase.measured:
                total.merge(part.results)
        return total

    def everything(self) -> Results:
        """All phases merged, warm-up too: for what was started and how it ended."""
        total = Results()
        for part in self._parts:
            total.merge(part.results)
        return total


def _quantile_ms(values: "np.typing.NDArray[np.int64]", q: float) -> float | None:
    return float(np.quantile(values, q, method="inverted_cdf")) / NS_PER_MS if len(values) else None

"""Results that merge: counters and HDR counts of one phase, and of a whole run. Everything that is reported comes from here."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from loadgen.model import Metric, Outcome, StreamRecord
from loadgen.record.hdr import Hdr
from loadgen.record.metrics import METRICS, tokens_of

# Neither a success nor the target's fault: our own policy, our own limit, or the end of the run.
NOT_THE_TARGETS: frozenset[Outcome] = frozenset({Outcome.ABORTED, Outcome.DROPPED, Outcome.CUT})

MAX_DETAILS: Final = 1000
MAX_CONNECTIONS: Final = 1_000
OTHER_CONNECTIONS: Final = -1
OTHER_DETAIL: Final = "(other reasons, each of its own)"


@dataclass(slots=True)
class Carried:
    """What one connection carried: streams, output events, bytes of answers."""

    streams: int = 0
    events: int = 0
    bytes_in: int = 0

    def add(self, other: "Carried") -> None:
        self.streams += other.streams
        self.events += other.events
        self.bytes_in += other.bytes_in


@dataclass(slots=True)
class Results:
    """``add`` a finished stream, ``merge`` another part; the order does not matter."""

    started: int = 0
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    details: Counter[tuple[Outcome, str]] = field(default_factory=Counter)
    metrics: dict[Metric, Hdr] = field(default_factory=dict)
    bursts: Hdr = field(default_factory=Hdr)  # largest burst of each stream, in events
    events: int = 0  # output events
    bunched_events: int = 0
    usage_tokens: int = 0
    usage_streams: int = 0  # completed streams whose server counted for them
    tokens: int = 0  # by usage where there is one, else by events
    good: int = 0  # streams that meet every SLO themselves
    left_open: int = 0
    reads: int = 0  # reads that held events
    merged_reads: int = 0  # of them, those that held several
    quality: list[int] = field(default_factory=lambda: [0, 0, 0])
    connections: dict[int, Carried] = field(default_factory=dict)  # what each connection carried
    backends: Counter[str] = field(default_factory=Counter)  # streams by who served them, where the workload names the header
    pairs: Counter[tuple[int, str]] = field(default_factory=Counter)  # streams by connection and backend

    @property
    def ended(self) -> int:
        return self.outcomes.total()

    @property
    def judged(self) -> int:
        """Streams whose end is the target's doing: the denominator of error_rate and goodput."""
        return self.ended - sum(self.outcomes[o] for o in NOT_THE_TARGETS)

    @property
    def error_rate(self) -> float | None:
        return (self.judged - self.outcomes[Outcome.COMPLETED]) / self.judged if self.judged else None

    @property
    def goodput(self) -> float | None:
        return self.good / self.judged if self.judged else None

    def metric(self, metric: Metric) -> Hdr:
        """The metric's histogram, made when first asked for."""
        if metric not in self.metrics:
            self.metrics[metric] = Hdr()
        return self.metrics[metric]

    def add(self, record: StreamRecord, *, good: bool) -> None:
        self.outcomes[record.outcome] += 1
        if record.detail:
            self._count_detail(record.outcome, record.detail, 1)
        self.events += record.output_events
        self.bunched_events += record.bunched_events
        self.tokens += tokens_of(record)
        self.left_open += record.left_open
        self.reads += record.reads
        self.merged_reads += record.merged_reads
        self.good += good
        self.quality = [a + b for a, b in zip(self.quality, record.quality, strict=True)]
        if record.connection >= 0:
            connection = self._carry(record.connection, Carried(1, record.output_events, record.bytes_in))
            if record.backend:
                self.backends[record.backend] += 1
                self.pairs[connection, record.backend] += 1
        if record.output_events:
            self.bursts.record(record.burst_events)
        if record.usage is not None and record.usage.completion_tokens is not None:
            self.usage_tokens += record.usage.completion_tokens
            self.usage_streams += record.outcome is Outcome.COMPLETED

    def _carry(self, connection: int, carried: Carried) -> int:
        """The number it is counted under: beyond so many (one per stream, mostly) new ones are not told apart."""
        if connection not in self.connections and len(self.connections) >= MAX_CONNECTIONS:
            connection = OTHER_CONNECTIONS
        self.connections.setdefault(connection, Carried()).add(carried)
        return connection

    def _count_detail(self, outcome: Outcome, text: str, count: int) -> None:
        """Reasons that carry a request id or a time are all different: beyond so many, new ones are not told apart."""
        key = outcome, text
        if key not in self.details and len(self.details) >= MAX_DETAILS:
            key = outcome, OTHER_DETAIL
        self.details[key] += count

    def merge(self, other: "Results") -> None:
        self.started += other.started
        self.outcomes += other.outcomes
        for (outcome, text), count in other.details.items():
            self._count_detail(outcome, text, count)
        for metric, hdr in other.metrics.items():
            self.metric(metric).add(hdr)
        self.bursts.add(other.bursts)
        counted_as = {connection: self._carry(connection, carried) for connection, carried in other.connections.items()}
        self.backends += other.backends
        for (connection, backend), count in other.pairs.items():
            self.pairs[counted_as[connection], backend] += count
        self.events += other.events
        self.bunched_events += other.bunched_events
        self.usage_tokens += other.usage_tokens
        self.usage_streams += other.usage_streams
        self.tokens += other.tokens
        self.good += other.good
        self.left_open += other.left_open
        self.reads += other.reads
        self.merged_reads += other.merged_reads
        self.quality = [a + b for a, b in zip(self.quality, other.quality, strict=True)]


def values_of(record: StreamRecord) -> dict[Metric, int]:
    """The metrics that one stream has a value for, ITL left out."""
    return {
        metric: value for metric, kind in METRICS.items() if kind.take is not None and (value := kind.take(record)) is not None
    }

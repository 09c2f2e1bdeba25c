"""The arrivals of one stream, event by event: the end of the chain framing -> content -> SSE -> dialect -> timeline.

On the hot path: ``output`` runs for every token event, and only appends and compares ints. Everything that needs the
whole stream (its own percentiles, bunching) is worked out once, in ``fill``.
"""

from array import array
from collections.abc import Callable

from loadgen.model import StampQuality, StreamRecord
from loadgen.record.bunching import describe_gaps

EXACT, BOUNDED, USER = int(StampQuality.EXACT), int(StampQuality.BOUNDED), int(StampQuality.USER)


class Timeline:
    """Arrival stamps of one stream's events, in run-clock ns.

    ``gap`` takes the gap to the previous output event (pooled ITL); ``width`` takes, for a bounded event, how far before
    its stamp it may have arrived.
    """

    __slots__ = (
        "_gap",
        "_width",
        "bounded",
        "events",
        "exact",
        "first_answer_ns",
        "first_event_ns",
        "first_token_ns",
        "heartbeats",
        "last_event_ns",
        "last_token_ns",
        "merged_reads",
        "outputs",
        "reads",
        "user",
    )  # fmt: skip

    def __init__(self, gap: Callable[[int], None], width: Callable[[int], None]) -> None:
        self._gap = gap
        self._width = width
        self.events = 0
        self.heartbeats = 0
        self.reads = 0
        self.merged_reads = 0
        self.outputs = array("q")
        self.first_event_ns: int | None = None
        self.first_token_ns: int | None = None
        self.first_answer_ns: int | None = None
        self.last_token_ns = 0
        self.last_event_ns = 0
        self.exact = self.bounded = self.user = 0

    def read(self, events: int) -> None:
        """A read held so many events."""
        self.reads += 1
        if events > 1:
            self.merged_reads += 1

    def event(self, at_ns: int) -> None:
        """Any event that is no heartbeat."""
        self.events += 1
        self.last_event_ns = at_ns
        if self.first_event_ns is None:
            self.first_event_ns = at_ns

    def output(self, at_ns: int, since_ns: int, quality: int) -> None:
        """An event that carries output; call ``event`` for it too. ``since_ns``: the earliest it can have arrived."""
        self.outputs.append(at_ns)
        if self.first_token_ns is None:
            self.first_token_ns = at_ns
        else:
            self._gap(at_ns - self.last_token_ns)
        if quality == EXACT:
            self.exact += 1
        elif quality == BOUNDED:
            self.bounded += 1
            self._width(at_ns - max(since_ns, self.last_token_ns))
        else:
            self.user += 1
        self.last_token_ns = at_ns

    def fill(self, record: StreamRecord) -> None:
        """Write everything this timeline knows into the stream's record."""
        record.events = self.events
        record.heartbeats = self.heartbeats
        record.reads = self.reads
        record.merged_reads = self.merged_reads
        record.output_events = len(self.outputs)
        record.first_event_ns = self.first_event_ns
        record.first_token_ns = self.first_token_ns
        record.first_answer_ns = self.first_answer_ns
        record.last_token_ns = self.last_token_ns if self.outputs else None
        record.quality = [self.exact, self.bounded, self.user]
        describe_gaps(record, self.outputs)

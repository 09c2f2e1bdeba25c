"""The arrivals of one stream, event by event: the end of the chain framing -> content -> SSE -> dialect -> timeline.

On the hot path: ``output``, or ``Repeat.take``, runs for every token event, and only appends and compares ints. Everything
that needs the whole stream (its own percentiles, bunching) is worked out once, in ``fill``.
"""

from array import array
from collections.abc import Callable

from loadgen.model import StampQuality, StreamRecord
from loadgen.record.bunching import describe_gaps
from loadgen.record.repeat import Repeat, text_edges

EXACT, BOUNDED, USER = int(StampQuality.EXACT), int(StampQuality.BOUNDED), int(StampQuality.USER)


class Timeline:
    """Arrival stamps of one stream's events, in run-clock ns.

    ``gap`` takes the gap to the previous output event (pooled ITL); ``width`` takes, for a bounded event, how far before
    its stamp it may have arrived.
    """

    __slots__ = (
        "_gap", "_others", "_others_last_ns", "_parsed", "_parsed_reads", "_since_ns", "_width", "bounded",
        "first_answer_ns", "first_event_ns", "first_token_ns", "heartbeats", "merged_reads", "outputs", "user",
    )  # fmt: skip

    def __init__(self, gap: Callable[[int], None], width: Callable[[int], None]) -> None:
        self.outputs = array("q")
        self.first_event_ns: int | None = None
        self.first_token_ns: int | None = None
        self.first_answer_ns: int | None = None
        self.heartbeats = 0
        self.merged_reads = 0
        self.bounded = 0
        self.user = 0
        self._gap = gap
        self._width = width
        self._others = 0  # events that carry no output
        self._others_last_ns = 0
        self._parsed = 0  # outputs that came through ``output``; the rest were repeats, each alone in its read
        self._parsed_reads = 0
        self._since_ns = 0  # where the current read begins

    @property
    def events(self) -> int:
        """All events but heartbeats."""
        return self._others + len(self.outputs)

    @property
    def last_event_ns(self) -> int:
        return max(self._others_last_ns, self.outputs[-1] if self.outputs else 0)

    @property
    def exact(self) -> int:
        return len(self.outputs) - self.bounded - self.user

    @property
    def reads(self) -> int:
        """Reads that held events."""
        return self._parsed_reads + len(self.outputs) - self._parsed

    def read(self, events: int, since_ns: int) -> None:
        """A read held so many events; none of them arrived before ``since_ns``."""
        self._parsed_reads += 1
        self._since_ns = max(since_ns, self.outputs[-1]) if self.outputs else since_ns
        if events > 1:
            self.merged_reads += 1

    def other(self, at_ns: int) -> None:
        """An event that is no heartbeat and carries no output."""
        self._others += 1
        self._others_last_ns = at_ns
        if self.first_event_ns is None:
            self.first_event_ns = at_ns

    def output(self, at_ns: int, quality: int) -> None:
        """An event of this read that carries output."""
        outputs = self.outputs
        if self.first_token_ns is None:
            self.first_token_ns = at_ns
            if self.first_event_ns is None:
                self.first_event_ns = at_ns
        else:
            self._gap(at_ns - outputs[-1])
        outputs.append(at_ns)
        self._parsed += 1
        if quality == BOUNDED:
            self.bounded += 1
            self._width(at_ns - self._since_ns)
        elif quality == USER:
            self.user += 1

    def repeated(self, events: int, at_ns: int, since_ns: int) -> None:
        """A read held so many events, and all of them repeat an earlier one: the last one is exact."""
        self.read(events, since_ns)
        for _ in range(events - 1):
            self.output(at_ns, BOUNDED)
        self.output(at_ns, EXACT)

    def repeats_of(self, body: bytes, keys: tuple[bytes, ...]) -> Repeat | None:
        """What takes the events that repeat ``body``, one whole output event already recorded; None: nothing can."""
        edges = text_edges(body, keys)
        if edges is None:
            return None
        begin, end = edges
        return Repeat(body[:begin], body[end:], outputs=self.outputs, gap=self._gap, several=self.repeated)

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
        record.last_token_ns = self.outputs[-1] if self.outputs else None
        record.quality = [self.exact, self.bounded, self.user]
        describe_gaps(record, self.outputs)

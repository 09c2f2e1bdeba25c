"""Stream records for tests: one that went well, and any at all."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from loadgen.clock import NS_PER_MS
from loadgen.model import Outcome, StreamRecord, Usage
from loadgen.record.collector import Collector
from loadgen.record.hlog import HlogWriter
from loadgen.record.recorder import Interval, Recorder
from loadgen.workload.plan import Phase
from loadgen.workload.slo import SloRule

INTENDED_NS = 1_000 * NS_PER_MS


def ms(value: float) -> int:
    return round(value * NS_PER_MS)


def completed(stream: int = 0, *, ttft_ms: float = 250, gap_ms: float = 20, tokens: int = 11, **fields: Any) -> StreamRecord:
    """A stream of ``tokens`` evenly spaced output events, sent 5 ms after it was wanted, usage told by the server."""
    first_ns = INTENDED_NS + ms(ttft_ms)
    last_ns = first_ns + (tokens - 1) * ms(gap_ms)
    values: dict[str, Any] = {
        "stream": stream,
        "phase": 0,
        "intended_ns": INTENDED_NS,
        "outcome": Outcome.COMPLETED,
        "started_ns": INTENDED_NS + ms(1),
        "slot_ns": INTENDED_NS + ms(1),
        "connection_ns": INTENDED_NS + ms(4),
        "connect_start_ns": INTENDED_NS + ms(1),
        "connect_ns": INTENDED_NS + ms(2),
        "tls_ns": INTENDED_NS + ms(4),
        "sent_ns": INTENDED_NS + ms(5),
        "head_ns": INTENDED_NS + ms(30),
        "first_byte_ns": first_ns - ms(10),
        "first_event_ns": first_ns - ms(10),
        "first_token_ns": first_ns,
        "first_answer_ns": first_ns,
        "last_token_ns": last_ns,
        "end_ns": last_ns + ms(1),
        "status": 200,
        "events": tokens + 2,
        "output_events": tokens,
        "bytes_in": 200 * tokens,
        "usage": Usage(prompt_tokens=7, completion_tokens=tokens),
        "finish_reason": "stop",
        "stall_ns": ms(gap_ms),
        "itl_p50_ns": ms(gap_ms),
        "itl_p99_ns": ms(gap_ms),
        "burst_events": 1,
        "quality": [tokens, 0, 0],
    }
    return StreamRecord(**(values | fields))


def failed(stream: int = 0, outcome: Outcome = Outcome.CONNECT_ERROR, detail: str = "refused", **fields: Any) -> StreamRecord:
    """A stream that ended before anything came."""
    end_ns = INTENDED_NS + ms(3)
    return StreamRecord(
        **(
            {
                "stream": stream,
                "phase": 0,
                "intended_ns": INTENDED_NS,
                "end_ns": end_ns,
                "outcome": outcome,
                "detail": detail,
            }
            | fields
        )
    )


_stamps = st.none() | st.integers(INTENDED_NS, INTENDED_NS + 10**11)
_counts = st.integers(0, 1000)

any_record = st.builds(
    StreamRecord,
    stream=_counts,
    phase=st.integers(0, 2),
    intended_ns=st.integers(0, INTENDED_NS),
    variant=st.sampled_from(["", "nginx"]),
    request=_counts,
    outcome=st.sampled_from(list(Outcome)),
    detail=st.text(max_size=8),
    measured=st.booleans(),
    started_ns=_stamps,
    slot_ns=_stamps,
    connection_ns=_stamps,
    connect_start_ns=_stamps,
    connect_ns=_stamps,
    tls_ns=_stamps,
    sent_ns=_stamps,
    head_ns=_stamps,
    first_byte_ns=_stamps,
    first_event_ns=_stamps,
    first_token_ns=_stamps,
    first_answer_ns=_stamps,
    last_token_ns=_stamps,
    end_ns=st.integers(INTENDED_NS, INTENDED_NS + 10**11),
    status=st.none() | st.integers(100, 599),
    events=_counts,
    output_events=_counts,
    heartbeats=_counts,
    bytes_in=_counts,
    usage=st.none() | st.builds(Usage, prompt_tokens=st.none() | _counts, completion_tokens=st.none() | _counts),
    finish_reason=st.text(max_size=4),
    stall_ns=st.none() | _counts,
    itl_p50_ns=st.none() | _counts,
    itl_p99_ns=st.none() | _counts,
    bunched_events=_counts,
    burst_events=_counts,
    quality=st.lists(_counts, min_size=3, max_size=3),
    reused=st.booleans(),
    connection=st.integers(-1, 5),
    left_open=st.booleans(),
    retried=st.booleans(),
    backend=st.sampled_from(["", "b-1"]),
)
"""A record with any values whatever, for laws that hold for all of them."""


class LiveRecorder(Recorder):
    """A recorder with the collector of a run in one process."""

    def __init__(self, phases: Sequence[Phase], slo: Sequence[SloRule], begin_ns: int, hlog: HlogWriter | None = None) -> None:
        super().__init__(phases, begin_ns, hlog)
        self.collector = Collector(phases, slo, begin_ns)

    def live(self, record: StreamRecord, gaps_ns: Sequence[int] = ()) -> None:
        """The stream starts, brings these gaps, and ends."""
        self.collector.stream_started(record)
        for gap in gaps_ns:
            self.collector.itl_sink(record.phase)(gap)
        self.collector.stream_ended(record)

    def flush(self, now_ns: int, *, open_streams: int) -> Interval:
        return self.apply(self.collector.take(now_ns, open_streams=open_streams))

"""Do tokens arrive one by one, or in bursts? Worked out from one stream's own arrivals.

An output event belongs to a burst when it came less than 1 ms after the one before it although the stream's own pace
((last - first) / (n - 1)) is at least four times slower than that gap. A stream whose output came all within 1 ms after a
wait at least ten times as long is one burst: a response held back to its end has no pace of its own to compare with.
"""

import math
from array import array
from typing import Final

import numpy as np

from loadgen.clock import NS_PER_MS
from loadgen.model import StreamRecord

BURST_GAP_NS: Final = 1 * NS_PER_MS
PACE_FACTOR: Final = 4
WAIT_FACTOR: Final = 10


def find_bursts(outputs: "array[int]", sent_ns: int | None) -> list[int]:
    """Sizes of the bursts (at least two events each) among output stamps in ns, in order."""
    n = len(outputs)
    if n < 2:
        return []
    stamps = np.frombuffer(outputs, dtype=np.int64)
    span_ns = int(stamps[-1] - stamps[0])
    if n > 2 and span_ns < BURST_GAP_NS and sent_ns is not None:
        return [n] if stamps[0] - sent_ns > WAIT_FACTOR * max(span_ns, BURST_GAP_NS) else []
    gaps = np.diff(stamps)
    if gaps.min() >= BURST_GAP_NS:
        return []
    joined = (gaps < BURST_GAP_NS) & (gaps * PACE_FACTOR * (n - 1) < span_ns)
    edges = np.flatnonzero(np.diff(np.concatenate(([0], joined.astype(np.int8), [0]))))
    starts, ends = edges[::2], edges[1::2]
    return [int(size) for size in ends - starts + 1]


def describe_gaps(record: StreamRecord, outputs: "array[int]") -> None:
    """Fill the record's own ITL figures and its bunching from its output stamps."""
    if len(outputs) >= 2:
        gaps = np.sort(np.diff(np.frombuffer(outputs, dtype=np.int64)))
        record.stall_ns = int(gaps[-1])
        record.itl_p50_ns = int(gaps[math.ceil(0.5 * len(gaps)) - 1])
        record.itl_p99_ns = int(gaps[math.ceil(0.99 * len(gaps)) - 1])
    bursts = find_bursts(outputs, record.sent_ns)
    record.bunched_events = sum(bursts)
    record.burst_events = max(bursts, default=1 if outputs else 0)

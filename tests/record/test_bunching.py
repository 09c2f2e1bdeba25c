"""Streams that come in bursts, and streams that are only fast."""

from array import array
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.model import StreamRecord
from loadgen.record.bunching import describe_gaps, find_bursts
from tests.support.records import ms

SENT_NS = 10**12


def stamps(first_ms: float, *gaps_ms: float) -> "array[int]":
    return array("q", [SENT_NS + ms(at) for at in accumulate((first_ms, *gaps_ms))])


def bursts(first_ms: float, *gaps_ms: float) -> list[int]:
    return find_bursts(stamps(first_ms, *gaps_ms), SENT_NS)


def test_an_even_stream_has_none() -> None:
    assert bursts(200, *[20] * 50) == []


def test_a_fast_even_stream_has_none() -> None:
    """2,000 tokens/s: every gap is below 1 ms, but that is the stream's own pace."""
    assert bursts(200, *[0.5] * 99) == []


def test_a_proxy_that_flushes_every_eighth_token() -> None:
    assert bursts(200, *([0] * 7 + [160]) * 5) == [8] * 5


def test_events_close_together_need_no_equal_stamps() -> None:
    assert bursts(200, 20, 20, 0.3, 20, 20) == [2]


def test_a_response_held_back_to_its_end() -> None:
    assert bursts(4_000, *[0] * 199) == [200]
    assert bursts(4_000, *[0.002] * 199) == [200]


def test_a_response_that_was_quick_as_a_whole_is_not_held_back() -> None:
    """Everything in one read, but soon after the request: there was no time in which tokens could have come."""
    assert bursts(2, *[0] * 9) == []


def test_two_bursts_of_one_response() -> None:
    assert bursts(1_000, *[0] * 99, 1_000, *[0] * 99) == [100, 100]


def test_a_burst_at_the_start_and_at_the_end() -> None:
    assert bursts(200, 0, 0, 20, 20, 20, 0) == [3, 2]


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_events_to_be_bunched(count: int) -> None:
    assert find_bursts(array("q", [SENT_NS] * count), SENT_NS) == []


@given(st.lists(st.integers(0, 50_000_000), min_size=1, max_size=60), st.integers(0, 10**9) | st.none())
def test_bursts_are_disjoint_runs_of_close_events(gaps: list[int], wait_ns: int | None) -> None:
    outputs = array("q", accumulate(gaps, initial=SENT_NS))
    found = find_bursts(outputs, None if wait_ns is None else SENT_NS - wait_ns)
    assert all(size >= 2 for size in found)
    assert sum(found) <= len(outputs)
    assert sum(size - 1 for size in found) <= sum(gap < 1_000_000 for gap in gaps)


def record_of(outputs: "array[int]") -> StreamRecord:
    record = StreamRecord(stream=0, phase=0, intended_ns=SENT_NS, sent_ns=SENT_NS)
    describe_gaps(record, outputs)
    return record


def test_a_record_learns_its_own_gaps() -> None:
    outputs = stamps(200, *[20] * 98, 500, 0)
    record = record_of(outputs)
    assert (record.itl_p50_ns, record.itl_p99_ns, record.stall_ns) == (ms(20), ms(20), ms(500))
    assert (record.bunched_events, record.burst_events) == (2, 2)
    outputs.append(1)  # BufferError if the stamps were still held


def test_without_gaps_there_are_no_gap_figures() -> None:
    for outputs in (stamps(200), array("q")):
        record = record_of(outputs)
        assert (record.itl_p50_ns, record.itl_p99_ns, record.stall_ns, record.bunched_events) == (None, None, None, 0)


def test_an_even_streams_largest_burst_is_one_event() -> None:
    assert record_of(stamps(200, 20, 20)).burst_events == 1
    assert record_of(array("q")).burst_events == 0

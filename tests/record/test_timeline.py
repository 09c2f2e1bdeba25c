"""One stream's arrivals: what is counted, what goes to the sinks, what ends in the record."""

from array import array

from loadgen.model import StreamRecord
from loadgen.record.timeline import BOUNDED, EXACT, USER, Timeline
from tests.support.records import ms

SENT_NS = 10**12


def filled(timeline: Timeline) -> StreamRecord:
    record = StreamRecord(stream=0, phase=0, intended_ns=SENT_NS, sent_ns=SENT_NS)
    timeline.fill(record)
    return record


def at(offset_ms: float) -> int:
    return SENT_NS + ms(offset_ms)


def test_gaps_lie_between_output_events_only() -> None:
    gaps, widths = array("q"), array("q")
    timeline = Timeline(gaps.append, widths.append)
    timeline.other(at(100))  # a role, no token
    for moment in (250, 270, 300):
        timeline.read(1, at(moment - 5))
        timeline.output(at(moment), EXACT)
    timeline.other(at(301))  # usage
    record = filled(timeline)
    assert list(gaps) == [ms(20), ms(30)]
    assert not widths
    assert (record.first_event_ns, record.first_token_ns, record.last_token_ns) == (at(100), at(250), at(300))
    assert (record.events, record.output_events, record.quality) == (5, 3, [3, 0, 0])
    assert (record.stall_ns, record.itl_p50_ns) == (ms(30), ms(20))


def test_a_bounded_event_says_since_when_it_may_have_been_there() -> None:
    widths = array("q")
    timeline = Timeline(array("q").append, widths.append)
    timeline.read(3, at(240))
    timeline.output(at(250), BOUNDED)
    timeline.output(at(250), BOUNDED)
    timeline.output(at(250), EXACT)
    timeline.read(2, at(220))  # polled last before the last stamp: what is new came after that
    timeline.output(at(280), BOUNDED)
    timeline.output(at(280), USER)
    assert list(widths) == [ms(10), ms(10), ms(30)]
    record = filled(timeline)
    assert (record.quality, record.reads, record.merged_reads) == ([1, 3, 1], 2, 2)


def test_a_stream_without_output_leaves_its_stamps_empty() -> None:
    timeline = Timeline(array("q").append, array("q").append)
    record = filled(timeline)
    assert (record.first_event_ns, record.first_token_ns, record.last_token_ns) == (None, None, None)
    assert (record.output_events, record.stall_ns, record.bunched_events) == (0, None, 0)

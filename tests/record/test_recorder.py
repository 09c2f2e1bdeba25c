"""Streams and gaps in, results and intervals out; shards merge to the whole."""

import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.clock import NS_PER_S
from loadgen.model import Metric, Outcome, StreamRecord
from loadgen.record.collector import Collector
from loadgen.record.hlog import HlogWriter, read_hlog
from loadgen.record.recorder import Recorder
from loadgen.record.results import Results
from loadgen.workload.plan import Phase, PhaseKind
from loadgen.workload.slo import parse_slo
from tests.support.records import LiveRecorder, any_record, completed, failed, ms

BEGIN_NS = 5 * NS_PER_S
PHASES = [
    Phase(index=i, kind=kind, duration_ns=10 * NS_PER_S, streams_from=5, streams_to=5)
    for i, kind in enumerate([PhaseKind.WARMUP, PhaseKind.HOLD, PhaseKind.RAMP])
]
WARMUP, HOLD, RAMP = range(3)
RULE = parse_slo("ttft p99 < 300ms")


def recorder_with(hlog: HlogWriter | None = None) -> LiveRecorder:
    return LiveRecorder(PHASES, [RULE], BEGIN_NS, hlog)


def live(recorder: LiveRecorder, *records: StreamRecord, gaps_ms: tuple[float, ...] = ()) -> None:
    """Each stream starts, brings these gaps, and ends."""
    for record in records:
        recorder.live(record, [ms(gap) for gap in gaps_ms])


def test_measured_phases_fill_the_metrics_and_warm_up_only_counts() -> None:
    recorder = recorder_with()
    live(recorder, completed(0, phase=WARMUP, measured=False, ttft_ms=9_000), gaps_ms=(900, 900))
    live(recorder, completed(1, phase=HOLD, ttft_ms=200), completed(2, phase=RAMP, ttft_ms=400), gaps_ms=(20, 30))
    recorder.flush(BEGIN_NS + NS_PER_S, open_streams=0)
    measured = recorder.measured()
    assert (measured.metrics[Metric.TTFT].min, measured.metrics[Metric.TTFT].max) == (ms(200), ms(400))
    assert (measured.metrics[Metric.ITL].count, measured.metrics[Metric.ITL].max) == (4, ms(30))
    assert (measured.started, recorder.everything().started) == (2, 3)
    assert recorder.everything().outcomes == {Outcome.COMPLETED: 3}
    assert measured.good == 1
    assert [phase.started for phase in recorder.phases] == [1, 1, 1]
    assert not any(hdr.count for hdr in recorder.phases[WARMUP].metrics.values())


def test_an_interval_tells_what_happened_since_the_last() -> None:
    recorder = recorder_with()
    live(recorder, completed(0, phase=HOLD, tokens=3), failed(1, phase=HOLD), gaps_ms=(20, 20))
    first = recorder.flush(BEGIN_NS + NS_PER_S, open_streams=7)
    second = recorder.flush(BEGIN_NS + 2 * NS_PER_S + ms(4), open_streams=6)
    assert (first.start_s, first.length_s, first.open, first.started) == (0.0, 1.0, 7, 2)
    assert first.outcomes == {Outcome.COMPLETED: 1, Outcome.CONNECT_ERROR: 1}
    assert (first.ttft_p50_ms, first.ttft_p99_ms, first.itl_p50_ms, first.itl_p99_ms) == (250, 250, 20, 20)
    assert (second.start_s, second.length_s, second.open, second.started) == (1.0, 1.004, 6, 0)
    assert not second.outcomes
    assert (second.output_events, second.ttft_p50_ms, second.itl_p99_ms) == (0, None, None)
    assert recorder.intervals == [first, second]


def test_the_output_events_of_all_intervals_are_those_of_all_streams() -> None:
    recorder = recorder_with()
    for stream, tokens in enumerate([1, 4, 2]):
        live(recorder, completed(stream, phase=HOLD, tokens=tokens), gaps_ms=(20,) * (tokens - 1))
        recorder.flush(BEGIN_NS + (stream + 1) * NS_PER_S, open_streams=0)
    assert sum(interval.output_events for interval in recorder.intervals) == 7 == recorder.measured().events


def test_a_sink_stays_good_across_flushes() -> None:
    """Streams live longer than a second and keep the sink they were given."""
    recorder = recorder_with()
    sink = recorder.collector.itl_sink(HOLD)
    for second in range(1, 4):
        sink(ms(20))
        recorder.flush(BEGIN_NS + second * NS_PER_S, open_streams=1)
    assert recorder.measured().metrics[Metric.ITL].count == 3


def test_intervals_are_logged_live_and_add_up_to_the_results(tmp_path: Path) -> None:
    path = tmp_path / "histograms.hlog"
    with path.open("w", encoding="utf-8") as file:
        recorder = recorder_with(HlogWriter(file, BEGIN_NS))
        for second in range(1, 4):
            live(recorder, completed(second, phase=HOLD, ttft_ms=100 * second), gaps_ms=(20, 30))
            live(recorder, completed(9, phase=WARMUP, measured=False))
            recorder.flush(BEGIN_NS + second * NS_PER_S, open_streams=0)
            assert read_hlog(path)["ttft"].count == second
    logged = read_hlog(path)
    results = {metric: hdr for metric, hdr in recorder.measured().metrics.items() if hdr.count}
    assert logged.keys() == results.keys()
    assert all(logged[metric].counts.tolist() == hdr.counts.tolist() for metric, hdr in results.items())
    assert "Tag=itl,2.000,1.000,30.000,HIST" in path.read_text(encoding="utf-8")


def state(results: Results) -> list[object]:
    plain = [getattr(results, f) for f in results.__dataclass_fields__ if f not in {"metrics", "bursts"}]
    filled = {metric: hdr for metric, hdr in results.metrics.items() if hdr.count} | {"bursts": results.bursts}
    return [*plain, {m: (h.counts.tobytes(), h.count, h.total, h.min, h.max, h.clamped) for m, h in filled.items()}]


shards = st.lists(
    st.tuples(any_record, st.lists(st.integers(0, 10**9), max_size=3), st.integers(0, 1), st.booleans()), max_size=6
)


@settings(max_examples=30, deadline=None)
@given(shards)
def test_records_split_over_two_processes_merge_to_those_of_one(
    streams: list[tuple[StreamRecord, list[int], int, bool]],
) -> None:
    """Batches travel between processes, and are merged interval by interval."""
    one, whole = recorder_with(), recorder_with()
    two = [Collector(PHASES, [RULE], BEGIN_NS) for _ in range(2)]

    def flush(second: int) -> None:
        one.flush(BEGIN_NS + second * NS_PER_S, open_streams=4)
        first, other = (pickle.loads(pickle.dumps(c.take(BEGIN_NS + second * NS_PER_S, open_streams=2))) for c in two)
        first.merge(other)
        whole.apply(first)

    for second, (record, gaps, shard, flushed) in enumerate(streams, 1):
        live(one, record, gaps_ms=tuple(gap / 1e6 for gap in gaps))
        two[shard].stream_started(record)
        for gap in gaps:
            two[shard].itl_sink(record.phase)(ms(gap / 1e6))
        two[shard].stream_ended(record)
        if flushed:
            flush(second)
    flush(len(streams) + 1)
    for select in (Recorder.measured, Recorder.everything):
        assert state(select(whole)) == state(select(one))
    assert whole.intervals == one.intervals
    assert one.everything().started == one.everything().ended


def test_flushing_nothing_is_harmless() -> None:
    interval = recorder_with().flush(BEGIN_NS, open_streams=0)
    assert (interval.length_s, interval.output_events) == (0.0, 0)


@pytest.mark.parametrize("phase", [HOLD, RAMP])
def test_phases_keep_their_own_results(phase: int) -> None:
    recorder = recorder_with()
    live(recorder, completed(0, phase=phase), gaps_ms=(20,))
    recorder.flush(BEGIN_NS + NS_PER_S, open_streams=0)
    assert [results.ended for results in recorder.phases] == [int(i == phase) for i in range(3)]
    assert recorder.phases[phase].metrics[Metric.ITL].count == 1

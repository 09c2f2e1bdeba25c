"""Virtual time: what was measured is what was sent, to the nanosecond."""

from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.model import Metric, Outcome
from tests.support.virtual import MS, run_virtual


def test_ttft_and_itl_are_exact() -> None:
    run = run_virtual(
        "load: [{warmup: 1s, streams: 50}, {hold: 5s, streams: 50}]\nrequests: [{max_tokens: 20}]",
        sim={"ttft": "250ms", "itl": "20ms"},
    )
    measured = [r for r in run.records if r.measured]
    assert len(measured) == 400
    for record in measured:
        assert record.outcome is Outcome.COMPLETED
        assert record.first_token_ns is not None
        assert record.first_token_ns - record.intended_ns == 250 * MS
        assert record.end_ns - record.intended_ns == (250 + 19 * 20) * MS
        assert (record.itl_p50_ns, record.itl_p99_ns, record.stall_ns) == (20 * MS, 20 * MS, 20 * MS)
    metrics = run.summary["metrics"]
    assert {metrics["ttft"][p] for p in ("min_ms", "p50_ms", "p99_ms", "max_ms")} == {250.0}
    assert {metrics["itl"][p] for p in ("min_ms", "p50_ms", "p99_ms", "max_ms")} == {20.0}
    assert metrics["itl"]["count"] == 400 * 19


def test_every_stamp_equals_the_servers_log() -> None:
    """A jittered, batched engine: each record's stamps against the moments at which the server sent."""
    run = run_virtual(
        "load: [{hold: 3s, streams: 12}]\nrequests: [{max_tokens: {uniform: [1, 30]}, prompt: {characters: 400}}]",
        sim={"prefill": {"base": "80ms", "per_token": "100us"}, "decode": {"step": "15ms", "per_stream": "200us"},
             "jitter": "30%", "role_first": "5ms"},
    )  # fmt: skip
    assert run.server is not None
    sent = sorted((job.sent_ns[0], job.sent_ns[-1], len(job.sent_ns)) for job in run.server.log)
    seen = sorted((r.first_token_ns, r.last_token_ns, r.output_events) for r in run.records)
    assert seen == sent
    gaps = sorted(b - a for job in run.server.log for a, b in zip(job.sent_ns, job.sent_ns[1:], strict=False))
    itl = run.recorder.measured().metrics[Metric.ITL]
    assert (itl.count, itl.total, itl.max) == (len(gaps), sum(gaps), gaps[-1])


def test_streams_of_the_warm_up_are_in_no_metric() -> None:
    run = run_virtual(
        "load: [{warmup: 1s, streams: 5}, {hold: 1s, streams: 5}]\nrequests: [{max_tokens: 3}]",
        sim={"ttft": "100ms", "itl": "50ms"},
    )
    assert {r.phase for r in run.records} == {0, 1}
    measured = [r for r in run.records if r.phase == 1]
    assert run.summary["metrics"]["ttft"]["count"] == run.summary["streams"]["started"] == len(measured)


@settings(max_examples=25, deadline=None)
@given(
    streams=st.integers(1, 12),
    tokens=st.integers(1, 9),
    limit=st.none() | st.integers(1, 12),
    when_full=st.sampled_from(["queue", "drop"]),
    connections=st.just("per-stream") | st.integers(1, 4),
    fault=st.sampled_from(["error_object", "error_event", "cut_in_chunk", "cut_clean", "no_done", "stall", "status", "html"]),
    share=st.sampled_from([0.0, 0.3, 1.0]),
    after=st.integers(0, 4),
    seed=st.integers(0, 5),
)  # fmt: skip
def test_every_stream_is_one_record_with_one_outcome(
    streams: int, tokens: int, limit: int | None, when_full: str, connections: object, fault: str, share: float,
    after: int, seed: int,
) -> None:  # fmt: skip
    moment = {} if fault in {"no_done", "status", "html"} else {"after": after}
    limit_line = "" if limit is None else f"limit: {{streams: {limit}, when_full: {when_full}}}\n"
    run = run_virtual(
        f"load: [{{ramp: 500ms, streams: [1, {streams}]}}, {{hold: 500ms, streams: {streams}}}]\n"
        f"requests: [{{max_tokens: {tokens}}}]\n{limit_line}transport: {{connections: {connections}}}\n"
        "timeouts: {idle: 300ms, first_token: 400ms}\ndrain: 200ms\n",
        sim={"ttft": "60ms", "itl": "20ms", "seed": seed, "faults": [{"share": share, "kind": fault, **moment}]},
    )
    everything = run.recorder.everything()
    assert everything.started == everything.outcomes.total() == len(run.records)
    assert len({r.stream for r in run.records}) == len(run.records)
    assert run.server is not None
    assert run.server.max_open <= min(streams, limit or streams)
    assert run.server.scheduler.open == 0  # whoever left was noticed
    for r in run.records:
        stamps = [r.intended_ns, r.started_ns, r.slot_ns, r.connection_ns, r.sent_ns, r.head_ns, r.first_event_ns,
                  r.first_token_ns, r.last_token_ns, r.end_ns]  # fmt: skip
        known = [s for s in stamps if s is not None]
        assert known == sorted(known)
        assert sum(r.quality) == r.output_events
    if share == 0 and limit is None and connections == "per-stream":
        assert set(everything.outcomes) <= {Outcome.COMPLETED, Outcome.CUT}

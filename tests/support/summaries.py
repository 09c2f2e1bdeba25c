"""Summaries as runs write them, from records and rules, and with hostile words in them."""

from typing import Any

from loadgen.clock import NS_PER_S
from loadgen.model import StreamRecord
from loadgen.record.health import GeneratorHealth
from loadgen.record.summary import build_summary
from loadgen.workload.plan import Phase, PhaseKind
from loadgen.workload.slo import parse_slo
from tests.support.records import LiveRecorder, completed, failed, ms

PHASES = [Phase(index=0, kind=PhaseKind.HOLD, duration_ns=10 * NS_PER_S, streams_from=4, streams_to=4)]
SLOW = "ttft p99 < 100ms"
KEPT = "itl p50 <= 60ms"
ERRORS = "error_rate < 1%"
# What a peer, a workload's name or a URL may hold: markup of every kind, and characters that XML does not have.
HOSTILE = 'a & b <script>alert(1)</script> | `x` [l](http://e) ]]> "q" \x00\x1b[31m \ud800 \uffff\nnext *b* \\ é'


def summary_of(*slo: str, records: tuple[StreamRecord, ...] | None = None, **changes: Any) -> dict[str, Any]:
    """Of ten completed streams with TTFT 250 ms, ITL 20 ms, and one that was refused, unless ``records`` says otherwise."""
    rules = [parse_slo(text) for text in slo]
    recorder = LiveRecorder(PHASES, rules, 0)
    for record in records if records is not None else (*(completed(i) for i in range(10)), failed(10)):
        recorder.live(record, [ms(20)] * max(record.output_events - 1, 0))
    recorder.flush(10 * NS_PER_S, open_streams=0)
    facts: dict[str, Any] = {
        "name": "release-gate",
        "started_wall_ns": 1_754_470_000_123_000_000,
        "duration_ns": 10 * NS_PER_S,
        "output_events_per_s": recorder.measured().events / 10,
        "phases": PHASES,
        "phase_results": recorder.phases,
        "measured": recorder.measured(),
        "everything": recorder.everything(),
        "health": GeneratorHealth(concurrency_asked=4, concurrency_mean_asked=4.0, concurrency_mean=3.9, concurrency_max=4),
        "slo": rules,
        "interrupted": False,
        "unreachable": "",
    }
    return build_summary(**(facts | changes))

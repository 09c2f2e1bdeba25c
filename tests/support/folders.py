"""Run folders written by the program's own writers, from values that a test knows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from loadgen.clock import NS_PER_S
from loadgen.model import Outcome, StreamRecord
from loadgen.record.hlog import HlogWriter
from loadgen.record.journal import Journal, start_journal
from loadgen.report.files import build_manifest, write_intervals, write_json
from loadgen.workload.slo import parse_slo
from tests.support.records import INTENDED_NS, LiveRecorder, completed, failed, ms
from tests.support.summaries import PHASES, summary_of
from tests.support.workloads import workload

WORKLOAD = """\
loadgen: 1
name: chat
target: {url: http://127.0.0.1:8000/v1/chat/completions}
load: [{hold: 10s, streams: 4}]
slo: ["ttft p99 < 1s"]
"""


def write_run(
    folder: Path,
    *overrides: str,
    ttfts_ms: Sequence[float] = (),
    gap_ms: float = 20,
    failures: int = 0,
    seconds: int = 20,
    tokens: int = 21,
    seed: int = 0,
    verdict: dict[str, Any] | None = None,
) -> Path:
    """A run of one stream per TTFT and ``failures`` resets; gaps spread by 5 % around ``gap_ms``.

    ``overrides`` are of the workload, as of --set; ``verdict`` changes keys of the summary.
    """
    folder.mkdir()
    rng = np.random.default_rng(seed)
    rules = [parse_slo("ttft p99 < 1s")]
    start_journal(folder / "journal.jsonl", {"name": "chat"})
    with (folder / "histograms.hlog").open("w") as file, Journal(folder / "journal.jsonl") as journal:
        recorder = LiveRecorder(PHASES, rules, 0, HlogWriter(file, 0))
        streams = [*((ttft, Outcome.COMPLETED) for ttft in ttfts_ms), *((0, Outcome.RESET) for _ in range(failures))]
        for number, share in enumerate(np.array_split(np.arange(len(streams)), seconds), 1):
            for index in share:
                record, gaps = _stream(int(index), *streams[index], gap_ms=gap_ms, tokens=tokens, rng=rng)
                recorder.live(record, gaps)
                journal.write(record)
            recorder.flush(number * NS_PER_S, open_streams=4)
    loaded = workload(WORKLOAD, *overrides)
    write_json(folder / "manifest.json", build_manifest(loaded.masked, seed=0, version="0", started_at="2026-01-01T00:00:00"))
    facts = {"measured": recorder.measured(), "output_events_per_s": recorder.output_events_per_s()}
    write_json(folder / "summary.json", summary_of("ttft p99 < 1s", **facts) | (verdict or {}))
    write_intervals(folder / "intervals.csv", recorder.intervals)
    return folder


def _stream(
    index: int, ttft_ms: float, outcome: Outcome, *, gap_ms: float, tokens: int, rng: np.random.Generator
) -> tuple[StreamRecord, list[int]]:
    if outcome is not Outcome.COMPLETED:
        return failed(index, outcome, "reset by peer"), []
    gaps = [int(gap) for gap in rng.normal(ms(gap_ms), ms(gap_ms) * 0.05, tokens - 1)]
    first_ns = INTENDED_NS + ms(ttft_ms)
    last_ns = first_ns + sum(gaps)
    ordered = sorted(gaps)
    return completed(
        index, ttft_ms=ttft_ms, tokens=tokens, last_token_ns=last_ns, end_ns=last_ns, stall_ns=ordered[-1],
        itl_p50_ns=ordered[len(gaps) // 2], itl_p99_ns=ordered[-1],
    ), gaps  # fmt: skip

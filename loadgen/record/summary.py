"""summary.json: the contract with everybody who reads results by program (``loadgen.summary/1``)."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from loadgen.clock import NS_PER_MS, NS_PER_S
from loadgen.model import Metric, Outcome
from loadgen.record.hdr import Hdr
from loadgen.record.health import GeneratorHealth
from loadgen.record.metrics import METRICS, QUANTILES
from loadgen.record.results import Results
from loadgen.record.sharing import describe_backends, describe_connections
from loadgen.record.slo import evaluate
from loadgen.record.verdict import Exit, decide
from loadgen.workload.plan import Phase
from loadgen.workload.slo import SloRule

SCHEMA: Final = "loadgen.summary/1"
DETAILS_SHOWN: Final = 10
# A share of output events in bursts that no healthy stream of one token per event shows.
SUSPECT_SHARE: Final = 0.2


def build_summary(
    *,
    name: str,
    started_wall_ns: int,
    duration_ns: int,
    output_events_per_s: float,
    phases: Sequence[Phase],
    phase_results: Sequence[Results],
    measured: Results,
    everything: Results,
    health: GeneratorHealth,
    slo: Sequence[SloRule],
    interrupted: bool,
    unreachable: str,
) -> dict[str, Any]:
    """The whole summary."""
    rules = evaluate(slo, measured)
    generator = health.summary(measured)
    verdict = decide(
        results=measured, interrupted=interrupted, unreachable=unreachable, invalid=generator["reasons"], slo=rules
    )
    return {
        "schema": SCHEMA,
        "name": name,
        "verdict": verdict.word,
        "verdict_reason": verdict.reason,
        "exit_code": int(verdict.exit_code),
        "started_at": datetime.fromtimestamp(started_wall_ns / NS_PER_S, tz=UTC).isoformat(timespec="milliseconds"),
        "duration_s": duration_ns / NS_PER_S,
        "streams": {
            "started": measured.started,
            "outcomes": _outcomes(measured),
            "warmup": {"started": everything.started - measured.started},
            "error_rate": measured.error_rate,
            "goodput": measured.goodput,
            "left_open": measured.left_open,
            "details": _details(measured),
        },
        "concurrency": {
            "asked": health.concurrency_asked,
            "mean": health.concurrency_mean,
            "max": health.concurrency_max,
            "mean_asked": health.concurrency_mean_asked,
        },
        "tokens": _tokens(measured, output_events_per_s),
        "metrics": {
            metric: {**describe(measured.metrics.get(metric)), "meaning": METRICS[metric].meaning} for metric in Metric
        },
        "bunching": _bunching(measured),
        "connections": describe_connections(measured),
        "backends": describe_backends(measured),
        "generator": generator,
        "slo": rules,
        "capacity": None,
        "phases": [_phase(p, r) for p, r in zip(phases, phase_results, strict=True)],
        "variants": {},
    }


# The first of these that some variant has is the verdict of all.
_GRAVEST: Final = (Exit.INTERRUPTED, Exit.NOTHING_MEASURED, Exit.INVALID, Exit.SLO_FAILED, Exit.OK)


def merge_variants(name: str, variants: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The summary of a run with variants: that of the first one on top, with the verdict, the SLOs and the streams of all."""
    first = next(iter(variants.values()))
    gravest = next(code for code in _GRAVEST if any(told["exit_code"] == code for told in variants.values()))
    judged = next(told for told in variants.values() if told["exit_code"] == gravest)
    reasons = [f"{variant}: {told['verdict_reason']}" for variant, told in variants.items() if told["exit_code"] == gravest]
    outcomes: Counter[str] = Counter()
    for told in variants.values():
        outcomes.update(told["streams"]["outcomes"])
    return {
        **first,
        "name": name,
        "verdict": judged["verdict"],
        "exit_code": int(gravest),
        "verdict_reason": "; ".join(reasons),
        "duration_s": sum(told["duration_s"] for told in variants.values()),
        "streams": {
            **first["streams"],
            "started": sum(told["streams"]["started"] for told in variants.values()),
            "outcomes": dict(outcomes),
            "details": [
                {**detail, "detail": f"{variant}: {detail['detail']}"}
                for variant, told in variants.items()
                for detail in told["streams"]["details"]
            ][:DETAILS_SHOWN],
        },
        "slo": [{**rule, "variant": variant} for variant, told in variants.items() for rule in told["slo"]],
        "variants": variants,
    }


def describe(hdr: Hdr | None) -> dict[str, Any]:
    """One metric: percentiles in ms. Without samples only ``"count": 0``: an absent latency is not a latency of zero."""
    if hdr is None or not hdr.count:
        return {"count": 0}
    values = dict(zip(QUANTILES, hdr.percentiles(QUANTILES.values()), strict=True))
    return {
        "count": hdr.count,
        "mean_ms": hdr.mean / NS_PER_MS,
        "min_ms": hdr.min / NS_PER_MS,
        **{name: value / NS_PER_MS for name, value in values.items()},
        "max_ms": hdr.max / NS_PER_MS,
        "clamped": hdr.clamped,
    }


def _outcomes(results: Results) -> dict[str, int]:
    """Outcomes that occurred, in the order of their definition; completed always."""
    return {o: n for o in Outcome if (n := results.outcomes[o]) or o is Outcome.COMPLETED}


def _details(results: Results) -> list[dict[str, Any]]:
    """The most frequent reasons in words."""
    return [
        {"outcome": outcome, "detail": detail, "count": count}
        for (outcome, detail), count in results.details.most_common(DETAILS_SHOWN)
    ]


def _tokens(results: Results, output_events_per_s: float) -> dict[str, Any]:
    """The rate is of arrivals during the measured phases, scaled by tokens per event where the server counts tokens."""
    completed = results.outcomes[Outcome.COMPLETED]
    by_usage = completed > 0 and results.usage_streams == completed and results.events > 0
    return {
        "events": results.events,
        "usage": results.usage_tokens,
        "per_s": output_events_per_s * (results.tokens / results.events if by_usage else 1.0),
        "per_s_source": "usage" if by_usage else "events",
    }


def _bunching(results: Results) -> dict[str, Any]:
    share = results.bunched_events / results.events if results.events else 0.0
    burst = results.bursts.percentile(0.99)
    suspect = None
    if share > SUSPECT_SHARE:
        suspect = (
            f"{share:.0%} of the output events came in bursts (p99 of the largest: {burst} events) although their streams "
            "are slower than that: the server sends several at once, or something on the way holds them back"
        )
    return {"share": share, "burst_events_p99": burst, "suspect": suspect}


def _phase(phase: Phase, results: Results) -> dict[str, Any]:
    return {
        "index": phase.index,
        "kind": phase.kind,
        "streams": [phase.streams_from, phase.streams_to],
        "duration_s": phase.duration_ns / NS_PER_S,
        "measured": phase.measured,
        "started": results.started,
        "outcomes": _outcomes(results),
        "metrics": {m: describe(h) for m, h in results.metrics.items() if h.count},
    }

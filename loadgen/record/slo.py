"""SLO rules applied: to a whole run's results, and to a single stream (goodput)."""

import math
from collections.abc import Sequence
from typing import Any, Final

from loadgen.clock import NS_PER_MS
from loadgen.model import Metric, Outcome, StreamRecord
from loadgen.record.metrics import METRICS
from loadgen.record.results import Results
from loadgen.workload.slo import SloRule


def evaluate(rules: Sequence[SloRule], results: Results) -> list[dict[str, Any]]:
    """One entry a rule, as in summary.json: ``value`` in ms or as a share. No samples: null, and not ok."""
    return [_evaluate(rule, results) for rule in rules]


def _evaluate(rule: SloRule, results: Results) -> dict[str, Any]:
    value = _value(rule, results)
    shown = value if value is None or rule.metric is None else value / NS_PER_MS
    return {"rule": rule.text, "value": shown, "ok": value is not None and rule.holds(value)}


def _value(rule: SloRule, results: Results) -> float | None:
    if rule.rate is not None:
        return results.error_rate if rule.rate == "error_rate" else results.goodput
    assert rule.metric is not None
    hdr = results.metrics.get(rule.metric)
    if hdr is None or not hdr.count:
        return None
    match rule.statistic:
        case "mean":
            return hdr.mean
        case "min":
            return hdr.min
        case "max":
            return hdr.max
        case _:
            assert rule.quantile is not None
            return hdr.percentile(rule.quantile)


Z95: Final = 1.96


def is_clear(rules: Sequence[SloRule], results: Results) -> bool:
    """Whether more samples could hardly change what the rules say (95 % confidence, Wilson's interval of a share).

    A quantile rule is about the share of values above its bound, a rate rule about a share of streams. Rules of other
    statistics, and rules that a single clear failure settles, are taken as they stand.
    """
    doubts = [_share_in_doubt(rule, results) for rule in rules]
    if any(doubt == "broken" for doubt in doubts):
        return True
    return "open" not in doubts


def _share_in_doubt(rule: SloRule, results: Results) -> str:
    """How sure it is: kept, broken, or open."""
    if rule.rate is not None:
        count, hits, allowed = results.judged, results.judged - results.good, 1 - rule.bound
        if rule.rate == "error_rate":
            hits, allowed = results.judged - results.outcomes[Outcome.COMPLETED], rule.bound
        return _judge_share(hits, count, allowed)
    hdr = results.metrics.get(rule.metric) if rule.metric is not None else None
    if hdr is None or not hdr.count:
        return "broken"
    if rule.quantile is None or rule.op in {">", ">="}:
        return "kept"
    return _judge_share(hdr.count_above(rule.bound), hdr.count, 1 - rule.quantile)


def _judge_share(hits: int, count: int, allowed: float) -> str:
    if not count:
        return "broken"
    share, z2 = hits / count, Z95 * Z95
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = Z95 * math.sqrt(share * (1 - share) / count + z2 / (4 * count * count)) / (1 + z2 / count)
    return "broken" if middle - half > allowed else "kept" if middle + half < allowed else "open"


def meets_all(rules: Sequence[SloRule], record: StreamRecord) -> bool:
    """Goodput: a completed stream whose own values meet every latency rule. Rates are about many streams and do not count.

    For ITL the stream's own p50, p99 or longest gap stands in, whichever is nearest to the rule's statistic.
    """
    if record.outcome is not Outcome.COMPLETED:
        return False
    for rule in rules:
        if rule.metric is None:
            continue
        value = _own_itl(rule, record) if rule.metric is Metric.ITL else _own(rule.metric, record)
        if value is not None and not rule.holds(value):
            return False
    return True


def _own(metric: Metric, record: StreamRecord) -> int | None:
    take = METRICS[metric].take
    return None if take is None else take(record)


def _own_itl(rule: SloRule, record: StreamRecord) -> int | None:
    if rule.statistic == "max":
        return record.stall_ns
    if rule.quantile is not None and rule.quantile > 0.9:
        return record.itl_p99_ns
    return record.itl_p50_ns

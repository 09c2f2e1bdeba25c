"""SLO rules applied: to a whole run's results, and to a single stream (goodput)."""

from collections.abc import Sequence
from typing import Any

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

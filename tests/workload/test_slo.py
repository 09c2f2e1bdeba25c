from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.model import Metric
from loadgen.workload.slo import RATES, SloRule, parse_slo
from loadgen.workload.units import write_duration

OPS = ["<", "<=", ">", ">="]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("ttft p99 < 2s", ("ttft", None, "quantile", 0.99, "<", 2_000_000_000)),
        ("itl p50 <= 60ms", ("itl", None, "quantile", 0.5, "<=", 60_000_000)),
        ("itl p99.9<60ms", ("itl", None, "quantile", 0.999, "<", 60_000_000)),
        ("itl p999 < 60ms", ("itl", None, "quantile", 0.999, "<", 60_000_000)),
        ("itl p9999 < 60ms", ("itl", None, "quantile", 0.9999, "<", 60_000_000)),
        ("ttft p0 > 1us", ("ttft", None, "quantile", 0.0, ">", 1_000)),
        ("ttft p100 >= 1us", ("ttft", None, "quantile", 1.0, ">=", 1_000)),
        ("e2e mean < 10s", ("e2e", None, "mean", None, "<", 10_000_000_000)),
        ("  ttft   max  <  1m30s ", ("ttft", None, "max", None, "<", 90_000_000_000)),
        ("error_rate<0.1%", (None, "error_rate", "", None, "<", 0.001)),
        ("error_rate < 0.1", (None, "error_rate", "", None, "<", 0.1)),
        ("goodput > 95%", (None, "goodput", "", None, ">", 0.95)),
    ],
)
def test_rules(text: str, rule: tuple[object, ...]) -> None:
    found = parse_slo(text)
    assert (found.metric, found.rate, found.statistic, found.quantile, found.op, found.bound) == rule
    assert found.text == text.strip()


FORM = 'such as "ttft p99 < 2s", "itl p50 <= 60ms" or "error_rate < 0.1%"'
METRICS = ", ".join([*Metric, *RATES])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", f"must be a rule {FORM}, got ''"),
        ("ttft p99", f"must be a rule {FORM}, got 'ttft p99'"),
        ("ttft p99 <", f"must be a rule {FORM}, got 'ttft p99 <'"),
        ("ttft p99 == 2s", f"must be a rule {FORM}, got 'ttft p99 == 2s'"),
        ("ttft p99 <> 2s", f"must be a rule {FORM}, got 'ttft p99 <> 2s'"),
        ("ttft p 99 < 2s", f"must be a rule {FORM}, got 'ttft p 99 < 2s'"),
        ("ttft < 2s", f"ttft is a distribution: say which of it, {FORM}"),
        ("tfft p99 < 2s", "'tfft' is no metric; did you mean ttft?"),
        ("zzz p99 < 2s", f"'zzz' is no metric; there are {METRICS}"),
        ("error_rates < 1%", "'error_rates' is no metric; did you mean error_rate?"),
        ("TTFT p99 < 2s", f"'TTFT' is no metric; there are {METRICS}"),
        ("ttft p101 < 2s", "expected p0 to p100 (such as p99 or p99.9), mean, min or max, got 'p101'"),
        ("ttft p995 < 2s", "expected p0 to p100 (such as p99 or p99.9), mean, min or max, got 'p995'"),
        ("ttft median < 2s", "expected p0 to p100 (such as p99 or p99.9), mean, min or max, got 'median'"),
        ("ttft p99 < 2", "must be a duration such as 250ms, 5s or 2m, got '2'; add a unit: 2s"),
        ("ttft p99 < 5%", "must be a duration such as 250ms, 5s or 2m, got '5%'"),
        ("goodput p50 > 95%", "goodput is one number and takes no 'p50': write goodput > 95%"),
        ("goodput > 95", "must be a share such as 10% or 0.1, from 0 to 1, got 95.0"),
        ("error_rate < 2s", "must be a share such as 10% or 0.1, from 0 to 1, got '2s'"),
        ("error_rate < nan", "must be a share such as 10% or 0.1, from 0 to 1, got nan"),
    ],
)
def test_no_rules(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_slo(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(("op", "held"), [("<", "below"), ("<=", "below at"), (">", "above"), (">=", "above at")])
def test_holds(op: str, held: str) -> None:
    rule = parse_slo(f"ttft p99 {op} 2s")
    values = {"below": 1_999_999_999, "at": 2_000_000_000, "above": 2_000_000_001}
    assert {name for name, value in values.items() if rule.holds(value)} == set(held.split())


@given(
    st.sampled_from(Metric),
    st.one_of(st.sampled_from(["mean", "min", "max"]), st.decimals(0, 100, places=2).map(lambda d: f"p{d}")),
    st.sampled_from(OPS),
    st.integers(0, 10**15),
    st.sampled_from(["", " ", "  "]),
)
def test_every_latency_rule_is_read(metric: Metric, statistic: str, op: str, bound: int, space: str) -> None:
    rule = parse_slo(f"{metric} {statistic}{space}{op}{space}{write_duration(bound)}")
    assert (rule.metric, rule.op, rule.bound) == (metric, op, bound)
    if statistic.startswith("p"):
        assert rule.statistic == "quantile"
        assert rule.quantile == pytest.approx(float(statistic[1:]) / 100)
    else:
        assert (rule.statistic, rule.quantile) == (statistic, None)


@given(st.sampled_from(RATES), st.sampled_from(OPS), st.integers(0, 1000))
def test_every_rate_rule_is_read(rate: str, op: str, permille: int) -> None:
    rule = parse_slo(f"{rate} {op} {permille / 10}%")
    assert rule == SloRule(text=rule.text, rate=rate, op=op, bound=rule.bound)
    assert rule.bound == pytest.approx(permille / 1000)


@given(st.text(max_size=30))
def test_any_text_is_a_rule_or_a_value_error(text: str) -> None:
    with suppress(ValueError):
        rule = parse_slo(text)
        assert parse_slo(rule.text) == rule

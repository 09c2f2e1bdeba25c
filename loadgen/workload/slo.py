"""SLO rules: what a workload promises, one line each, checked before the run."""

# rule      = latency | rate
# latency   = metric statistic op duration           ttft p99 < 2s        itl p99.9 <= 60ms      e2e mean < 10s
# rate      = ( "error_rate" | "goodput" ) op share  error_rate < 0.1%    goodput > 95%
# statistic = "p" number | "mean" | "min" | "max"    number from 0 to 100; p999 and p9999 mean p99.9 and p99.99
# op        = "<" | "<=" | ">" | ">="                spaces around it are free

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from typing import Final

from loadgen.errors import shorten
from loadgen.model import Metric
from loadgen.workload.units import parse_duration, parse_share

RATES: Final = ("error_rate", "goodput")
_OPS: Final[dict[str, Callable[[float, float], bool]]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_RULE: Final = re.compile(r"([A-Za-z_0-9]+)(?:\s+([A-Za-z0-9.]+))?\s*(<=|>=|<|>)\s*([^\s<>=].*)")
_FORM: Final = 'such as "ttft p99 < 2s", "itl p50 <= 60ms" or "error_rate < 0.1%"'


@dataclass(frozen=True, slots=True, kw_only=True)
class SloRule:
    """``bound`` is ns for a metric and a share (0 to 1) for a rate.

    ``statistic`` is "quantile" (then ``quantile`` is from 0 to 1), "mean", "min" or "max" for a metric, "" for a rate.
    """

    text: str
    metric: Metric | None = None
    rate: str | None = None
    statistic: str = ""
    quantile: float | None = None
    op: str
    bound: float

    def holds(self, value: float) -> bool:
        """Whether ``value`` (ns or share, as ``bound``) keeps the promise."""
        return _OPS[self.op](value, self.bound)


def parse_slo(text: str) -> SloRule:
    """Raises ValueError that says what was expected and what came."""
    text = text.strip()
    match = _RULE.fullmatch(text)
    if match is None:
        raise ValueError(f"must be a rule {_FORM}, got {shorten(text)}")
    name, statistic, op, bound = match.groups()
    if name in RATES:
        if statistic is not None:
            raise ValueError(f"{name} is one number and takes no {statistic!r}: write {name} {op} {bound}")
        return SloRule(text=text, rate=name, op=op, bound=parse_share(_number(bound)))
    if name not in set(Metric):
        near = get_close_matches(name, [*Metric, *RATES], n=1)
        hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join([*Metric, *RATES])}"
        raise ValueError(f"{name!r} is no metric{hint}")
    if statistic is None:
        raise ValueError(f"{name} is a distribution: say which of it, {_FORM}")
    kind, quantile = _parse_statistic(statistic)
    return SloRule(text=text, metric=Metric(name), statistic=kind, quantile=quantile, op=op, bound=parse_duration(bound))


def _parse_statistic(text: str) -> tuple[str, float | None]:
    if text in {"mean", "min", "max"}:
        return text, None
    if re.fullmatch(r"p(999+)", text):
        return "quantile", float(f"0.{text[1:]}")
    if re.fullmatch(r"p[0-9]+(\.[0-9]+)?", text) and float(text[1:]) <= 100:
        return "quantile", float(Decimal(text[1:]) / 100)  # 99.9 / 100 in binary lies above 0.999: one rank too far
    raise ValueError(f"expected p0 to p100 (such as p99 or p99.9), mean, min or max, got {text!r}")


def _number(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text

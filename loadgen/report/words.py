"""Figures as people read them, the same on every output."""

from collections.abc import Mapping
from typing import Any

from loadgen.workload.slo import parse_slo


def format_ms(value: float) -> str:
    """Milliseconds without the unit: three or four digits that count."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def format_slo_value(rule: Mapping[str, Any]) -> str:
    """What an evaluated rule of summary.json found: ``220.7 ms``, ``0.12%`` or ``no samples``."""
    value = rule["value"]
    if value is None:
        return "no samples"
    return f"{value:.2%}" if parse_slo(rule["rule"]).metric is None else f"{format_ms(value)} ms"


def format_slo_bound(rule: Mapping[str, Any]) -> str:
    """What an evaluated rule asks for, as the workload writes it: ``< 500ms``."""
    op = parse_slo(rule["rule"]).op
    return f"{op} {rule['rule'].partition(op)[2].strip()}"

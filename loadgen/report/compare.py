"""The comparison of runs: sentences first, then every figure, on the screen and as JSON (``loadgen.compare/1``)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from loadgen.record.comparable import Candidate, Difference, differences, reasons_against
from loadgen.record.compare import CONFIDENCE, Figure, Sample, build_sample, compare
from loadgen.report.folder import StoredRun
from loadgen.report.words import format_ms
from loadgen.workload.slo import SloRule, parse_slo

SCHEMA: Final = "loadgen.compare/1"
_MOST_DECIMALS: Final = 3  # of a millisecond; stamps are not truer than that
_UNITS: Final = {"ms": " ms", "share": " points", "per_s": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One run beside the base. ``aim``: what differs of the target; ``despite``: why it should not have been compared."""

    run: StoredRun
    figures: list[Figure]
    aim: list[Difference]
    despite: list[str]

    @property
    def regressions(self) -> list[str]:
        return [figure.name for figure in self.figures if figure.regression]


def find_reasons_against(runs: Sequence[StoredRun]) -> list[str]:
    """Why these runs should not be compared; the first one is the base."""
    return reasons_against([_candidate(run) for run in runs])


def compare_runs(runs: Sequence[StoredRun], *, threshold: float) -> list[Comparison]:
    """Each run but the first one, with the first one. Goodput is by the base's rules."""
    base = runs[0]
    rules = _rules_of(base)
    base_sample = _sample_of(base, rules)
    return [
        Comparison(
            run=run,
            figures=compare(base_sample, _sample_of(run, rules), threshold=threshold),
            aim=differences(_candidate(base), _candidate(run)).aim,
            despite=find_reasons_against([base, run]),
        )
        for run in runs[1:]
    ]


def sentence_of(figure: Figure) -> str:
    """What a figure says: ``ttft p50 is 0.42 ms higher (0.31 to 0.55)``."""
    name = figure.name.replace("_per_s", "/s")
    if figure.difference is None or figure.low is None or figure.high is None or figure.could_have_seen is None:
        return f"{name} cannot be compared: {figure.missing}"
    scale, unit = 100 if figure.unit == "share" else 1, _UNITS[figure.unit]
    if not figure.differs:
        return f"no difference seen in {name}; could have seen {_rounded(figure.could_have_seen * scale)}{unit}"
    nearer, further = sorted((abs(figure.low), abs(figure.high)))
    decimals = _decimals((further - nearer) / 2 * scale)
    size, least, most = (f"{value * scale:,.{decimals}f}" for value in (abs(figure.difference), nearer, further))
    return f"{name} is {size}{unit} {'higher' if figure.difference > 0 else 'lower'} ({least} to {most})"


def as_json(
    runs: Sequence[StoredRun], comparisons: Sequence[Comparison], *, threshold: float, exit_code: int
) -> dict[str, Any]:
    """Strict JSON. Latencies in ms, shares from 0 to 1."""
    return {
        "schema": SCHEMA,
        "confidence": CONFIDENCE,
        "threshold": threshold,
        "base": _run_as_json(runs[0]),
        "runs": [
            {
                **_run_as_json(each.run),
                "aim": [difference._asdict() for difference in each.aim],
                "despite": each.despite,
                "regressions": each.regressions,
                "figures": [_figure_as_json(figure) for figure in each.figures],
            }
            for each in comparisons
        ],
        "exit_code": exit_code,
    }


def render(base: StoredRun, comparisons: Sequence[Comparison], *, threshold: float) -> RenderableType:
    return Group(*(part for each in comparisons for part in _render_one(base, each, threshold)))


def _render_one(base: StoredRun, comparison: Comparison, threshold: float) -> list[RenderableType]:
    told = [figure for figure in comparison.figures if figure.gated or figure.differs]
    heading = Text()
    found = comparison.regressions
    if found:
        heading.append("REGRESSION ", style="bold red")
    heading.append(f"{comparison.run.name} against {base.name} (the base): ")
    bound = f"{threshold * 100:.3g}%"
    heading.append(f"{', '.join(found)} surely worse by more than {bound}" if found else f"no regression beyond {bound}")
    parts: list[RenderableType] = [heading]
    parts += [Text(f"compared all the same: {reason}", style="yellow") for reason in comparison.despite]
    parts += [Text(f"aimed elsewhere: {difference}", style="dim") for difference in comparison.aim]
    parts.append(Text(""))
    for figure in told:
        style = "red" if figure.regression else "dim" if figure.missing else ""
        parts.append(Text(sentence_of(figure), style=style))
    parts.append(_table(comparison.figures))
    whole = [figure for figure in comparison.figures if not figure.missing]
    parts.append(
        Text(
            f"intervals hold the true difference in {CONFIDENCE:.0%} of comparisons: of {len(whole)} figures of equal runs, "
            f"{len(whole) * (1 - CONFIDENCE):.1f} differ by chance",
            style="dim",
        )
    )
    return parts


def _table(figures: Sequence[Figure]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("ms, %, per s", no_wrap=True)
    for column in ("base", "here", "difference", "95% interval", "change", "could have seen"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("drawn again", style="dim", no_wrap=True)
    for figure in figures:
        if not figure.missing:
            table.add_row(figure.name, *_cells(figure), figure.by, style="red" if figure.regression else "")
    return table


def _cells(figure: Figure) -> list[str]:
    numbers = (figure.base, figure.other, figure.difference, figure.low, figure.high, figure.could_have_seen)
    scale = 100 if figure.unit == "share" else 1
    base, other, difference, low, high, seen = (scale * number for number in numbers if number is not None)
    decimals = _decimals((high - low) / 2)
    change = "" if figure.relative is None else f"{figure.relative:+.1%}"
    interval = f"{_signed(low, decimals)} to {_signed(high, decimals)}"
    return [format_ms(base), format_ms(other), _signed(difference, decimals), interval, change, _rounded(seen)]


def _signed(value: float, decimals: int) -> str:
    return f"{round(value, decimals) + 0.0:+,.{decimals}f}"  # + 0.0: no minus before a zero


def _decimals(width: float) -> int:
    """As many as show two digits of ``width``."""
    return min(max(1 - math.floor(math.log10(width)), 0), _MOST_DECIMALS) if width > 0 else _MOST_DECIMALS


def _rounded(value: float) -> str:
    """Two digits: a bound is not known better."""
    smallest = 10**-_MOST_DECIMALS
    value = max(value, smallest)
    places = 1 - math.floor(math.log10(value))
    text = f"{round(value, places):,.{min(max(places, 0), _MOST_DECIMALS)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _figure_as_json(figure: Figure) -> dict[str, Any]:
    names = ("base", "other", "difference", "low", "high", "relative", "could_have_seen")
    return {
        "name": figure.name,
        "unit": figure.unit,
        "by": figure.by,
        "counts": list(figure.counts),
        **{name: getattr(figure, name) for name in names},
        "differs": figure.differs,
        "gated": figure.gated,
        "regression": figure.regression,
        "missing": figure.missing or None,
        "sentence": sentence_of(figure),
    }


def _run_as_json(run: StoredRun) -> dict[str, Any]:
    summary: Mapping[str, Any] = run.summary or {}
    return {"run": run.name, **{key: summary.get(key) for key in ("name", "verdict", "started_at")}}


def _rules_of(run: StoredRun) -> list[SloRule]:
    return [] if run.workload is None else [parse_slo(text) for text in run.workload.get("slo", ())]


def _candidate(run: StoredRun) -> Candidate:
    return Candidate(run.name, str(run.folder), run.workload, run.summary)


def _sample_of(run: StoredRun, rules: Sequence[SloRule]) -> Sample:
    """Output events become tokens by what the summary says of the run: the server's own count, where it gave one."""
    seconds, unit = run.seconds, "events"
    tokens = (run.summary or {}).get("tokens", {})
    events, length_s = (sum(column) for column in zip(*seconds, strict=True)) if seconds else (0.0, 0.0)
    if tokens.get("per_s_source") == "usage" and events:
        scale = tokens["per_s"] * length_s / events
        seconds, unit = [(scale * count, length) for count, length in seconds], "tokens"
    return build_sample(run.records, rules=rules, itl=run.itl, seconds=seconds, unit=unit)

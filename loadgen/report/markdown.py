"""The report as Markdown, for a CI job's page: the verdict, what it rests on, and how every stream ended."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from loadgen.report.words import format_ms, format_slo_value

_COLUMNS: Final = ("p50_ms", "p90_ms", "p99_ms", "max_ms")
# What would be markup, a table's edge or HTML in CommonMark or GitHub's dialect; each may be escaped with a backslash.
_MARKUP: Final = re.compile(r"[\\`*_\[\]<>|~#&$]")


def append_markdown(path: Path, summary: Mapping[str, Any], folder: str) -> None:
    """Add the report to a file, which may hold other steps' reports already."""
    with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
        if file.tell():
            file.write("\n")
        file.write(build_markdown(summary, folder))


def build_markdown(summary: Mapping[str, Any], folder: str) -> str:
    """Nothing of the target's or the workload's own words is taken as markup."""
    lines = [f"## {summary['verdict'].upper()} {_plain(summary['name'])}", "", _plain(summary["verdict_reason"]), ""]
    if summary["slo"]:
        lines += _table(("", "SLO", "was"), (_slo_row(rule) for rule in summary["slo"]), right=())
    metrics = [(name, metric) for name, metric in summary["metrics"].items() if metric["count"]]
    if metrics:
        header = ("milliseconds", "count", *(column.removesuffix("_ms") for column in _COLUMNS), "meaning")
        lines += _table(header, (_metric_row(name, metric) for name, metric in metrics), right=(1, 2, 3, 4, 5))
    lines += [*_streams(summary), *_outcomes(summary), *_generator(summary), f"Files: {_plain(folder)}"]
    return "\n".join(lines) + "\n"


def _slo_row(rule: Mapping[str, Any]) -> Sequence[str]:
    name = f"{rule['variant']}: {rule['rule']}" if "variant" in rule else rule["rule"]
    return "ok" if rule["ok"] else "**FAIL**", _plain(name), format_slo_value(rule)


def _metric_row(name: str, metric: Mapping[str, Any]) -> Sequence[str]:
    return _plain(name), f"{metric['count']:,}", *(format_ms(metric[column]) for column in _COLUMNS), _plain(metric["meaning"])


def _streams(summary: Mapping[str, Any]) -> list[str]:
    streams, concurrency, tokens = summary["streams"], summary["concurrency"], summary["tokens"]
    unit = "tokens" if tokens["per_s_source"] == "usage" else "events"
    sentence = (
        f"{concurrency['mean']:.1f} of {concurrency['asked']} streams open on average, {tokens['per_s']:,.0f} {unit}/s, "
        f"{tokens['events']:,} output events, {streams['started']:,} streams in {summary['duration_s']:.1f} s."
    )
    return [sentence, ""]


def _outcomes(summary: Mapping[str, Any]) -> list[str]:
    """Each outcome, then what those said that did not end well."""
    streams = summary["streams"]
    reasons: dict[str, list[str]] = {}
    for entry in streams["details"]:
        reasons.setdefault(entry["outcome"], []).append(f"{entry['count']:,} x {_plain(entry['detail'])}")
    rows = [(_plain(name), f"{count:,}", "<br>".join(reasons.get(name, []))) for name, count in streams["outcomes"].items()]
    lines = _table(("outcome", "streams", "reasons"), rows, right=(1,))
    if suspect := summary["bunching"]["suspect"]:
        lines += [_plain(suspect), ""]
    return lines


def _generator(summary: Mapping[str, Any]) -> list[str]:
    generator = summary["generator"]
    if not summary["tokens"]["events"]:
        return []
    facts = [f"{generator['stamps']} stamps, {generator['stamp_quality']['exact']:.1%} exact"]
    if generator["read_lag"]["count"]:
        facts.append(f"read lag p99 {format_ms(generator['read_lag']['p99_ms'])} ms")
    facts.append(f"{generator['cpu_share']:.0%} of a core")
    word = "valid" if generator["valid"] else "**not valid**"
    remarks = [f"- {_plain(text)}" for text in (*generator["reasons"], *generator["notes"])]
    return [f"Generator: {word}; {', '.join(facts)}.", "", *remarks, *([""] if remarks else [])]


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int]) -> list[str]:
    edges = ["---:" if column in right else "---" for column in range(len(header))]
    return [f"| {' | '.join(cells)} |" for cells in (header, edges, *rows)] + [""]


def _plain(text: str) -> str:
    """Any text on one line, with nothing in it that Markdown would act on."""
    return _MARKUP.sub(r"\\\g<0>", " ".join(text.split()))

"""The final report on the screen: verdict first, then what it rests on. Fits 100 columns."""

import os
from collections.abc import Mapping
from typing import Any, Final

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from loadgen.report.words import format_ms, format_slo_value

WIDTH: Final = 100
_COLOURS: Final = {"pass": "green", "fail": "red", "invalid": "red", "interrupted": "yellow", "unreachable": "red"}
_COMPARED: Final = (
    ("ttft", "p50"), ("ttft", "p99"), ("itl", "p50"), ("e2e", "p50"), ("queue", "p99"),
)  # fmt: skip
_COLUMNS: Final = ("p50_ms", "p90_ms", "p99_ms", "max_ms")


class PipeConsole(Console):
    """A console whose reader may leave (``| head``): it falls silent, and the run and its exit code go on."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.file.fileno())
        os.close(nowhere)


def print_report(console: Console, summary: Mapping[str, Any], folder: str) -> None:
    """Everything a person needs to read first."""
    console.print(render(summary, folder), width=min(console.width, WIDTH), highlight=False)


def render(summary: Mapping[str, Any], folder: str) -> RenderableType:
    parts: list[RenderableType] = [_verdict(summary)]
    if summary["variants"]:
        parts.append(_variants(summary["variants"]))
    else:
        parts.append(_streams(summary))
    if not summary["variants"] and any(metric["count"] for metric in summary["metrics"].values()):
        parts.append(_metrics(summary))
    if summary["slo"]:
        parts.append(_slo(summary))
    if summary["capacity"] is not None:
        parts.append(_capacity(summary["capacity"]))
    parts += [Text(line, style="yellow") for line in _findings(summary)]
    if summary["tokens"]["events"]:
        parts.append(_generator(summary))
    parts.append(Text(f"files: {folder}", style="dim"))
    return Group(*parts)


def _verdict(summary: Mapping[str, Any]) -> Text:
    word = summary["verdict"]
    text = Text()
    text.append(f"{word.upper()} ", style=f"bold {_COLOURS[word]}")
    text.append(f"{summary['name']}: {summary['verdict_reason']}")
    return text


def _streams(summary: Mapping[str, Any]) -> Text:
    streams, concurrency, tokens = summary["streams"], summary["concurrency"], summary["tokens"]
    outcomes = ", ".join(f"{count} {name}" for name, count in streams["outcomes"].items())
    unit = "tokens" if tokens["per_s_source"] == "usage" else "events"
    return Text(
        f"{streams['started']} stream{'s' if streams['started'] != 1 else ''}: {outcomes}\n"
        f"{concurrency['mean']:.1f} of {concurrency['asked']} streams open on average, "
        f"{tokens['per_s']:,.0f} {unit}/s, {tokens['events']} output events, {summary['duration_s']:.1f} s"
    )


def _metrics(summary: Mapping[str, Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left")
    table.add_column("milliseconds", no_wrap=True)
    table.add_column("count", justify="right")
    for column in _COLUMNS:
        table.add_column(column.removesuffix("_ms"), justify="right", no_wrap=True)
    table.add_column("meaning", style="dim")
    for name, metric in summary["metrics"].items():
        if metric["count"]:
            values = [format_ms(metric[column]) for column in _COLUMNS]
            table.add_row(name, str(metric["count"]), *values, metric["meaning"])
    return table


def _variants(variants: Mapping[str, Mapping[str, Any]]) -> Table:
    """The variants side by side."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("variant", no_wrap=True, min_width=20)
    for name in ("done", "ttft p50", "p99", "itl p50", "e2e p50", "queue p99", "conns", "bursts"):
        table.add_column(name, justify="right", no_wrap=True, min_width=len(name))
    for name, told in variants.items():
        metrics = told["metrics"]
        values = [format_ms(metrics[m][f"{q}_ms"]) if metrics[m]["count"] else "-" for m, q in _COMPARED]
        done = str(told["streams"]["outcomes"].get("completed", 0))
        table.add_row(name, done, *values, str(told["connections"]["count"]), f"{told['bunching']['share']:.0%}")
    return table


def _capacity(capacity: Mapping[str, Any]) -> Group:
    """The answer, and the curve it rests on, in order of the streams."""
    if not capacity["steps"]:
        return Group(Text("capacity: no level was held to its end"))
    low, high = capacity["low"], capacity["high"]
    answer = f"capacity: {low} streams" if low else f"capacity: below {high} streams"
    if high is None:
        answer += " at least: every SLO held up to there"
    elif low:
        answer += f"; at {high} broke {capacity['limited_by']}"
    else:
        answer += f"; broke {capacity['limited_by']}"
    if capacity["recovered"] is not None:
        answer += "; it recovered after more" if capacity["recovered"] else "; it did not recover after more"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for name in ("streams", "ttft p50", "ttft p99", "itl p50", "itl p99", "events/s", "goodput"):
        table.add_column(name, justify="right", no_wrap=True, min_width=len(name))
    table.add_column("", no_wrap=True, overflow="ellipsis", max_width=20)
    for step in sorted(capacity["steps"], key=lambda step: step["streams"]):
        values = (step["ttft_p50_ms"], step["ttft_p99_ms"], step["itl_p50_ms"], step["itl_p99_ms"])
        shown = ["-" if value is None else format_ms(value) for value in values]
        goodput = "-" if step["goodput"] is None else f"{step['goodput']:.0%}"
        broke = "; ".join(step["broke"]) or "ok"
        table.add_row(str(step["streams"]), *shown, f"{step['events_per_s']:,.0f}", goodput, broke)
    return Group(Text(answer, style="bold"), table)


def _slo(summary: Mapping[str, Any]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    for rule in summary["slo"]:
        mark = Text("ok  ", style="green") if rule["ok"] else Text("FAIL", style="bold red")
        table.add_row(mark, rule["rule"], _slo_value(rule), rule.get("variant", ""))
    return table


def _slo_value(rule: Mapping[str, Any]) -> str:
    found = format_slo_value(rule)
    return found if rule["value"] is None else f"was {found}"


def _findings(summary: Mapping[str, Any]) -> list[str]:
    """What went wrong, in the words of those who saw it."""
    found = [f"{d['count']} x {d['outcome']}: {d['detail']}" for d in summary["streams"]["details"] if d["outcome"] != "cut"]
    if left_open := summary["streams"]["left_open"]:
        found.append(f"{left_open} streams: the server sent its end mark but did not end the response")
    for name, told in (summary["variants"] or {"": summary}).items():
        if suspect := told["bunching"]["suspect"]:
            found.append(f"{name}: {suspect}" if name else suspect)
    if (backends := summary.get("backends")) and backends["finding"]:
        found.append(backends["finding"])
    return found[:8]


def _generator(summary: Mapping[str, Any]) -> Text:
    generator = summary["generator"]
    quality = generator["stamp_quality"]
    lag = generator["read_lag"]
    lag_text = f", read lag p99 {format_ms(lag['p99_ms'])} ms" if lag.get("count") else ""
    text = (
        f"generator: {generator['stamps']} stamps, {quality['exact']:.1%} exact{lag_text}, "
        f"{generator['cpu_share']:.0%} of a core"
    )
    return Text("\n".join([text, *generator["notes"]]), style="dim")

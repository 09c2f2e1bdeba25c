"""Progress of a run: live on a terminal, a line every few seconds elsewhere, or nothing. Goes to stderr."""

from collections import Counter
from typing import Final, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table

from loadgen.engine.watch import Observer, Progress
from loadgen.model import Metric, Outcome
from loadgen.record.hdr import Hdr
from loadgen.record.recorder import Interval, Recorder
from loadgen.workload.plan import Target
from loadgen.workload.units import format_duration

LINE_EVERY_S: Final = 5.0


class Silent:
    """Shows nothing."""

    def on_target(self, target: Target) -> None: ...

    def on_interval(self, interval: Interval, progress: Progress, recorder: Recorder) -> None: ...

    def on_draining(self, open_streams: int, drain_ns: int) -> None: ...

    def on_interrupt(self, open_streams: int) -> None: ...

    def on_level(self, words: str) -> None: ...


class Lines:
    """A line every few seconds: for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown_s = 0.0

    def on_target(self, target: Target) -> None:
        self._say(f"target {target.url}")

    def on_interval(self, interval: Interval, progress: Progress, recorder: Recorder) -> None:
        if progress.elapsed_s - self._shown_s < LINE_EVERY_S - 0.5:
            return
        self._shown_s = progress.elapsed_s
        rate = interval.output_events / interval.length_s if interval.length_s else 0.0
        ttft, itl = (_p50_p99(hdr) for hdr in _so_far(recorder))
        self._say(
            f"{progress.elapsed_s:5.0f} s  {_phase(progress)}  open {progress.open}/{progress.asked}  {rate:,.0f} events/s  "
            f"ttft p50/p99 {ttft}  itl {itl}  {_outcomes(recorder.everything().outcomes)}"
        )

    def on_draining(self, open_streams: int, drain_ns: int) -> None:
        self._say(f"load is over; {open_streams} open streams may end within {format_duration(drain_ns)}")

    def on_interrupt(self, open_streams: int) -> None:
        self._say(interrupt_text(open_streams))

    def on_level(self, words: str) -> None:
        self._shown_s = 0.0
        self._say(words)

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


class Screen:
    """A table that is drawn anew each second. Use as a context manager around the run."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, refresh_per_second=4, transient=True)
        self._note = ""

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def on_target(self, target: Target) -> None:
        self._live.console.print(f"target {target.url}", highlight=False, markup=False)

    def on_interval(self, interval: Interval, progress: Progress, recorder: Recorder) -> None:
        table = Table(box=None, show_header=False, padding=(0, 2))
        rate = interval.output_events / interval.length_s if interval.length_s else 0.0
        ttft, itl = (_p50_p99(hdr) for hdr in _so_far(recorder))
        table.add_row("phase", f"{_phase(progress)}, {progress.left_s:.0f} s left")
        table.add_row("open streams", f"{progress.open} of {progress.asked}")
        table.add_row("output events", f"{rate:,.0f} per second")
        table.add_row("ttft p50 / p99", ttft)
        table.add_row("itl p50 / p99", itl)
        table.add_row("outcomes", _outcomes(recorder.everything().outcomes))
        if self._note:
            table.add_row("", f"[yellow]{self._note}[/yellow]")
        self._live.update(table)

    def on_draining(self, open_streams: int, drain_ns: int) -> None:
        self._note = f"draining: {open_streams} open streams may end within {format_duration(drain_ns)}"

    def on_interrupt(self, open_streams: int) -> None:
        self._note = interrupt_text(open_streams)

    def on_level(self, words: str) -> None:
        self._note = ""
        self._live.console.print(words, highlight=False, markup=False)


def interrupt_text(open_streams: int) -> str:
    return f"interrupted: waiting for {open_streams} open streams; Ctrl-C again cuts them and reports"


def observer_for(console: Console, *, quiet: bool) -> Observer:
    """``Screen`` must be entered by the caller; the others need nothing."""
    if quiet:
        return Silent()
    return Screen(console) if console.is_terminal else Lines(console)


def _phase(progress: Progress) -> str:
    return "drain" if progress.phase is None else str(progress.phase.kind)


def _so_far(recorder: Recorder) -> tuple[Hdr, Hdr]:
    results = recorder.measured()
    return results.metrics.get(Metric.TTFT, Hdr()), results.metrics.get(Metric.ITL, Hdr())


def _p50_p99(hdr: Hdr) -> str:
    if not hdr.count:
        return "-"
    p50, p99 = hdr.percentiles((0.5, 0.99))
    return f"{format_duration(p50)} / {format_duration(p99)}"


def _outcomes(outcomes: Counter[Outcome]) -> str:
    return ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common()) or "none yet"

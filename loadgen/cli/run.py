"""`loadgen run`: run a workload, show it, leave with the verdict's exit code."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from loadgen import api
from loadgen.report.console import PipeConsole, print_report
from loadgen.report.fanout import FanOut
from loadgen.report.files import telling_write_errors
from loadgen.report.markdown import append_markdown
from loadgen.report.progress import Screen, observer_for
from loadgen.report.prometheus import PrometheusExporter, parse_listen, serving


def run(
    workload: Annotated[Path, typer.Argument(help="The workload file (YAML).", show_default=False)],
    out: Annotated[Path | None, typer.Option(help="Folder for the run's files.", show_default="reports/runs/...")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Override a key, e.g. --set load.0.streams=50."),
    ] = None,
    processes: Annotated[
        str,
        typer.Option(
            metavar="N", help="Generator processes that share the load; auto: one per 1,000 streams, within the cores."
        ),
    ] = "auto",
    summary_md: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Add the report as Markdown to a file, such as a CI job's page.", show_default=False),
    ] = None,
    prometheus: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Serve live metrics for Prometheus, such as 127.0.0.1:9400.", show_default=False
        ),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print summary.json, and nothing else, on stdout.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Run a workload and report TTFT, inter-token latency and how every stream ended."""
    if processes != "auto" and not (processes.isascii() and processes.isdigit()):
        raise typer.BadParameter(f"must be a number or auto, got {processes}", param_hint="--processes")
    listen = None if prometheus is None else _parse_listen(prometheus)
    loaded = api.load(workload, set_ or ())
    if summary_md is not None:
        _check_appendable(summary_md)
    errors = PipeConsole(stderr=True)
    if not quiet:
        for warning in loaded.warnings:
            errors.print(f"note: {warning.render(loaded.source)}", highlight=False, markup=False, soft_wrap=True)
    observer = observer_for(errors, quiet=quiet)
    with ExitStack() as stack:
        if isinstance(observer, Screen):
            stack.enter_context(observer)
        if listen is not None:
            exporter = PrometheusExporter(loaded.name)
            url = stack.enter_context(serving(exporter, *listen))
            errors.print(f"metrics on {url}", highlight=False, markup=False, soft_wrap=True)
            observer = FanOut([observer, exporter])
        result = api.run(loaded, out=out, observer=observer, processes=None if processes == "auto" else int(processes))
    if summary_md is not None:
        with telling_write_errors(summary_md):
            append_markdown(summary_md, result.summary, str(result.folder))
    if json_:
        PipeConsole().out(json.dumps(result.summary, allow_nan=False), highlight=False)
    else:
        print_report(PipeConsole(), result.summary, str(result.folder))
    raise typer.Exit(result.exit_code)


def _parse_listen(text: str) -> tuple[str, int]:
    try:
        return parse_listen(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--prometheus") from None


def _check_appendable(path: Path) -> None:
    """Before the run, not after it: nobody wants to measure for an hour and then hear that the folder does not exist."""
    try:
        path.open("a").close()
    except OSError as error:
        raise typer.BadParameter(f"cannot write {path}: {error.strerror}", param_hint="--summary-md") from None

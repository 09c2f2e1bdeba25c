"""The command line: the table of commands, and what every error becomes.

Exit codes are the contract: 0 ok, 1 an SLO failed, 2 bad command line or workload, 3 nothing measured, 4 invalid,
5 our bug, 130 interrupted.
"""

import sys
import traceback
from typing import Final

import typer

from loadgen.cli.calibrate import calibrate
from loadgen.cli.check import check
from loadgen.cli.compare import compare
from loadgen.cli.run import run
from loadgen.cli.serve import serve
from loadgen.errors import LoadgenError, WorkloadError

EXIT_USAGE: Final = 2
EXIT_BUG: Final = 5
EXIT_INTERRUPTED: Final = 130

app = typer.Typer(
    name="loadgen",
    help="Load tester for concurrent token streams: TTFT, inter-token latency, concurrent-stream capacity.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(run)
app.command()(check)
app.command()(compare)
app.command()(serve)
app.command()(calibrate)


def main() -> None:
    """Entry point of the ``loadgen`` program. Leaves the process with one of the exit codes above."""
    try:
        app()
    except WorkloadError as error:
        print(error, file=sys.stderr)  # noqa: T201 - this is the screen
        sys.exit(EXIT_USAGE)
    except LoadgenError as error:
        print(f"loadgen: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(EXIT_USAGE)
    except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - the one edge where everything else is our bug
        # Ctrl-C before the run listens for signals comes out of trio's nurseries as a group.
        if isinstance(error, BaseExceptionGroup) and error.subgroup(KeyboardInterrupt):
            print("loadgen: interrupted before the first stream", file=sys.stderr)  # noqa: T201
            sys.exit(EXIT_INTERRUPTED)
        traceback.print_exc()
        print(  # noqa: T201
            "loadgen: this is a bug in loadgen, not in your workload or target; please report it with the lines above",
            file=sys.stderr,
        )
        sys.exit(EXIT_BUG)

"""What can go wrong, by whose fault. Only errors named here become outcomes or messages; anything else is our bug.

LoadgenError
├── WorkloadError      the user's file or command line: a list of problems, each with its place   (exit 2)
├── OutputError        the run's files cannot be written: no such folder, no room on the disk            (exit 2)
├── RunFolderError     a run's files cannot be read, or the runs cannot be compared                         (exit 2)
├── WireError          the peer sent bytes that its protocol forbids: a code, a place, a quotation
└── ConnectError       no usable connection: refused, unresolvable, timed out, TLS refused
"""

from collections.abc import Sequence
from dataclasses import dataclass


class LoadgenError(Exception):
    """Base of all errors that loadgen raises on purpose."""


class WireError(LoadgenError):
    """The peer broke its protocol.

    ``code`` is a short stable name (``bad_chunk_size``, ``premature_eof``, ...; the full list stands in the modules of
    ``loadgen.wire``). The message says what was expected, what came (quoted, shortened) and at which byte.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class ConnectError(LoadgenError):
    """No usable connection to the target.

    ``tls`` tells a failed handshake from a failed connect; ``local``: this machine had no descriptor or port left, which
    is not the target's doing.
    """

    def __init__(self, message: str, *, tls: bool = False, local: bool = False) -> None:
        super().__init__(message)
        self.tls = tls
        self.local = local


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong in a workload: where (path and line in the file), what, and the way out."""

    path: str
    message: str
    line: int | None = None

    def render(self, source: str) -> str:
        """``workloads/chat.yaml:12: limit.streams: must be at least 1, got 0``."""
        place = source if self.line is None else f"{source}:{self.line}"
        return f"{place}: {self.path}: {self.message}" if self.path else f"{place}: {self.message}"


class WorkloadError(LoadgenError):
    """All problems of one workload at once; nothing was sent."""

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__("\n".join(p.render(source) for p in self.problems))


class OutputError(LoadgenError):
    """The run's files cannot be written."""


class RunFolderError(LoadgenError):
    """A run's files are missing or damaged, or say that these runs should not be compared."""


class GeneratorError(LoadgenError):
    """The generator's own processes did not come up."""


def shorten(raw: bytes | str, limit: int = 80) -> str:
    """A quotation of peer data for messages: one line, printable, at most ``limit`` characters plus an ellipsis."""
    text = raw.decode("utf-8", "backslashreplace") if isinstance(raw, bytes) else raw
    quoted = repr(text[: limit + 1])
    return quoted if len(text) <= limit else f"{quoted[: limit + 1]}...{quoted[0]}"

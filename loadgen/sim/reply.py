"""What the answer to one request looks like on the wire, event by event. Here: the seam, and plain SSE."""

from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from loadgen.sim.http import Framing
from loadgen.workload.sim_script import FaultKind

PING: Final = b": ping\n\n"
DONE: Final = b"data: [DONE]\n\n"
FAULT_MESSAGE: Final = "scripted fault"


class Reply(Protocol):
    """Bytes for the connection at each point of a stream's life; b"" where this kind of answer says nothing.

    ``close``: the connection ends after the answer.
    """

    close: bool

    def head(self) -> bytes:
        """At arrival."""
        ...

    def role(self) -> bytes:
        """Once, before the first token."""
        ...

    def token(self, first: int, tokens: int, mono_ns: int, wall_ns: int) -> bytes:
        """Tokens number ``first`` and up, in one event that is sent now."""
        ...

    def finish(self, tokens: int) -> bytes:
        """After the last one of ``tokens``."""
        ...

    def fault(self, kind: FaultKind) -> bytes:
        """In place of the next token; the stream ends here."""
        ...

    def ping(self) -> bytes:
        """After a silence."""
        ...


class PlainReply:
    """``/sse``: every token is one event ``data: n``, or with stamps ``data: {"n":...,"mono_ns":...,"wall_ns":...}``."""

    def __init__(self, framing: Framing, *, stamps: bool) -> None:
        self.close = framing.close
        self._framing = framing
        self._stamps = stamps

    def head(self) -> bytes:
        return self._framing.stream_head()

    def role(self) -> bytes:
        return b""

    def token(self, first: int, tokens: int, mono_ns: int, wall_ns: int) -> bytes:
        del tokens  # an event is an event here
        data = b'{"n":%d,"mono_ns":%d,"wall_ns":%d}' % (first, mono_ns, wall_ns) if self._stamps else b"%d" % first
        return self._framing.frame(b"data: %s\n\n" % data)

    def finish(self, tokens: int) -> bytes:
        del tokens
        return self._framing.last

    def fault(self, kind: FaultKind) -> bytes:
        return build_stream_fault(kind, self._framing)

    def ping(self) -> bytes:
        return self._framing.frame(PING)


def build_stream_fault(kind: FaultKind, framing: Framing, errors: "FaultWords | None" = None) -> bytes:
    """The bytes by which a stream of events breaks; ``errors``: an API's own, if not those of OpenAI-compatible servers."""
    errors = errors or _OPENAI_FAULT
    match kind:
        case FaultKind.ERROR_OBJECT:
            return framing.frame(errors.error) + framing.last
        case FaultKind.ERROR_EVENT:
            return framing.frame(errors.named) + framing.last
        case FaultKind.CUT_CLEAN:
            return framing.last
        case FaultKind.CUT_IN_CHUNK:
            return framing.broken(errors.begun)
        case _:
            return b""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultWords:
    """Events by which an API tells an error in mid-stream: plain, and named error; and the beginning of any event."""

    error: bytes
    named: bytes
    begun: bytes


def build_error(message: str, kind: str, code: int) -> bytes:
    """An error as OpenAI-compatible servers word it."""
    return msgspec.json.encode({"error": {"message": message, "type": kind, "param": None, "code": code}})


_FAULT: Final = build_error(FAULT_MESSAGE, "server_error", 500)
_OPENAI_FAULT: Final = FaultWords(
    error=b"data: %s\n\n%s" % (_FAULT, DONE), named=b"event: error\ndata: %s\n\n" % _FAULT, begun=b'data: {"choi'
)

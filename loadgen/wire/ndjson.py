"""Newline-delimited JSON (application/x-ndjson), bytes to lines, for APIs that stream so: Ollama's own.

Contract: ``feed`` any cut of the body, get the lines that are complete by then: a line counts when its LF came, not before,
whatever its JSON looks like, because only then is it known to be whole. White space around a line (a CR before its LF too)
is no part of it, and blank lines are skipped. ``close`` drops a line without an LF: the stream was cut inside it.

Errors: WireError ``line_too_big`` when a peer sends more than the bound below.
"""

from loadgen.errors import WireError, shorten
from loadgen.wire.sse import MAX_LINE_BYTES, SseEvent

_SPACE = b" \t\r"


class NdjsonParser:
    """Feed it bytes, get lines; each is an event of the type ``message``, so that readers know one kind of event."""

    __slots__ = ("_buffer", "_max_line", "_offset")

    def __init__(self, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._buffer = bytearray()  # an unfinished line; holds no LF
        self._offset = 0  # bytes of the stream before the buffer
        self._max_line = max_line_bytes

    @property
    def partial(self) -> bool:
        """Bytes of a line that is not complete yet are held."""
        return bool(self._buffer)

    @property
    def at_rest(self) -> bool:
        """Between two lines."""
        return not self._buffer

    def skip(self, size: int) -> None:
        """So many bytes were whole lines that somebody else recognised; only while ``at_rest``."""
        self._offset += size

    def feed(self, data: bytes | bytearray | memoryview) -> list[SseEvent]:
        """The lines that ``data`` completes, in order."""
        raw, buffer = bytes(data), self._buffer
        end = raw.rfind(b"\n") + 1  # only what is new is searched: byte-by-byte feeding stays linear
        if not end:
            buffer += raw
            self._check(buffer)
            return []
        whole = bytes(buffer) + raw[:end] if buffer else raw[:end]
        buffer.clear()
        events = []
        for line in whole[:-1].split(b"\n"):
            self._check(line)
            self._offset += len(line) + 1
            if text := line.strip(_SPACE):
                events.append(SseEvent("message", text.decode("utf-8", "replace"), ""))
        if end < len(raw):
            buffer += raw[end:]
            self._check(buffer)
        return events

    def close(self) -> list[SseEvent]:
        """The stream ended: an unfinished line is discarded. Always empty."""
        self._buffer.clear()
        return []

    def _check(self, line: bytes | bytearray) -> None:
        if len(line) > self._max_line:
            begins, place = shorten(bytes(line[:40])), self._offset
            raise WireError("line_too_big", f"a line of more than {self._max_line} bytes at byte {place}, it begins {begins}")

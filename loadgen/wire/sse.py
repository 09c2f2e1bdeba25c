"""Server-sent events, bytes to events, per WHATWG HTML 9.2.5 and 9.2.6.

Contract: ``feed`` any cut of the body, get the events that are complete by then, never later than the spec allows: a blank
line dispatches at its CR, without waiting to see whether an LF follows. ``close`` drops what is unfinished, as the text says.

Errors: WireError ``line_too_big`` or ``event_too_big`` when a peer sends more than the bounds below.
"""

import re
from typing import Final

from loadgen.errors import WireError, shorten

MAX_LINE_BYTES: Final = 64 << 20  # an event of one line may carry an image; beyond this it is an attack or a bug
MAX_EVENT_BYTES: Final = 128 << 20

_WHOLE_EVENT: Final = re.compile(rb"(?:event: ([^\r\n]*)\r?\n)?data: ?([^\r\n]*)(?:\n\n|\r\n\r\n)")
_BOM: Final = b"\xef\xbb\xbf"
_CR: Final = 0x0D
_LF: Final = 0x0A


class SseEvent:
    """One dispatched event. ``type`` is ``message`` unless the event named another."""

    __slots__ = ("data", "last_event_id", "type")

    def __init__(self, type: str, data: str, last_event_id: str) -> None:  # noqa: A002 - the spec's own word
        self.type = type
        self.data = data
        self.last_event_id = last_event_id

    def __repr__(self) -> str:
        return f"SseEvent(type={self.type!r}, data={shorten(self.data)}, last_event_id={self.last_event_id!r})"


class SseParser:
    """Feed it bytes, get events.

    ``last_event_id`` is the spec's "last event ID string" (set when an event is dispatched, data or not),
    ``retry_ms`` the reconnection time the stream asked for, ``comments`` the number of comment lines.
    """

    __slots__ = (
        "_buffer", "_data", "_data_bytes", "_id", "_max_event", "_max_line", "_offset", "_scanned", "_skip_lf",
        "_started", "_type", "comments", "last_event_id", "retry_ms",
    )  # fmt: skip

    def __init__(self, *, max_line_bytes: int = MAX_LINE_BYTES, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.last_event_id = ""
        self.retry_ms: int | None = None
        self.comments = 0
        self._buffer = bytearray()  # an unfinished line
        self._scanned = 0  # so much of it holds no line end: keeps byte-by-byte feeding linear
        self._skip_lf = False  # the last line ended in CR: an LF right after it belongs to it
        self._started = False  # the BOM, if any, is behind us
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._type = b""
        self._id = ""  # the "last event ID buffer"
        self._offset = 0  # bytes of the stream before the buffer
        self._max_line = max_line_bytes
        self._max_event = max_event_bytes

    @property
    def partial(self) -> bool:
        """Bytes of an event that is not dispatched yet are held."""
        return bool(self._buffer or self._data or self._type)

    @property
    def at_rest(self) -> bool:
        """Between two events: whatever comes next is read as it would be at any other such moment."""
        return self._started and not self._skip_lf and not self.partial

    def skip(self, size: int) -> None:
        """So many bytes were whole events that somebody else recognised; only while ``at_rest``."""
        self._offset += size

    def feed(self, data: bytes | bytearray | memoryview) -> list[SseEvent]:
        """The events that ``data`` completes, in order."""
        if not self._buffer and not self._data and self._started and not self._skip_lf:
            event = self._whole_event(data)
            if event is not None:
                return [event]
        buffer = self._buffer
        buffer += data
        if not self._started and not self._strip_bom():
            return []
        return self._take_lines()

    def close(self) -> list[SseEvent]:
        """The stream ended: an unfinished event is discarded (9.2.6, last paragraph). Always empty."""
        self._buffer.clear()
        self._data.clear()
        self._type = b""
        self._data_bytes = self._scanned = 0
        return []

    def _whole_event(self, data: bytes | bytearray | memoryview) -> SseEvent | None:
        """The usual cases without the line machinery: one ``data`` line and a blank one, and nothing else in the read.

        Before it there may be an ``event`` line (Anthropic, OpenAI's responses); lines may end in CRLF (Gemini).
        """
        raw = bytes(data)
        if self._type or len(raw) > self._max_line:
            return None
        if (
            raw.startswith(b"data: ")
            and raw.endswith(b"\n\n")
            and raw.find(b"\n") == len(raw) - 2
            and b"\r" not in raw
        ):  # fmt: skip
            kind, text = "message", raw[6:-2]
        elif match := _WHOLE_EVENT.fullmatch(raw):
            kind, text = (match[1] or b"message").decode("utf-8", "replace"), match[2]
        else:
            return None
        self._offset += len(raw)
        self.last_event_id = self._id
        return SseEvent(kind, text.decode("utf-8", "replace"), self._id)

    def _strip_bom(self) -> bool:
        """False while it is open whether the stream begins with a BOM."""
        buffer = self._buffer
        if len(buffer) < len(_BOM) and _BOM.startswith(buffer):
            return False
        if buffer.startswith(_BOM):
            del buffer[: len(_BOM)]
            self._offset += len(_BOM)
        self._started = True
        return True

    def _take_lines(self) -> list[SseEvent]:
        events: list[SseEvent] = []
        buffer, at = self._buffer, 0
        size = len(buffer)
        search = self._scanned
        lf = cr = -2  # -2: not looked for yet; -1: there is none
        while True:
            if self._skip_lf and at < size:
                self._skip_lf = False
                if buffer[at] == _LF:
                    at += 1
            search = max(search, at)
            if lf != -1 and lf < search:
                lf = buffer.find(b"\n", search)
            if cr != -1 and cr < search:
                cr = buffer.find(b"\r", search)
            if lf < 0 and cr < 0:
                break
            end = lf if cr < 0 or 0 <= lf < cr else cr
            if end - at > self._max_line:
                self._too_long(at)
            self._skip_lf = end == cr
            self._line(bytes(buffer[at:end]), events)
            at = search = end + 1
        if size - at > self._max_line:
            self._too_long(at)
        del buffer[:at]
        self._offset += at
        self._scanned = len(buffer)
        return events

    def _line(self, line: bytes, events: list[SseEvent]) -> None:
        """Interpret one line (9.2.6)."""
        if not line:
            self._dispatch(events)
            return
        name, colon, value = line.partition(b":")
        if colon and value.startswith(b" "):
            value = value[1:]
        match name:
            case b"data":
                self._data.append(value)
                self._data_bytes += len(value) + 1
                if self._data_bytes > self._max_event:
                    raise WireError("event_too_big", f"an event of more than {self._max_event} bytes")
            case b"event":
                self._type = value
            case b"id":
                if b"\0" not in value:
                    self._id = value.decode("utf-8", "replace")
            case b"retry":
                if value.isdigit():
                    self.retry_ms = _retry(value, self.retry_ms)
            case b"" if colon:
                self.comments += 1

    def _dispatch(self, events: list[SseEvent]) -> None:
        self.last_event_id = self._id
        if self._data:
            data = b"\n".join(self._data).decode("utf-8", "replace")
            kind = self._type.decode("utf-8", "replace") or "message"
            events.append(SseEvent(kind, data, self._id))
            self._data.clear()
            self._data_bytes = 0
        self._type = b""

    def _too_long(self, at: int) -> None:
        begins = shorten(bytes(self._buffer[at : at + 40]))
        place = self._offset + at
        raise WireError("line_too_big", f"a line of more than {self._max_line} bytes at byte {place}, it begins {begins}")


def _retry(digits: bytes, before: int | None) -> int | None:
    """Milliseconds; a number that no clock could hold changes nothing."""
    return int(digits) if len(digits) <= 18 else before

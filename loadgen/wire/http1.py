"""HTTP/1.1 response framing, bytes to body (RFC 9112), for one response on a connection.

Why our own: a cut chunk, a bad size and a peer that closed early are findings here and need names. httptools gives no
names, no leftover bytes and no limits (it takes `gzip, chunked` and endless heads); h11 has none of the names either and
costs 4.4 us a chunk. A whole chunk costs 0.8 us here against httptools' 0.14 (benchmarks/wire_micro.py), beside 4 us for
the read itself.

Errors are WireError with one of these codes: bad_status_line bad_header header_too_big bad_content_length
unsupported_transfer_encoding bad_chunk_size chunk_size_too_big bad_chunk_ext missing_chunk_crlf line_too_big bad_trailer
premature_eof. What came whole before the error can still be taken.
"""

import re
from enum import Enum
from typing import Final

from loadgen.errors import WireError, shorten
from loadgen.wire.http1_head import MAX_HEAD_BYTES, Fields, check_status_prefix, find_head_end, parse_fields, parse_head

MAX_CHUNK_LINE_BYTES: Final = 16 << 10
MAX_CHUNK_BYTES: Final = (1 << 63) - 1
MAX_INFORMATIONAL: Final = 64

_HEX: Final = re.compile(rb"[0-9A-Fa-f]+")
_CHUNK_EXT: Final = re.compile(rb"[ \t]*;[^\0-\x08\x0a-\x1f\x7f]*")
_LENGTH: Final = re.compile(r"[0-9]{1,19}")
_SIZES: Final = {b"%x" % n: n for n in range(1, 4096)}  # the usual chunk sizes, without a regular expression


class _State(Enum):
    HEAD = "head"
    SIZE = "chunk size"
    DATA = "chunk data"
    DATA_END = "line end after chunk data"
    TRAILERS = "trailers"
    LENGTH = "body of a known length"
    CLOSE = "body until the connection closes"
    DONE = "done"


def chunk_begin(data: bytes) -> int:
    """Where the data of a chunk begins, if ``data`` is one whole chunk in its usual spelling and nothing else; else 0.

    For callers that know the parser to be ``between_chunks``. The last chunk is not meant.
    """
    eol = data.find(b"\r\n", 1, 6)
    return eol + 2 if _SIZES.get(data[:eol]) == len(data) - eol - 4 and data.endswith(b"\r\n") else 0


def whole_chunks(data: bytes) -> list[tuple[int, int]]:
    """The same for any number of chunks: where the data of each stand; else nothing."""
    spans = []
    at, size = 0, len(data)
    while at < size:
        eol = data.find(b"\r\n", at + 1, at + 6)
        length = _SIZES.get(data[at:eol])
        if length is None:
            return []
        begin, end = eol + 2, eol + 2 + length
        if data[end : end + 2] != b"\r\n":
            return []
        spans.append((begin, end))
        at = end + 2
    return spans


class ResponseParser:
    """Attributes are valid at any time; ``status``, ``headers`` and ``framing`` once ``head_complete``.

    ``framing``: chunked, content-length, close or none. ``info``: the 1xx statuses before the final one. ``leftover``:
    bytes behind the end of the message. ``keep_alive``: the connection may carry another request; never before the
    message is complete.
    """

    __slots__ = (
        "_body", "_buffer", "_error", "_left", "_method", "_offset", "_persistent", "_scanned", "_state", "framing",
        "head_complete", "headers", "info", "leftover", "reason", "status", "trailers", "version",
    )  # fmt: skip

    def __init__(self, *, request_method: str = "POST") -> None:
        self.status: int | None = None
        self.reason: str | None = None
        self.version: str | None = None
        self.headers: Fields = []
        self.trailers: Fields = []
        self.info: list[int] = []
        self.framing: str | None = None
        self.head_complete = False
        self.leftover = b""
        self._method = request_method
        self._state = _State.HEAD
        self._buffer = bytearray()  # an unfinished head, chunk line or trailer section
        self._scanned = 0
        self._offset = 0  # bytes consumed before the buffer, for messages
        self._body: list[bytes] = []
        self._left = 0  # bytes of the current chunk, or of the body, still to come
        self._persistent = False
        self._error: WireError | None = None

    @property
    def body_complete(self) -> bool:
        """The message ended as its framing says."""
        return self._state is _State.DONE

    @property
    def keep_alive(self) -> bool:
        return self.body_complete and self._persistent and not self.leftover and self._error is None

    @property
    def between_chunks(self) -> bool:
        """The next byte begins a chunk."""
        return self._state is _State.SIZE and not self._buffer

    def header(self, name: str) -> str | None:
        """The first value of a header field; ``name`` in lower case."""
        for found, value in self.headers:
            if found == name:
                return value
        return None

    def take_body(self) -> bytes:
        """Body bytes since the last call, free of transfer coding, content coding untouched."""
        body = self._body
        if len(body) == 1:
            return body.pop()
        joined = b"".join(body)
        body.clear()
        return joined

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take what arrived. Raises WireError; after that every further call raises it again."""
        if self._error is not None:
            raise self._error
        data = bytes(data)
        at = self._take_whole_chunks(data) if self._state is _State.SIZE and not self._buffer else 0
        try:
            self._feed(data, at)
        except WireError as error:
            self._error = error
            raise

    def close(self) -> None:
        """The peer closed. Raises WireError premature_eof unless that is how the message ends, or it had ended."""
        if self._error is not None:
            raise self._error
        match self._state:
            case _State.DONE:
                return
            case _State.CLOSE:
                self._state = _State.DONE
                return
            case _State.HEAD if not self._buffer and not self.info:
                where = "before any response"
            case _State.HEAD:
                where = "inside the response head"
            case _State.LENGTH:
                where = f"with {self._left} bytes of the body to come"
            case _State.DATA:
                where = f"with {self._left} bytes of a chunk to come"
            case state:
                where = f"where the {state.value} should be; the last chunk never came"
        self._error = WireError("premature_eof", f"the peer closed the connection {where}")
        raise self._error

    # ---- states

    def _take_whole_chunks(self, data: bytes) -> int:
        """The usual read, without the state machine: chunks that are all there. Returns where they end."""
        at, body = 0, self._body
        while True:
            eol = data.find(b"\r\n", at)
            size = _SIZES.get(data[at:eol])
            if size is None or eol < 0:
                return at
            begin, end = eol + 2, eol + 2 + size
            if data[end : end + 2] != b"\r\n":
                return at
            body.append(data[begin:end])
            self._offset += size
            at = end + 2

    def _feed(self, data: bytes, at: int) -> None:
        while at < len(data):
            match self._state:
                case _State.DATA:
                    at = self._take_data(data, at)
                    if not self._left:
                        self._state = _State.DATA_END
                case _State.DATA_END:
                    at = self._take_data_end(data, at)
                    if at < 0:
                        return
                    self._state = _State.SIZE
                case _State.SIZE:
                    at = self._take_size(data, at)
                    if at < 0:
                        return
                case _State.HEAD:
                    at = self._take_head(data, at)
                    if at < 0:
                        return
                case _State.LENGTH:
                    at = self._take_data(data, at)
                    if not self._left:
                        self._state = _State.DONE
                case _State.TRAILERS:
                    at = self._take_trailers(data, at)
                    if at < 0:
                        return
                case _State.CLOSE:
                    if at < len(data):
                        self._body.append(data[at:])
                    return
                case _State.DONE:
                    self.leftover += data[at:]
                    return

    def _take_data(self, data: bytes, at: int) -> int:
        end = min(at + self._left, len(data))
        if end > at:
            self._body.append(data[at:end])
            self._left -= end - at
            self._offset += end - at
        return end

    def _take_data_end(self, data: bytes, at: int) -> int:
        """The CRLF behind a chunk's data; -1: not all there yet."""
        got = bytes(self._buffer) + data[at : at + 2 - len(self._buffer)]
        if not b"\r\n".startswith(got):
            raise WireError(
                "missing_chunk_crlf",
                f"expected CRLF after the chunk's data at body byte {self._offset}, got {shorten(got)}",
            )
        if len(got) < 2:
            self._buffer[:] = got
            return -1
        at += 2 - len(self._buffer)
        self._buffer.clear()
        return at

    def _take_size(self, data: bytes, at: int) -> int:
        """A chunk-size line; -1: not all there yet."""
        buffer = self._buffer
        size_before = len(buffer)
        buffer += data[at : at + MAX_CHUNK_LINE_BYTES + 1]
        end = buffer.find(b"\r\n", max(self._scanned - 1, 0))
        if end < 0:
            if len(buffer) > MAX_CHUNK_LINE_BYTES:
                raise WireError(
                    "line_too_big",
                    f"a chunk-size line of more than {MAX_CHUNK_LINE_BYTES} bytes: {shorten(bytes(buffer))}",
                )
            self._scanned = len(buffer)
            return -1
        size = _parse_chunk_line(bytes(buffer[:end]))
        buffer.clear()
        self._scanned = 0
        if size:
            self._left = size
            self._state = _State.DATA
        else:
            self._state = _State.TRAILERS
        return at + end + 2 - size_before

    def _take_trailers(self, data: bytes, at: int) -> int:
        buffer = self._buffer
        size_before = len(buffer)
        buffer += data[at:]
        if buffer.startswith((b"\r\n", b"\n")):
            end = buffer.index(b"\n") + 1
        else:
            end = find_head_end(buffer, max(self._scanned - 3, 0))
            self._scanned = len(buffer)
            if end < 0:
                if len(buffer) > MAX_HEAD_BYTES:
                    raise WireError("header_too_big", f"a trailer section of more than {MAX_HEAD_BYTES} bytes")
                return -1
        self.trailers = parse_fields(bytes(buffer[:end]), "bad_trailer")
        buffer.clear()
        self._scanned = 0
        self._state = _State.DONE
        return at + end - size_before

    def _take_head(self, data: bytes, at: int) -> int:
        buffer = self._buffer
        size_before = len(buffer)
        buffer += data[at:]
        check_status_prefix(buffer)
        end = find_head_end(buffer, max(self._scanned - 3, 0))
        self._scanned = len(buffer)
        if (end if end >= 0 else len(buffer)) > MAX_HEAD_BYTES:
            raise WireError("header_too_big", f"a response head of more than {MAX_HEAD_BYTES} bytes")
        if end < 0:
            return -1
        head = parse_head(bytes(buffer[:end]))
        buffer.clear()
        self._scanned = 0
        at += end - size_before
        if head.status == 101:
            raise WireError("bad_status_line", "101 Switching Protocols, which nobody asked for")
        if head.status < 200:
            self.info.append(head.status)
            if len(self.info) > MAX_INFORMATIONAL:
                raise WireError("header_too_big", f"more than {MAX_INFORMATIONAL} informational responses")
            return at
        self.version, self.status, self.reason, self.headers = head
        self._choose_framing(head.status)
        self.head_complete = True
        return at

    def _choose_framing(self, status: int) -> None:
        """RFC 9112, 6.3, in its order."""
        tokens = {t.strip().lower() for name, v in self.headers if name == "connection" for t in v.split(",")}
        self._persistent = "close" not in tokens and (self.version != "1.0" or "keep-alive" in tokens)
        codings = [v for name, v in self.headers if name == "transfer-encoding"]
        lengths = [v for name, v in self.headers if name == "content-length"]
        if self._method == "HEAD" or status in {204, 304}:
            self.framing, self._state = "none", _State.DONE
        elif codings:
            # A Content-Length beside it is overruled (6.3, 3).
            self.framing = "chunked"
            coding = ",".join(codings).strip().lower()
            if coding != "chunked" or self.version == "1.0":
                raise WireError(
                    "unsupported_transfer_encoding",
                    f"expected Transfer-Encoding: chunked on HTTP/1.1, got {shorten(coding)} on HTTP/{self.version}",
                )
            self._state = _State.SIZE
        elif lengths:
            self._left = _parse_length(lengths)
            self.framing, self._state = "content-length", _State.LENGTH if self._left else _State.DONE
        else:
            self.framing, self._state = "close", _State.CLOSE
            self._persistent = False


def _parse_chunk_line(line: bytes) -> int:
    """Size of a chunk-size line without its CRLF; extensions are checked for control characters and ignored."""
    match = _HEX.match(line)
    if match is None:
        raise WireError("bad_chunk_size", f"expected a chunk size in hex digits, got {shorten(line)}")
    digits, rest = match[0], line[match.end() :]
    if rest and not _CHUNK_EXT.fullmatch(rest):
        code = "bad_chunk_ext" if rest.lstrip(b" \t").startswith(b";") else "bad_chunk_size"
        raise WireError(code, f"expected CRLF or an extension after the chunk size, got {shorten(line)}")
    if len(digits) > 16 or int(digits, 16) > MAX_CHUNK_BYTES:
        raise WireError("chunk_size_too_big", f"a chunk of {shorten(digits)} (hex) bytes")
    return int(digits, 16)


def _parse_length(values: list[str]) -> int:
    """The one Content-Length; repeated equal values are one (RFC 9110, 8.6)."""
    lengths = {part.strip() for value in values for part in value.split(",")}
    if len(lengths) != 1 or not _LENGTH.fullmatch(length := lengths.pop()):
        raise WireError("bad_content_length", f"expected one decimal length, got {shorten(', '.join(values))}")
    return int(length)

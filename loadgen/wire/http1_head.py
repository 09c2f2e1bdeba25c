"""The head of an HTTP/1.1 response: status line and header fields (RFC 9112, 4 and 5; RFC 9110, 5)."""

import re
from typing import Final, NamedTuple

from loadgen.errors import WireError, shorten

MAX_HEAD_BYTES: Final = 64 << 10  # large cookies and CSPs reach 40 KB; nginx and Apache themselves stop at 8-16 KB a field

_STATUS_LINE: Final = re.compile(rb"HTTP/(1\.[0-9]) ([1-9][0-9]{2})(?: ([^\0\r]*))?")
_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_FORBIDDEN_IN_VALUE: Final = re.compile(rb"[\0\r\n]")

Fields = list[tuple[str, str]]


class Head(NamedTuple):
    """``headers`` have lower-case names and keep the peer's order; values are Latin-1 text, opaque bytes preserved."""

    version: str
    status: int
    reason: str
    headers: Fields


def find_head_end(buffer: bytearray, start: int) -> int:
    """Index just behind the blank line that ends a head, -1 while there is none. Bare LF ends a line too (RFC 9112, 2.2)."""
    crlf = buffer.find(b"\n\r\n", start)
    bare = buffer.find(b"\n\n", start)
    if bare >= 0 and (crlf < 0 or bare < crlf):
        return bare + 2
    return crlf + 3 if crlf >= 0 else -1


def check_status_prefix(buffer: bytearray) -> None:
    """Notice that it is not HTTP as soon as the bytes say so, not when (if ever) a line ends."""
    begins = bytes(buffer[:7])
    if not b"HTTP/1.".startswith(begins):
        raise WireError("bad_status_line", f"expected an HTTP/1.x status line, got {shorten(bytes(buffer[:40]))}")


def parse_head(raw: bytes) -> Head:
    """The head in ``raw``, blank line included. Raises WireError bad_status_line or bad_header."""
    first, _, rest = raw.partition(b"\n")
    line = first.removesuffix(b"\r")
    match = _STATUS_LINE.fullmatch(line)
    if match is None:
        raise WireError("bad_status_line", f"expected an HTTP/1.x status line, got {shorten(line)}")
    headers = parse_fields(rest, "bad_header")
    reason = (match[3] or b"").decode("latin-1").strip()
    return Head(match[1].decode(), int(match[2]), reason, headers)


def parse_fields(raw: bytes, code: str) -> Fields:
    """Header or trailer fields up to a blank line; ``code`` is the error to raise. Folded lines are joined by a space."""
    fields: Fields = []
    for line in raw.split(b"\n"):
        line = line.removesuffix(b"\r")  # noqa: PLW2901 - the line without its end
        if not line:
            break
        if line[0] in b" \t":
            if not fields:
                raise WireError(code, f"a continuation line with nothing to continue: {shorten(line)}")
            name, before = fields[-1]
            fields[-1] = (name, f"{before} {_value(line, code)}".strip())
            continue
        raw_name, colon, value = line.partition(b":")
        if not colon or not _NAME.fullmatch(raw_name):
            raise WireError(code, f"expected a field name and a colon, got {shorten(line)}")
        fields.append((raw_name.decode("ascii").lower(), _value(value, code)))
    return fields


def _value(raw: bytes, code: str) -> str:
    if _FORBIDDEN_IN_VALUE.search(raw):
        raise WireError(code, f"a CR, LF or NUL inside a field value: {shorten(raw)}")
    return raw.strip(b" \t").decode("latin-1")

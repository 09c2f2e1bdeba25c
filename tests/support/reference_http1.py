"""RFC 9112's chunked coding, written straight from its grammar, slowly, for whole bodies."""

import re

_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,16})(?:[ \t]*;[^\r\n]*)?\r\n")


def reference_chunked(body: bytes) -> tuple[bytes, str]:
    """The decoded body, and "complete", "open" or "error"."""
    out, at = b"", 0
    while True:
        match = _CHUNK.match(body, at)
        if match is None:
            return out, "open" if b"\r\n" not in body[at:] else "error"
        size = int(match[1], 16)
        at = match.end()
        if size == 0:
            return out, _trailers(body[at:])
        out += body[at : at + size]
        after = body[at + size : at + size + 2]
        if not b"\r\n".startswith(after):
            return out, "error"
        if len(after) < 2:
            return out, "open"
        at += size + 2


def _trailers(rest: bytes) -> str:
    """Trailers are field lines, which a bare LF ends as well (2.2); chunk-size lines have CRLF only."""
    return "complete" if re.search(rb"\A\r?\n|\n\r?\n", rest) else "open"

"""An HTTP/1.1 request, serialised (RFC 9112, 3)."""

import re
from collections.abc import Iterable
from typing import Final

_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_TARGET: Final = re.compile(r"[!-~]+")  # visible ASCII: anything else must come percent-encoded


def build_request(method: str, path: str, headers: Iterable[tuple[str, str]], body: bytes = b"") -> bytes:
    """The bytes of a request, Content-Length included where there is a body or the method usually has one.

    Raises ValueError for a method, path or header that would break the framing; names the header, never its value.
    """
    if not _TOKEN.fullmatch(method):
        raise ValueError(f"{method!r} is no HTTP method")
    if not _TARGET.fullmatch(path) or not path.startswith("/"):
        raise ValueError(f"the path must start with / and hold visible ASCII only, got {path!r}")
    lines = [f"{method} {path} HTTP/1.1"]
    for name, value in headers:
        if not _TOKEN.fullmatch(name):
            raise ValueError(f"{name!r} is no header name")
        if any(c in value for c in "\r\n\0"):
            raise ValueError(f"the value of header {name} holds a CR, LF or NUL")
        try:
            value.encode("latin-1")
        except UnicodeEncodeError:
            raise ValueError(f"the value of header {name} holds characters outside Latin-1") from None
        lines.append(f"{name}: {value}")
    if body or method in {"POST", "PUT", "PATCH"}:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body

"""What a target's URL and headers may be, checked before anything is sent."""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, urlsplit

from loadgen.errors import shorten
from loadgen.workload.masking import mask_url

_EXAMPLE: Final = "http://127.0.0.1:8000/v1/chat/completions"
_NO_USERINFO: Final = 'must not hold a user or password: send them as a header, headers: {Authorization: "Bearer ${API_KEY}"}'
_DEFAULT_PORT: Final = {"http": 80, "https": 443}
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110, 5.6.2
_HOST: Final = re.compile(r"[0-9A-Za-z_](?:[0-9A-Za-z._-]*[0-9A-Za-z_.])?")  # the underscore: names of containers have it
# Ours to write: a value of the user's would break the framing of the request or the life of the connection.
_FRAMING: Final = frozenset({
    "connection", "content-length", "expect", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding",
    "upgrade",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A URL in parts, ready to be used: ``host`` without brackets, ``path`` with the query and never empty."""

    scheme: str
    host: str
    port: int
    path: str


def parse_url(url: str) -> Address:
    """Raises ValueError; its message never shows credentials."""
    if bad := re.search(r"[^!-~]", url):
        raise ValueError(f"must be percent-encoded ASCII without spaces, got {bad[0]!r} at character {bad.start() + 1}")
    shown = shorten(mask_url(url))
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        if "@" in url:  # a password with a / or : in it, perhaps: what urlsplit quotes is part of it
            raise ValueError(f"is no URL; {_NO_USERINFO}") from None
        raise ValueError(f"is no URL: {error}, got {shown}") from None
    if "://" not in url:
        raise ValueError(f"must begin with http:// or https://, such as {_EXAMPLE}, got {shown}")
    if parts.scheme not in _DEFAULT_PORT:
        raise ValueError(f"must begin with http:// or https://, got {shown}")
    if parts.username is not None or parts.password is not None:
        raise ValueError(_NO_USERINFO)
    if "#" in url:
        raise ValueError(f"must not have a fragment (#...): servers never see it, got {shown}")
    if port == 0:
        raise ValueError(f"must have a port from 1 to 65535, got {shown}")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Address(scheme=parts.scheme, host=_host(parts, shown), port=port or _DEFAULT_PORT[parts.scheme], path=path)


def check_headers(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    """What is wrong, as (header name, message). Values are never shown: they are often credentials."""
    problems: list[tuple[str, str]] = []
    seen: dict[str, str] = {}
    for name, value in headers.items():
        lower = name.lower()
        if lower in seen:
            problems.append((name, f"is given twice: {seen[lower]} is the same header"))
        seen[lower] = name
        if message := _check_header(name, lower, value):
            problems.append((name, message))
    return problems


def _check_header(name: str, lower: str, value: str) -> str:
    if not _TOKEN.fullmatch(name):
        return f"{shorten(name)} is no header name: letters, digits and -_. are usual"
    if lower in _FRAMING:
        return "is written by loadgen itself, from what it sends and how connections are used: leave it out"
    if value != value.rstrip("\r\n"):
        return "ends with a line break; if it comes from a variable or a file, cut the line break off there"
    if any(c in value for c in "\r\n\0"):
        return "must not hold CR, LF or NUL: they would end the header"
    if value != value.strip(" \t"):
        return "must not begin or end with spaces"
    try:
        value.encode("latin-1")
    except UnicodeEncodeError as error:
        return f"must hold Latin-1 characters only, character {error.start + 1} is not"
    return ""


def _host(parts: SplitResult, shown: str) -> str:
    host = parts.hostname
    if not host:
        raise ValueError(f"has no host, such as {_EXAMPLE}, got {shown}")
    if ":" in host:
        try:
            address = ipaddress.IPv6Address(host)
        except ValueError:
            raise ValueError(f"has a host in [] that is no IPv6 address, got {shown}") from None
        if address.scope_id is not None:
            raise ValueError(f"must not name an interface (%...), got {shown}")
    elif not _HOST.fullmatch(host) or ".." in host:
        raise ValueError(f"has a host that is neither a name nor an address, got {shown}")
    return host

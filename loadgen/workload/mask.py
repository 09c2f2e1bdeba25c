"""Secrets out of everything that is written: headers, query parameters and body values that look like keys."""

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

MASK: Final = "***"
_SECRET: Final = re.compile(r"auth|key|token|secret|password|passwd|cookie|credential|signature", re.IGNORECASE)
_NOT_SECRET: Final = frozenset({"max_tokens", "max_completion_tokens", "first_token", "per_token", "block_tokens",
                                "tokens_per_event", "min_tokens", "stop_token_ids"})  # fmt: skip


def mask(value: Any, *, key: str = "", secrets: frozenset[str] = frozenset()) -> Any:
    """A copy with every secret replaced by ``***``: by the name it stands under, or because it came from ``secrets``."""
    match value:
        case Mapping():
            return {k: mask(v, key=str(k), secrets=secrets) for k, v in value.items()}
        case list() | tuple():
            return [mask(v, key=key, secrets=secrets) for v in value]
        case str():
            return _mask_text(value, key, secrets)
        case _:
            return value


def _mask_text(text: str, key: str, secrets: frozenset[str]) -> str:
    if _SECRET.search(key) and key not in _NOT_SECRET:
        return MASK
    for secret in secrets:
        text = text.replace(secret, MASK)
    if text.startswith(("http://", "https://")) and "?" in text:
        parts = urlsplit(text)
        query = [(k, MASK if _SECRET.search(k) else v) for k, v in parse_qsl(parts.query, keep_blank_values=True)]
        text = urlunsplit(parts._replace(query=urlencode(query, safe="*")))
    return text

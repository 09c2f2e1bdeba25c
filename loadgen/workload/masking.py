"""Keeping secrets out of what is shown and written: header values, query parameters, values of secret variables."""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

MASK: Final = "***"
_SECRET_NAME: Final = re.compile(
    r"auth|cookie|secret|password|passwd|credential|signature|session|api[-_]?key|(token|key|sig|code)$", re.IGNORECASE
)
# A shorter value is masked only where it is the whole text: replacing "1" or "true" everywhere would garble the rest.
_MIN_PART: Final = 6


def is_secret_name(name: str) -> bool:
    """Whether a header, query parameter or body field of this name usually holds a credential."""
    return _SECRET_NAME.search(name) is not None


def mask_url(url: str) -> str:
    """``url`` with userinfo and key-like query values masked, otherwise letter for letter the same. Takes any text."""
    before, mark, query = url.partition("?")
    scheme, slashes, rest = before.rpartition("://")
    authority, slash, path = rest.partition("/")
    userinfo, at, host = authority.rpartition("@")
    if userinfo:
        authority = f"{MASK}{at}{host}"
    return f"{scheme}{slashes}{authority}{slash}{path}{mark}{'&'.join(map(_mask_parameter, query.split('&')))}"


def mask_named(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Texts below secret names masked, at any depth."""
    return {name: _mask_below(value) if is_secret_name(name) else _deeper(value) for name, value in mapping.items()}


def credentials_of(headers: Mapping[str, str]) -> frozenset[str]:
    """The secret part of header values that hold credentials: without the scheme, such as ``Bearer``."""
    return frozenset(value.split()[-1] for name, value in headers.items() if is_secret_name(name) and value.split())


def mask_values(data: Any, secrets: Collection[str]) -> Any:
    """Every occurrence of one of ``secrets`` in the texts of ``data`` (mappings, lists, scalars) masked."""
    if isinstance(data, str):
        for secret in sorted(secrets, key=len, reverse=True):
            if data == secret:
                return MASK
            if len(secret) >= _MIN_PART:
                data = data.replace(secret, MASK)
        return data
    if isinstance(data, Mapping):
        return {key: mask_values(value, secrets) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [mask_values(item, secrets) for item in data]
    return data


def _mask_parameter(parameter: str) -> str:
    name, equals, value = parameter.partition("=")
    return f"{name}={MASK}" if equals and value and is_secret_name(name) else parameter


def _mask_below(value: Any) -> Any:
    if isinstance(value, str):
        return MASK
    if isinstance(value, Mapping):
        return {key: _mask_below(inner) for key, inner in value.items()}
    return [_mask_below(item) for item in value] if isinstance(value, list | tuple) else value


def _deeper(value: Any) -> Any:
    if isinstance(value, Mapping):
        return mask_named(value)
    return [_deeper(item) for item in value] if isinstance(value, list | tuple) else value

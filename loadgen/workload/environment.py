"""``${NAME}`` in the strings of a workload: ``${NAME:-default}`` where it may be unset or empty, ``$$`` for a dollar.

A dollar that begins none of these stays as it is. Text that must hold ``${`` itself writes ``$${``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from loadgen.errors import shorten

_REFERENCE: Final = re.compile(r"\$\$|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|\$\{(?P<bad>[^}]*\}?)")
_SECRET_NAME: Final = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PWD|COOKIE|CREDENTIALS?|AUTH)(_|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expanded:
    """A text with its references resolved.

    ``secrets`` are the values of variables whose names say that they must not be shown. ``problems`` are in words; a
    text with problems is not to be used.
    """

    text: str
    secrets: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def expand(text: str, env: Mapping[str, str]) -> Expanded:
    """Resolves every reference in ``text``."""
    secrets: list[str] = []
    problems: list[str] = []

    def resolve(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        if match["name"] is None:
            problems.append(f"{shorten(match[0])} is no reference: write ${{NAME}}, ${{NAME:-default}}, or $${{ for the text")
            return ""
        name, default = match["name"], match["default"]
        value = env.get(name)
        if default is not None and not value:
            return default
        if value is None:
            problems.append(f"the environment variable {name} is not set: export it, or give a default: ${{{name}:-...}}")
            return ""
        if _SECRET_NAME.search(name) and value:
            secrets.append(value)
        return value

    resolved = _REFERENCE.sub(resolve, text)
    return Expanded(text=resolved, secrets=tuple(secrets), problems=tuple(problems))


def is_single_reference(text: str) -> bool:
    """Whether ``text`` is one ``${...}`` and nothing else."""
    match = _REFERENCE.fullmatch(text)
    return match is not None and match["name"] is not None

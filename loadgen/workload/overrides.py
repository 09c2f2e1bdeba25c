"""``--set path=value``: one key of a workload changed from the command line.

The path is dotted, list items by number from 0 (``load.0.streams``); the value is YAML (``5s``, ``[1, 400]``,
``null``). Mappings on the way that are not in the file are made; list items are not.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from loadgen.errors import Problem, WorkloadError
from loadgen.workload.document import Document, Path, dotted, parse_document

_INDEX_DIGITS: Final = 20  # int() refuses thousands of them


def apply_overrides(document: Document, overrides: Sequence[str], env: Mapping[str, str]) -> None:
    """Changes ``document`` in place, the last word last. What is wrong goes to its problems, naming the override."""
    for override in overrides:
        written, equals, text = override.partition("=")
        path = tuple(_segment(part) for part in written.strip().split("."))
        name = f"--set {written.strip()}"
        if not equals or "" in path:
            document.problems.append(Problem(path=f"--set {override.split('=')[0]}", message="write it as path=value"))
            continue
        try:
            value = parse_document(text, name, env)
        except WorkloadError as error:
            document.problems += [Problem(path=name, message=p.message) for p in error.problems]
            continue
        if value.problems:
            document.problems += [Problem(path=_join(name, p.path), message=p.message) for p in value.problems]
            document.unset |= {(*path, *inner) for inner in value.unset}
        document.secrets |= value.secrets
        document.secret_paths |= {(*path, *inner) for inner in value.secret_paths}
        document.overrides.add(path)
        message = _put(document, path, value.data)
        if message:
            document.problems.append(Problem(path=name, message=message))


def _put(document: Document, path: Path, value: Any) -> str:
    """Stores ``value``; says what stands in the way, "" for nothing."""
    if document.data is None:
        document.data = {}
    at: Any = document.data
    for index, part in enumerate(path):
        here = dotted(path[:index]) or "the file"
        match at, part:
            case dict(), _:
                part = str(part)  # noqa: PLW2901 - keys are text, also those that look like numbers
            case list(), int() if part < len(at):
                pass
            case list(), int():
                return f"{here} has {len(at)} {'entry' if len(at) == 1 else 'entries'}, numbered from 0"
            case list(), _:
                return f"{here} is a list: name the entry by its number, as in {here}.0.{part}"
            case _:
                return f"{here} is one value, it has no {part} in it"
        if index == len(path) - 1:
            at[part] = value
            return ""
        if isinstance(at, dict) and at.get(part) is None:
            if isinstance(path[index + 1], int):
                key = dotted(path[: index + 1])
                return f"{key} is not in the file: set the whole list, as in --set '{key}=[...]'"
            at[part] = {}
        at = at[part]
    return ""


def _segment(part: str) -> str | int:
    return int(part) if part.isascii() and part.isdigit() and len(part) <= _INDEX_DIGITS else part


def _join(name: str, inner: str) -> str:
    return f"{name}: {inner}" if inner else name

"""From a file to a Workload: YAML with line numbers, environment, overrides, schema; all problems told at once."""

import os
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from io import StringIO
from pathlib import Path
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from loadgen.errors import Problem, WorkloadError, shorten
from loadgen.workload.mask import mask
from loadgen.workload.schema import Origin, Workload
from loadgen.workload.sim_script import SimScript

Path_ = tuple[str | int, ...]

# In the format, not in this version. Each gets its own sentence instead of "unknown key".
NOT_YET: Final[tuple[tuple[str, ...], ...]] = (
    ("aborts",), ("variants",), ("rounds",), ("target", "metrics"), ("transport", "windows"),
    ("transport", "streams_per_connection"), ("load", "*", "arrivals"), ("load", "*", "capacity"),
)  # fmt: skip
_VARIABLE: Final = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_SECRET_VARIABLE: Final = re.compile(r"KEY|TOKEN|SECRET|PASS|AUTH|CREDENTIAL", re.IGNORECASE)


def load(path: str | Path, overrides: Sequence[str] = (), env: Mapping[str, str] | None = None) -> Workload:
    """Read a workload file. ``overrides`` are ``path=value``. Raises WorkloadError with every problem found."""
    path = Path(path)
    text = _read(path)
    return loads(text, source=str(path), folder=path.parent, name=path.stem, overrides=overrides, env=env)


def loads(
    text: str,
    *,
    source: str = "<string>",
    folder: Path = Path(),
    name: str = "workload",
    overrides: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> Workload:
    """The same from text; files named in it are looked for in ``folder``."""
    data, lines = _parse_yaml(text, source)
    problems: list[Problem] = []
    _apply_overrides(data, overrides, problems)
    variables = _Variables(os.environ if env is None else env, lines, problems)
    data = variables.expand(data, ())
    data.setdefault("name", name)
    _refuse_what_is_not_yet(data, lines, problems)
    workload: Workload | None = None
    try:
        workload = Workload.model_validate(data, context={"folder": folder})
    except ValidationError as error:
        problems += [_problem(e, lines) for e in error.errors() if not _is_echo(e, problems)]
    if problems or workload is None:
        raise WorkloadError(source, sorted(problems, key=lambda p: (p.line or 0, p.path)))
    masked = mask(data, secrets=frozenset(variables.secrets))
    workload._origin = Origin(source, masked, {_join(path): line for path, line in lines.items()})  # noqa: SLF001
    return workload


def load_sim_script(path: Path | None, overrides: Sequence[str] = ()) -> SimScript:
    """The script of a simulated server: a YAML file of the keys under ``sim:``, or defaults, with overrides."""
    source, problems = "--set" if path is None else str(path), list[Problem]()
    data, lines = ({}, {}) if path is None else _parse_yaml(_read(path), source)
    _apply_overrides(data, overrides, problems)
    try:
        script = SimScript.model_validate(data)
    except ValidationError as error:
        problems += [_problem(e, lines, SimScript) for e in error.errors()]
    if problems:
        raise WorkloadError(source, problems)
    return script


def _read(path: Path) -> str:
    """The text of a file. Raises WorkloadError."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise WorkloadError(str(path), [Problem(path="", message="no such file")]) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = "not a text file in UTF-8" if isinstance(error, UnicodeDecodeError) else str(error.strerror)
        raise WorkloadError(str(path), [Problem(path="", message=f"cannot be read: {reason}")]) from None


def _parse_yaml(text: str, source: str) -> tuple[dict[str, Any], dict[Path_, int]]:
    """Plain data, and the line (from 1) of every path in it."""
    try:
        node = YAML(typ="rt", pure=True).load(StringIO(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = " ".join(str(error.problem or error.context).split())
        column = "" if mark is None else f" (column {mark.column + 1})"
        problem = Problem(path="", message=f"no valid YAML: {what}{column}", line=None if mark is None else mark.line + 1)
        raise WorkloadError(source, [problem]) from None
    except YAMLError as error:
        raise WorkloadError(source, [Problem(path="", message=f"no valid YAML: {shorten(str(error))}")]) from None
    if not isinstance(node, CommentedMap):
        got = "nothing" if node is None else f"a {'list' if isinstance(node, CommentedSeq) else 'plain value'}"
        message = f"must be a mapping that begins with 'loadgen: 1', got {got}"
        raise WorkloadError(source, [Problem(path="", message=message)])
    lines: dict[Path_, int] = {}
    return _plain(node, (), lines), lines


def _plain(node: Any, path: Path_, lines: dict[Path_, int]) -> Any:
    match node:
        case CommentedMap():
            for key in node:
                lines[*path, str(key)] = node.lc.key(key)[0] + 1
            return {str(key): _plain(value, (*path, str(key)), lines) for key, value in node.items()}
        case CommentedSeq():
            for index in range(len(node)):
                lines[*path, index] = node.lc.item(index)[0] + 1
            return [_plain(value, (*path, index), lines) for index, value in enumerate(node)]
        case bool() | None:
            return node
        case str():
            return str(node)
        case float():
            return float(node)
        case int():
            return int(node)
        case _:
            return node


def _line(path: Path_, lines: Mapping[Path_, int]) -> int | None:
    """The line of a path, or of the nearest thing around it."""
    keys: Path_ = tuple(int(p) if isinstance(p, str) and p.isdigit() else p for p in path)
    while keys and keys not in lines:
        keys = keys[:-1]
    return lines.get(keys)


def _apply_overrides(data: dict[str, Any], overrides: Sequence[str], problems: list[Problem]) -> None:
    """``--set path=value``: the value is YAML, the path may make new keys but no new list items."""
    for override in overrides:
        path, equals, text = override.partition("=")
        place = f"--set {path}"
        if not equals or not path:
            problems.append(Problem(path=place, message=f"expected path=value, got {shorten(override)}"))
            continue
        try:
            value = _plain(YAML(typ="rt", pure=True).load(StringIO(text)), (), {})
        except YAMLError:
            problems.append(Problem(path=place, message=f"the value is no valid YAML: {shorten(text)}"))
            continue
        if wrong := _set(data, path.split("."), value):
            problems.append(Problem(path=place, message=wrong))


def _set(data: Any, keys: list[str], value: Any) -> str:
    """Set a value in nested data; "" or what is wrong with the path."""
    node = data
    for depth, key in enumerate(keys):
        last = depth == len(keys) - 1
        match node:
            case dict():
                if last:
                    node[key] = value
                else:
                    node = node.setdefault(key, {})
            case list() if key.isdigit() and int(key) < len(node):
                if last:
                    node[int(key)] = value
                else:
                    node = node[int(key)]
            case list():
                return f"{'.'.join(keys[:depth])} has {len(node)} items, there is no {key!r}"
            case _:
                return f"{'.'.join(keys[:depth])} is a plain value and has no {key!r} in it"
    return ""


class _Variables:
    """``${NAME}`` and ``${NAME:-default}`` in strings; ``$$`` is a dollar."""

    def __init__(self, env: Mapping[str, str], lines: Mapping[Path_, int], problems: list[Problem]) -> None:
        self.secrets: set[str] = set()
        self._env = env
        self._lines = lines
        self._problems = problems

    def expand(self, value: Any, path: Path_) -> Any:
        match value:
            case dict():
                return {key: self.expand(item, (*path, key)) for key, item in value.items()}
            case list():
                return [self.expand(item, (*path, index)) for index, item in enumerate(value)]
            case str():
                return _VARIABLE.sub(lambda match: self._replace(match, path), value)
            case _:
                return value

    def _replace(self, match: re.Match[str], path: Path_) -> str:
        name, default = match.groups()
        if name is None:
            return "$"
        found = self._env.get(name, default)
        if found is None:
            self._problems.append(
                Problem(
                    path=_join(path),
                    message=f"the environment variable {name} is not set (export it, or write ${{{name}:-default}})",
                    line=_line(path, self._lines),
                )
            )
            return ""
        if found and _SECRET_VARIABLE.search(name):
            self.secrets.add(found)
        return str(found)


def _refuse_what_is_not_yet(data: dict[str, Any], lines: Mapping[Path_, int], problems: list[Problem]) -> None:
    """Take keys of later versions out of the data, with a problem for each."""
    for pattern in NOT_YET:
        for parent, path in _matching(data, pattern[:-1], ()):
            if pattern[-1] in parent:
                del parent[pattern[-1]]
                where = (*path, pattern[-1])
                message = "is part of the format, but this version of loadgen cannot do it yet"
                problems.append(Problem(path=_join(where), message=message, line=_line(where, lines)))


def _matching(node: Any, pattern: tuple[str, ...], path: Path_) -> list[tuple[dict[str, Any], Path_]]:
    if not pattern:
        return [(node, path)] if isinstance(node, dict) else []
    if pattern[0] == "*":
        items = enumerate(node) if isinstance(node, list) else ()
        return [found for index, item in items for found in _matching(item, pattern[1:], (*path, index))]
    child = node.get(pattern[0]) if isinstance(node, dict) else None
    return _matching(child, pattern[1:], (*path, pattern[0]))


def _is_echo(error: Any, told: list[Problem]) -> bool:
    """A follow-up of something that is told anyway: a list found empty because its items were wrong, a place already told."""
    path = _join(error["loc"])
    if error["type"] == "too_short" and error.get("input"):
        return True
    return any(p.path == path or (path.startswith("load.") and p.path.rpartition(".")[0] == _parent(path)) for p in told)


def _parent(path: str) -> str:
    return path.rpartition(".")[0]


def _problem(error: Any, lines: Mapping[Path_, int], model: type[BaseModel] = Workload) -> Problem:
    """A pydantic error in our words and with its line."""
    path: Path_ = error["loc"]
    given = error.get("input")
    context = error.get("ctx", {})
    match error["type"]:
        case "extra_forbidden":
            message = _unknown_key(path, model)
        case "missing":
            message = "is required"
        case "value_error":
            message = str(context["error"])
        case "greater_than" | "greater_than_equal":
            bound = context.get("gt", context.get("ge"))
            relation = "more than" if "gt" in context else "at least"
            message = f"must be {relation} {bound}, got {given!r}"
        case "int_type" | "int_parsing" | "int_from_float":
            message = f"must be a whole number, got {given!r}"
        case "float_type" | "float_parsing":
            message = f"must be a number, got {given!r}"
        case "string_type":
            message = f"must be a string, got {given!r} (put it in quotes)"
        case "bool_type" | "bool_parsing":
            message = f"must be true or false, got {given!r}"
        case "literal_error" | "enum":
            message = f"must be {context['expected']}, got {given!r}"
        case "model_type" | "dict_type" | "model_attributes_type":
            message = f"must be a mapping (key: value), got {given!r}"
        case "tuple_type" | "list_type":
            message = f"must be a list, got {given!r}"
        case "too_short":
            message = "must not be empty"
        case _:
            message = f"{error['msg']}, got {shorten(repr(given))}"
    return Problem(path=_join(path), message=message, line=_line(path, lines))


def _unknown_key(path: Path_, model: type[BaseModel]) -> str:
    keys = _keys_at(model, path[:-1])
    near = get_close_matches(str(path[-1]), keys, n=1)
    return f"unknown key; did you mean {near[0]}?" if near else f"unknown key; there are {', '.join(keys)}"


def _keys_at(model: type[BaseModel], path: Path_) -> list[str]:
    """The keys that a mapping at ``path`` may have."""
    for key in path:
        if isinstance(key, str) and key in model.model_fields:
            found = _model_in(model.model_fields[key].annotation)
            if found is not None:
                model = found
    return [name for name in model.model_fields]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model inside ``X``, ``X | None`` or ``tuple[X, ...]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part)) is not None), None)


def _join(path: Path_) -> str:
    return ".".join(str(part) for part in path)

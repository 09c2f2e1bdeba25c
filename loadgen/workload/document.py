"""YAML text -> plain data, with the line of every path, and with environment variables filled in.

YAML 1.2 (``yes`` is text), one document, no tags, no dates, keys are text, duplicate keys are errors. A scalar that is
one unquoted ``${NAME}`` is typed by what it stands for (``streams: ${STREAMS}`` may be a number); within quotes, or as
part of a longer text, it stays text.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from loadgen.errors import Problem, WorkloadError, shorten
from loadgen.workload.environment import expand, is_single_reference

Path = tuple[str | int, ...]

_TAG: Final = "tag:yaml.org,2002:"
_TYPED: Final = frozenset({f"{_TAG}int", f"{_TAG}float", f"{_TAG}bool", f"{_TAG}null"})
_TEXT: Final = frozenset({f"{_TAG}str", f"{_TAG}timestamp", f"{_TAG}value"})  # YAML 1.2 knows no dates: they are text
MAX_VALUES: Final = 200_000  # aliases of aliases make millions out of a few lines; no workload has so many
_SHOWN_KEY: Final = 60
_PLAIN: Final = (None, "")  # ruamel's style of a scalar without quotes


@dataclass(slots=True, kw_only=True)
class Document:
    """``lines`` has the line of each path (of its key, or of its item in a list); paths set by overrides have none.

    ``unset`` are the paths whose value could not be made out; ``secrets`` the values that must not be shown and
    ``secret_paths`` where they stand; ``overrides`` the paths that came from ``--set``.
    """

    data: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    unset: set[Path] = field(default_factory=set)
    secrets: set[str] = field(default_factory=set)
    secret_paths: set[Path] = field(default_factory=set)
    overrides: set[Path] = field(default_factory=set)

    def line(self, path: Path) -> int | None:
        """The line of ``path``, or of the nearest thing around it that has one."""
        if any(path[:end] in self.overrides for end in range(len(path) + 1)):
            return None
        return next((self.lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.lines), None)

    def get(self, path: Path, default: Any = None) -> Any:
        """The value at ``path`` as it was written."""
        value = self.data
        for part in path:
            try:
                value = value[part]
            except (KeyError, IndexError, TypeError):
                return default
        return value


def dotted(path: Iterable[str | int]) -> str:
    """``load.0.streams``: how paths are shown and how ``--set`` takes them."""
    return ".".join(_shown(part) for part in path)


def _shown(part: str | int) -> str:
    """A key as it is, unless it would break the line of a message or fill it."""
    text = str(part)
    return text if text.isprintable() and len(text) <= _SHOWN_KEY else shorten(text, _SHOWN_KEY)


def parse_document(text: str, source: str, env: Mapping[str, str]) -> Document:
    """Raises WorkloadError for text that is no YAML; everything else that is wrong is in ``problems``."""
    document = Document()
    yaml = YAML(typ="safe", pure=True)
    try:
        root = yaml.compose(text)
        if root is not None:
            document.data = _Reader(yaml, document, env).read(root, ())
    except _TooManyValuesError:
        message = (
            f"holds more than {MAX_VALUES} values: long lists of prompts go into a file of their own (prompt: {{file: ...}})"
        )
        raise WorkloadError(source, [Problem(path="", message=message)]) from None
    except (YAMLError, RecursionError) as error:
        raise WorkloadError(source, [_describe(error, text)]) from None
    return document


def _describe(error: YAMLError | RecursionError, text: str) -> Problem:
    if isinstance(error, RecursionError):
        return Problem(path="", message="is nested too deeply")
    if isinstance(error, MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        where = f" (column {mark.column + 1})" if mark else ""
        context = f"{error.context}: " if error.context else ""
        line = mark.line + 1 if mark else None
        hint = _syntax_hint(text, mark.line if mark else None)
        return Problem(path="", message=f"is not YAML{where}: {context}{error.problem}{hint}", line=line)
    position = getattr(error, "position", None)  # ReaderError: a character that no text file has
    if not isinstance(position, int):
        return Problem(path="", message=f"is not YAML: {error}")
    line = text.count("\n", 0, position) + 1
    return Problem(path="", message=f"is not YAML: {text[position]!r} must not stand in a text file", line=line)


def _syntax_hint(text: str, line: int | None) -> str:
    lines = text.splitlines()
    if line is None or line >= len(lines):
        return ""
    if "\t" in lines[line][: len(lines[line]) - len(lines[line].lstrip())]:
        return "; indent with spaces, not with tabs"
    if "${" in lines[line]:
        return "; within { } and [ ] put ${...} in quotes (that makes it text), or write the entry on lines of its own"
    return ""


class _TooManyValuesError(Exception):
    pass


class _Reader:
    """Walks the nodes of one document."""

    def __init__(self, yaml: YAML, document: Document, env: Mapping[str, str]) -> None:
        self._yaml = yaml
        self._document = document
        self._env = env
        self._values = 0
        self._open: set[int] = set()  # containers around the current node, to notice one that holds itself

    def read(self, node: Node, path: Path) -> Any:
        self._values += 1
        if self._values > MAX_VALUES:
            raise _TooManyValuesError
        self._document.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, ScalarNode):
            return self._scalar(node, path)
        if id(node) in self._open:
            return self._problem(path, "holds itself: an alias (*) must not stand within its own anchor (&)")
        if node.tag not in {f"{_TAG}map", f"{_TAG}seq"}:
            return self._problem(path, f"the tag {str(node.tag).removeprefix(_TAG)} has no meaning here")
        self._open.add(id(node))
        value: Any = None
        if isinstance(node, MappingNode):
            value = self._mapping(node, path)
        elif isinstance(node, SequenceNode):
            value = self._sequence(node, path)
        self._open.discard(id(node))
        return value

    def _sequence(self, node: SequenceNode, path: Path) -> list[Any]:
        return [self.read(item, (*path, index)) for index, item in enumerate(node.value)]

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, Any]:
        value: dict[str, Any] = {}
        for key_node, item in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, ScalarNode) or key_node.tag == f"{_TAG}merge":
                what = "<< has no meaning here" if isinstance(key_node, ScalarNode) else "keys must be plain text"
                self._document.problems.append(Problem(path=dotted(path), message=what, line=line))
                continue
            key = key_node.value
            at = (*path, key)
            if key in value:
                first = self._document.lines[at]
                self._document.problems.append(
                    Problem(path=dotted(at), message=f"is given twice (first in line {first})", line=line)
                )
                continue
            self._document.lines[at] = line
            value[key] = self.read(item, at)
        return value

    def _scalar(self, node: ScalarNode, path: Path) -> Any:
        text, tag = node.value, str(node.tag)
        if "$" in text:
            expanded = expand(text, self._env)
            if expanded.secrets:
                self._document.secrets.update(expanded.secrets)
                self._document.secret_paths.add(path)
            for message in expanded.problems:
                self._problem(path, message)
            if expanded.problems:
                return None
            if node.style in _PLAIN and is_single_reference(text):
                tag = str(self._yaml.resolver.resolve(ScalarNode, expanded.text, (True, False)))
            text = expanded.text
        if tag in _TEXT:
            return text
        if tag not in _TYPED:
            return self._problem(path, f"the tag {tag.removeprefix(_TAG)} has no meaning here")
        try:
            return self._yaml.constructor.construct_object(ScalarNode(tag, text, node.start_mark, node.end_mark))
        except ValueError:
            return self._problem(path, f"{shorten(text)} is no number that can be read")

    def _problem(self, path: Path, message: str) -> None:
        self._document.unset.add(path)
        line = self._document.lines.get(path)
        self._document.problems.append(Problem(path=dotted(path), message=message, line=line))

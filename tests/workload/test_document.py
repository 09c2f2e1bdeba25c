# ruff: noqa: E501 - a table row is one line: input and the exact message
from collections.abc import Mapping

import pytest

from loadgen.errors import WorkloadError
from loadgen.workload.document import Document, dotted, parse_document


def parse(text: str, env: Mapping[str, str] | None = None) -> Document:
    return parse_document(text, "w.yaml", env or {})


def problems(document: Document) -> list[str]:
    return [problem.render("w.yaml") for problem in document.problems]


def test_data_and_lines() -> None:
    document = parse("a: 1\nb:\n  - {x: 1.5, y: [true, null]}\n  - z: 'q'\n\nc:\n  d: text\n")
    assert document.data == {"a": 1, "b": [{"x": 1.5, "y": [True, None]}, {"z": "q"}], "c": {"d": "text"}}
    lines = {
        ("a",): 1, ("b",): 2, ("b", 0): 3, ("b", 0, "x"): 3, ("b", 0, "y", 1): 3, ("b", 1): 4, ("b", 1, "z"): 4,
        ("c",): 6, ("c", "d"): 7,
    }  # fmt: skip
    assert {path: document.line(path) for path in lines} == lines
    assert document.problems == []


def test_the_line_of_what_is_not_there_is_that_of_what_is_around_it() -> None:
    document = parse("a: 1\nb:\n  - {x: 1}\n")
    assert document.line(("b", 0, "missing", "deeper")) == 3
    assert document.line(("b", 7)) == 2
    assert document.line(("missing",)) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"), ("no", "no"), ("on", "on"), ("true", True), ("~", None), ("", None), ("010", 10), ("0o17", 15),
        ("1_000", 1000), ("1.1", 1.1), ("'5'", "5"), ("2026-01-01", "2026-01-01"), ("12:30:30", "12:30:30"), ("5s", "5s"),
        ("!!str 5", "5"), ("=", "="), ("|\n  two\n  lines\n", "two\nlines\n"),
    ],
)  # fmt: skip
def test_scalars_are_those_of_yaml_1_2(text: str, value: object) -> None:
    assert parse(f"a: {text}").data == {"a": value}


def test_keys_are_text() -> None:
    assert parse("5: a\ntrue: b").data == {"5": "a", "true": "b"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3", ["w.yaml:3: a: is given twice (first in line 1)"]),
        ("a:\n  b: 1\n  b: 2\na: 3", ["w.yaml:3: a.b: is given twice (first in line 2)", "w.yaml:4: a: is given twice (first in line 1)"]),
        ("&x {b: *x}", ["w.yaml:1: b: holds itself: an alias (*) must not stand within its own anchor (&)"]),
        ("a: !foo 1", ["w.yaml:1: a: the tag !foo has no meaning here"]),
        ("a: !!set {b}", ["w.yaml:1: a: the tag set has no meaning here"]),
        ("a: !!python/object:os.system x", ["w.yaml:1: a: the tag python/object:os.system has no meaning here"]),
        ("a: !!int foo", ["w.yaml:1: a: 'foo' is no number that can be read"]),
        ("a:\n  <<: {b: 1}", ["w.yaml:2: a: << has no meaning here"]),
        ("? [a]\n: 1", ["w.yaml:1: keys must be plain text"]),
        ("a:\n  b: ${NOPE}", ["w.yaml:2: a.b: the environment variable NOPE is not set: export it, or give a default: ${NOPE:-...}"]),
    ],
)  # fmt: skip
def test_problems(text: str, message: list[str]) -> None:
    assert problems(parse(text)) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1,\n b: 3", "w.yaml:2: is not YAML (column 6): while parsing a flow sequence: expected ',' or ']', but got '<stream end>'"),
        ("a:\n\tb: 1", "w.yaml:2: is not YAML (column 1): while scanning for the next token: found character '\\t' that cannot start any token; indent with spaces, not with tabs"),
        ("a: b: c", "w.yaml:1: is not YAML (column 5): mapping values are not allowed here"),
        ("a: *x", "w.yaml:1: is not YAML (column 4): found undefined alias 'x'"),
        ("--- 1\n--- 2\n", "w.yaml:2: is not YAML (column 1): expected a single document in the stream: but found another document"),
        ("a: 1\nb: \x00", "w.yaml:2: is not YAML: '\\x00' must not stand in a text file"),
        ("[" * 5_000, "w.yaml: is nested too deeply"),
        ("a: {b: ${N}}", "w.yaml:1: is not YAML (column 9): while parsing a flow mapping: expected ',' or '}', but got '{'; within { } and [ ] put ${...} in quotes (that makes it text), or write the entry on lines of its own"),
    ],
)  # fmt: skip
def test_no_yaml(text: str, message: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        parse(text, {"N": "1"})
    assert str(caught.value) == message


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n"])
def test_nothing(text: str) -> None:
    assert parse(text).data is None


@pytest.mark.parametrize(
    ("text", "value"),
    [("${N}", 5), ("'${N}'", "5"), ('"${N}"', "5"), ("x${N}", "x5"), ("${NO:-1.5}", 1.5), ("${NO:-true}", True), ("${NO:-}", None), ("${WORD}", "w")],
)  # fmt: skip
def test_an_unquoted_reference_is_typed_by_what_it_stands_for(text: str, value: object) -> None:
    assert parse(f"a: {text}", {"N": "5", "WORD": "w"}).data == {"a": value}


def test_a_value_cannot_bring_in_structure() -> None:
    assert parse("a: ${X}", {"X": "{b: 1}\nc: 2"}).data == {"a": "{b: 1}\nc: 2"}


def test_secrets_and_where_they_stand() -> None:
    document = parse("a: {b: 'Bearer ${API_KEY}', c: '${HOST}'}", {"API_KEY": "sk-1", "HOST": "h"})
    assert document.secrets == {"sk-1"}
    assert document.secret_paths == {("a", "b")}


def test_paths_are_shown_on_one_short_line() -> None:
    assert dotted(("load", 0, "streams")) == "load.0.streams"
    assert "\n" not in dotted(("a\nb",))
    assert len(dotted(("x" * 10_000,))) < 80

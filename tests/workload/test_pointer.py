# ruff: noqa: E501 - a table row is one line: input and the exact message
"""JSON pointers: the examples of RFC 6901, what is no pointer, and putting a value at a place."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.workload.pointer import parse_pointer

# Section 5.
DOCUMENT = {
    "foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, 'k"l': 6, " ": 7, "m~n": 8,
}  # fmt: skip


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("", DOCUMENT), ("/foo", ["bar", "baz"]), ("/foo/0", "bar"), ("/", 0), ("/a~1b", 1), ("/c%d", 2), ("/e^f", 3),
        ("/g|h", 4), ("/i\\j", 5), ('/k"l', 6), ("/ ", 7), ("/m~0n", 8),
        ("/foo/2", None), ("/foo/01", None), ("/foo/-", None), ("/foo/-1", None), ("/foo/99999999999", None),
        ("/nope", None), ("/foo/0/x", None), ("/foo/\u0661", None),
    ],
)  # fmt: skip
def test_find(pointer: str, value: object) -> None:
    assert parse_pointer(pointer).find(DOCUMENT) == value


def test_an_escaped_tilde_before_a_one_is_no_slash() -> None:
    assert parse_pointer("/~01").find({"~1": "yes", "/": "no"}) == "yes"


def test_a_number_is_a_key_in_an_object() -> None:
    assert parse_pointer("/0").find({"0": "a"}) == "a"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("choices.0.text", "must be a JSON pointer, which begins with a slash, such as /choices/0/text, got 'choices.0.text'; did you mean /choices/0/text?"),
        ("$.choices[0].text", "did you mean /choices/0/text?"),
        ("#/text", "did you mean /text?"),
        ("text", "did you mean /text?"),
        ("...", "which begins with a slash"),
        ("/a~b", "has a ~ at character 3 that is neither ~0 (a tilde) nor ~1 (a slash)"),
        ("/a~", "has a ~ at character 3"),
    ],
)  # fmt: skip
def test_what_is_no_pointer(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_pointer(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("body", "pointer", "expected"),
    [
        ({}, "/prompt", {"prompt": 5}),
        ({}, "/a/b/c", {"a": {"b": {"c": 5}}}),
        ({"a": {"x": 1}}, "/a/b", {"a": {"x": 1, "b": 5}}),
        ({"a": [{"x": 1}]}, "/a/0/x", {"a": [{"x": 5}]}),
        ({"a": [1]}, "/a/-", {"a": [1, 5]}),
        ({"a": [1]}, "/a/1", {"a": [1, 5]}),
        ({"a": []}, "/a/0/b", {"a": [{"b": 5}]}),
        ({"a": 1}, "/a", {"a": 5}),
        ({}, "/a~1b", {"a/b": 5}),
    ],
)
def test_put(body: dict[str, Any], pointer: str, expected: object) -> None:
    parse_pointer(pointer).put(body, 5)
    assert body == expected


@pytest.mark.parametrize(
    ("body", "pointer", "message"),
    [
        ({}, "", "must name a place within the body"),
        ({"a": "text"}, "/a/b", "/a is no object and no list"),
        ({"a": {"b/c": None}}, "/a/b~1c/d", "/a/b~1c is no object and no list"),
        ({"a": [1]}, "/a/2", "/a is a list of 1: '2' is no place in it"),
        ({"a": []}, "/a/b", "/a is a list of 0: 'b' is no place in it"),
    ],
)
def test_nowhere_to_put_it(body: dict[str, Any], pointer: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_pointer(pointer).put(body, 5)
    assert message in str(caught.value)


@given(st.lists(st.text(max_size=5), min_size=1, max_size=4))
def test_what_was_put_is_found(parts: list[str]) -> None:
    pointer = parse_pointer("".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts))
    body: dict[str, Any] = {}
    pointer.put(body, 5)
    assert pointer.parts == tuple(parts)
    assert pointer.find(body) == 5

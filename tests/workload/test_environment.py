import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.workload.environment import expand, is_single_reference

ENV = {"HOST": "h", "EMPTY": "", "API_KEY": "sk-1", "GATEWAY_AUTH": "b", "MONKEYS": "3", "MAX_TOKENS": "5"}


@pytest.mark.parametrize(
    ("text", "resolved"),
    [
        ("", ""),
        ("plain", "plain"),
        ("${HOST}", "h"),
        ("http://${HOST}:${PORT:-80}/", "http://h:80/"),
        ("${EMPTY}", ""),
        ("${EMPTY:-default}", "default"),
        ("${UNSET:-}", ""),
        ("${UNSET:-a:-b}", "a:-b"),
        ("$$", "$"),
        ("$${HOST}", "${HOST}"),
        ("$$${HOST}", "$h"),
        ("costs $5, $HOST", "costs $5, $HOST"),
        ("$", "$"),
    ],
)
def test_references(text: str, resolved: str) -> None:
    expanded = expand(text, ENV)
    assert (expanded.text, expanded.problems) == (resolved, ())


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("${UNSET}", ["the environment variable UNSET is not set: export it, or give a default: ${UNSET:-...}"]),
        ("${1X}", ["'${1X}' is no reference: write ${NAME}, ${NAME:-default}, or $${ for the text"]),
        ("${HOST", ["'${HOST' is no reference: write ${NAME}, ${NAME:-default}, or $${ for the text"]),
        ("${HOST-x}", ["'${HOST-x}' is no reference: write ${NAME}, ${NAME:-default}, or $${ for the text"]),
        (
            "${A}${B}",
            [
                "the environment variable A is not set: export it, or give a default: ${A:-...}",
                "the environment variable B is not set: export it, or give a default: ${B:-...}",
            ],
        ),
    ],
)
def test_problems(text: str, problems: list[str]) -> None:
    assert list(expand(text, ENV).problems) == problems


def test_values_are_not_expanded_again() -> None:
    assert expand("${A}", {"A": "${B} $$"}).text == "${B} $$"


@pytest.mark.parametrize(
    ("text", "secrets"),
    [
        ("Bearer ${API_KEY}", ("sk-1",)),
        ("${GATEWAY_AUTH}", ("b",)),
        ("${HOST} ${MONKEYS} ${MAX_TOKENS}", ()),
        ("${OTHER_KEY:-none}", ()),  # a default stands in the file for all to read
    ],
)
def test_secrets_are_told_by_the_variable_s_name(text: str, secrets: tuple[str, ...]) -> None:
    assert expand(text, ENV).secrets == secrets


@pytest.mark.parametrize(
    ("text", "single"),
    [("${A}", True), ("${A:-5}", True), ("$$", False), ("x${A}", False), ("${A}${B}", False), ("${1}", False)],
)
def test_is_single_reference(text: str, single: bool) -> None:
    assert is_single_reference(text) is single


@given(st.text())
def test_doubled_dollars_give_any_text_back(text: str) -> None:
    expanded = expand(text.replace("$", "$$"), {})
    assert (expanded.text, expanded.problems) == (text, ())

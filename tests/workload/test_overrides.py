# ruff: noqa: E501 - a table row is one line: input and the exact message
import pytest

from loadgen.workload.document import Document, parse_document
from loadgen.workload.overrides import apply_overrides

TEXT = "target: {url: http://h/}\nload:\n  - {hold: 5s, streams: 3}\n  - {ramp: 5s, streams: [1, 2]}\nlimit:\n"


def overridden(*overrides: str) -> Document:
    env = {"N": "9", "API_KEY": "sk-1"}
    document = parse_document(TEXT, "w.yaml", env)
    apply_overrides(document, overrides, env)
    return document


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("load.0.streams=5", ("load", 0, "streams"), 5),
        ("load.1.streams=[1, 400]", ("load", 1, "streams"), [1, 400]),
        ("load.1.streams.0=7", ("load", 1, "streams", 0), 7),
        ("target.url=http://x/?a=b", ("target", "url"), "http://x/?a=b"),
        ("timeouts.idle=5s", ("timeouts", "idle"), "5s"),
        ("limit.streams=5", ("limit", "streams"), 5),
        ("target.sim={ttft: 5ms}", ("target", "sim"), {"ttft": "5ms"}),
        ("target.url=null", ("target", "url"), None),
        ("name=", ("name",), None),
        (" name =x", ("name",), "x"),
        ("seed=${N}", ("seed",), 9),
        ("load=[{hold: 1s, streams: 1}]", ("load",), [{"hold": "1s", "streams": 1}]),
    ],
)
def test_overrides(override: str, path: tuple[str | int, ...], value: object) -> None:
    document = overridden(override)
    assert document.problems == []
    assert document.get(path, "nothing") == value
    assert document.line(path) is None


def test_keys_that_look_like_numbers_are_keys_where_there_is_a_mapping() -> None:
    assert overridden("target.headers={}", "target.headers.404=x").get(("target", "headers")) == {"404": "x"}


def test_the_last_word_counts() -> None:
    assert overridden("seed=1", "seed=2").get(("seed",)) == 2


def test_what_is_not_overridden_keeps_its_line() -> None:
    document = overridden("load.0.streams=5")
    assert document.line(("load", 0, "hold")) == 3
    assert document.line(("load", 1, "streams")) == 4


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("load.0.streams", "w.yaml: --set load.0.streams: write it as path=value"),
        ("=5", "w.yaml: --set : write it as path=value"),
        ("a..b=5", "w.yaml: --set a..b: write it as path=value"),
        ("load.2.streams=5", "w.yaml: --set load.2.streams: load has 2 entries, numbered from 0"),
        ("load.-1.streams=5", "w.yaml: --set load.-1.streams: load is a list: name the entry by its number, as in load.0.-1"),
        ("load.streams=5", "w.yaml: --set load.streams: load is a list: name the entry by its number, as in load.0.streams"),
        ("target.url.x=5", "w.yaml: --set target.url.x: target.url is one value, it has no x in it"),
        ("requests.0.weight=5", "w.yaml: --set requests.0.weight: requests is not in the file: set the whole list, as in --set 'requests=[...]'"),
        ("seed=[1", "w.yaml: --set seed: is not YAML (column 3): while parsing a flow sequence: expected ',' or ']', but got '<stream end>'"),
        ("seed={a: 1, a: 2}", "w.yaml: --set seed: a: is given twice (first in line 1)"),
        ("seed=${NOPE}", "w.yaml: --set seed: the environment variable NOPE is not set: export it, or give a default: ${NOPE:-...}"),
    ],
)  # fmt: skip
def test_bad_overrides_are_named(override: str, message: str) -> None:
    assert [problem.render("w.yaml") for problem in overridden(override).problems] == [message]


def test_secrets_of_overrides_are_known() -> None:
    document = overridden("target.headers={Authorization: 'Bearer ${API_KEY}'}")
    assert document.secrets == {"sk-1"}
    assert document.secret_paths == {("target", "headers", "Authorization")}


def test_an_empty_document_can_be_filled() -> None:
    document = parse_document("", "w.yaml", {})
    apply_overrides(document, ["a.b=1"], {})
    assert document.data == {"a": {"b": 1}}

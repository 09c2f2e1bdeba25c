"""An API that a workload describes: what pointers find in events, and what goes where in requests."""

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.dialect import build_dialect
from loadgen.dialect.base import Dialect
from loadgen.dialect.custom import _find, _split
from loadgen.model import EventClass as C
from loadgen.model import Usage
from loadgen.workload.custom import CustomSpec
from loadgen.workload.plan import RequestKind
from loadgen.workload.pointer import parse_pointer
from tests.support.streams import event, read, read_stream


def custom(**keys: Any) -> Dialect:
    return build_dialect("custom", CustomSpec.model_validate({"text": "/out/0/text"} | keys))


FULL = custom(reasoning="/out/0/thought", finish="/why", usage="/counts", error="/fault", end="[END]")


def said(**out: Any) -> dict[str, Any]:
    return {"out": [out]}


@pytest.mark.parametrize(
    ("what", "data", "expected"),
    [
        ("text", said(text="a"), C.ANSWER),
        ("text held back", said(text=""), C.EMPTY),
        ("reasoning", said(thought="a"), C.REASONING),
        ("reasoning beside empty text", said(text="", thought="a"), C.REASONING),
        ("both", said(text="a", thought="b"), C.ANSWER | C.REASONING),
        ("tokens instead of text", said(text=[5, 6]), C.ANSWER),
        ("a flag is no text", said(text=True), C.PRELUDE),
        ("null", said(text=None), C.PRELUDE),
        ("pointer that leads nowhere", {"out": "a"}, C.PRELUDE),
        ("list too short", {"out": []}, C.PRELUDE),
        ("finish", {"why": "stop"}, C.FINISH),
        ("finish with text", said(text="a") | {"why": "stop"}, C.ANSWER | C.FINISH),
        ("finish of any kind", {"why": {"a": 1}}, C.FINISH),
        ("no finish yet", said(text="a") | {"why": False}, C.ANSWER),
        ("usage", said(text="a") | {"counts": {"completion_tokens": 3}}, C.ANSWER | C.USAGE),
        ("error", {"fault": "boom"}, C.ERROR),
        ("error null", said(text="a") | {"fault": None}, C.ANSWER),
        ("error event", event("boom", "error"), C.ERROR),
        ("end mark", "[END]", C.END),
        ("end mark with white space", "[END] ", C.END),
        ("JSON that is no object", "5", C.PRELUDE),
        ("no JSON", "{", C.MALFORMED),
    ],
)
def test_classes(what: str, data: object, expected: C) -> None:
    assert read(FULL, data)[1] == [expected]


def test_success_is_what_was_described() -> None:
    text, finish = said(text="a"), {"why": True}
    assert read(FULL, text, finish, "[END]")[0].missing() == ""
    assert read(FULL, text)[0].missing() == "a finish reason and the end mark [END]"
    assert read(custom(), text)[0].missing() == ""
    assert read(custom())[0].missing() == "any output"


def test_reason_usage_and_error_are_told() -> None:
    reader, _ = read(FULL, {"why": 7, "counts": 12})
    assert (reader.finish_reason, reader.usage) == ("7", Usage(completion_tokens=12))
    assert read(FULL, {"counts": {"input_tokens": 3, "output_tokens": 4}})[0].usage == Usage(
        prompt_tokens=3, completion_tokens=4
    )
    assert read(FULL, {"counts": "many"})[0].usage is None
    assert read(FULL, {"fault": {"message": "boom", "code": 5}})[0].error == "'boom' (5)"
    assert read(FULL, "{")[0].error.startswith("expected JSON or [END], got '{'")


def test_the_known_dialects_can_be_described() -> None:
    chat = custom(text="/choices/0/delta/content", finish="/choices/0/finish_reason", usage="/usage", end="[DONE]")
    reader, classes = read_stream(chat, "captures/vllm-chat")
    assert sum(bool(found & C.ANSWER) for found in classes) == 4
    assert (reader.missing(), reader.finish_reason, reader.usage and reader.usage.completion_tokens) == ("", "length", 4)
    lines = custom(events="ndjson", text="/message/content", reasoning="/message/thinking", finish="/done_reason",
                   usage="/eval_count")  # fmt: skip
    assert (lines.events, lines.content_type) == ("ndjson", "application/x-ndjson")
    reader, classes = read_stream(lines, "documented/ollama-chat")
    assert [found for found in classes if found & C.OUTPUT] == [C.REASONING] * 2 + [C.ANSWER] * 2
    assert (reader.missing(), reader.usage) == ("", Usage(completion_tokens=6))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=2),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "0", "1", ""]), inner, max_size=3),
    ),
    st.lists(st.sampled_from(["a", "0", "1", "01", "-", "", "b"]), max_size=4),
)
def test_the_fast_search_finds_what_the_pointer_finds(document: object, parts: list[str]) -> None:
    pointer = parse_pointer("".join(f"/{part}" for part in parts))
    assert _find(document, _split(pointer)) == pointer.find(document)


class Talk:
    def pick(self, rng: Random) -> list[dict[str, Any]]:
        return [{"role": "user", "content": "hi"}, {"role": "user", "content": "ho"}]


class Twelve:
    def pick(self, rng: Random) -> int:
        return 12


def sent(request: dict[str, Any], body: dict[str, Any], model: str | None = "m") -> tuple[str, object]:
    kind = RequestKind(index=0, weight=1, prompt=Talk(), max_tokens=Twelve(), body=body)
    built = custom(request=request).build_request(kind, Random(1), model)
    assert dict(built.headers)["Accept"] == "text/event-stream"
    return built.method, json.loads(built.body) if built.body else None


def test_values_go_where_the_pointers_say() -> None:
    request = {
        "body": {"inputs": [{"kind": "text"}], "stream": True, "limits": {"time": 5}},
        "prompt": "/inputs/0/value", "messages": "/talk", "model": "/engine", "max_tokens": "/limits/tokens",
    }  # fmt: skip
    assert sent(request, {"limits": {"time": 6}}) == ("POST", {
        "inputs": [{"kind": "text", "value": "hi\n\nho"}], "stream": True, "limits": {"time": 6, "tokens": 12},
        "talk": Talk().pick(Random()), "engine": "m",
    })  # fmt: skip
    assert sent({"model": "/engine"}, {"a": 1}, model=None) == ("POST", {"a": 1})


def test_the_template_is_not_changed_by_a_request() -> None:
    dialect = custom(request={"body": {"inputs": []}, "prompt": "/inputs/-"})
    kind = RequestKind(index=0, weight=1, prompt=Talk())
    for _ in range(2):
        assert json.loads(dialect.build_request(kind, Random(1), None).body) == {"inputs": ["hi\n\nho"]}


def test_a_request_of_nothing_is_a_get() -> None:
    assert sent({}, {}) == ("GET", None)
    assert sent({}, {"a": 1}) == ("POST", {"a": 1})


def test_content_type_can_be_named() -> None:
    assert custom(content_type="Application/JSON-seq").content_type == "application/json-seq"

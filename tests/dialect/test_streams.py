"""Whole streams, captured from servers or written after their documentation; and what holds for every dialect."""

import json
from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.dialect import DIALECTS
from loadgen.model import EventClass as C
from loadgen.model import Usage
from loadgen.workload.plan import RequestKind
from tests.support.streams import event, read, read_stream


def usage(prompt: int | None, completion: int | None, cached: int | None = None, reasoning: int | None = None) -> Usage:
    return Usage(prompt_tokens=prompt, completion_tokens=completion, cached_tokens=cached, reasoning_tokens=reasoning)


@pytest.mark.parametrize(
    ("dialect", "name", "answers", "reasonings", "tools", "counted", "finish"),
    [
        ("openai-chat", "captures/vllm-chat", 4, 0, 0, usage(4, 4, 0), "length"),
        ("openai-chat", "captures/llama-chat", 4, 0, 0, usage(25, 4, 0), "length"),
        ("openai-chat", "captures/litellm-chat", 3, 0, 0, usage(4, 3, 0, 0), "length"),
        ("openai-completions", "captures/vllm-completions", 3, 0, 0, usage(2, 3, 0), "length"),
        ("openai-responses", "captures/llama-responses", 3, 0, 0, usage(25, 3, 20), "completed"),
        ("openai-responses", "documented/responses-reasoning", 2, 1, 0, usage(11, 32, 2, 27), "max_output_tokens"),
        ("anthropic-messages", "captures/vllm-messages", 4, 0, 0, usage(4, 4, 0), "max_tokens"),
        ("anthropic-messages", "captures/llama-messages", 3, 0, 0, usage(25, 3, 20), "max_tokens"),
        ("anthropic-messages", "captures/litellm-messages", 16, 0, 0, usage(25, 16, 20), "end_turn"),
        ("anthropic-messages", "documented/anthropic-thinking", 1, 2, 2, usage(142, 49, 30, 21), "tool_use"),
        ("azure", "documented/azure", 2, 0, 0, usage(12, 9, 0, 0), "stop"),
        ("gemini", "documented/gemini", 2, 1, 0, usage(8, 38, 4, 31), "MAX_TOKENS"),
        ("llamacpp", "captures/llama-completion", 3, 0, 0, usage(3, 3, 1), "limit"),
        ("mistral", "documented/mistral", 2, 1, 0, usage(9, 5), "length"),
        ("ollama", "documented/ollama-chat", 2, 2, 0, usage(14, 6), "stop"),
        ("ollama-generate", "documented/ollama-generate", 2, 0, 0, usage(None, 2), "length"),
        ("tgi", "documented/tgi", 2, 0, 0, usage(7, 4), "eos_token"),
        ("triton", "documented/triton", 2, 0, 0, None, ""),
    ],
)
def test_stream(dialect: str, name: str, answers: int, reasonings: int, tools: int, counted: Usage | None, finish: str) -> None:
    reader, classes = read_stream(DIALECTS[dialect], name)
    counts = Counter(bit for found in classes for bit in found)
    assert (counts[C.ANSWER], counts[C.REASONING], counts[C.TOOL]) == (answers, reasonings, tools)
    assert counts[C.MALFORMED] == counts[C.ERROR] == 0
    assert (reader.missing(), reader.error, reader.finished) == ("", "", True)
    assert (reader.usage, reader.finish_reason) == (counted, finish)


KEYS = [
    "choices", "delta", "content", "text", "index", "finish_reason", "usage", "error", "type", "response", "message", "token",
    "details", "candidates", "parts", "usageMetadata", "promptFeedback", "done", "stop", "timings", "sequence_number",
    "content_block", "prompt_tokens", "special", "name",
]  # fmt: skip


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
@settings(max_examples=15)
@given(data=st.data())
def test_nothing_that_is_json_makes_a_reader_raise(dialect: str, data: st.DataObject) -> None:
    """Shapes near the real ones: the keys that dialects look for, with values of any kind."""
    keys = st.sampled_from(KEYS)
    leaf: st.SearchStrategy[Any] = st.none() | st.booleans() | st.integers() | st.sampled_from(
        ["", "a", "message_delta", "content_block_delta", "text_delta", "response.completed", "error", "message_start"]
    )  # fmt: skip
    values = st.recursive(leaf, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=4))
    reader = DIALECTS[dialect].reader()
    for value in data.draw(st.lists(st.dictionaries(keys, values, max_size=4) | values, min_size=1, max_size=4)):
        found = reader.classify(event(json.dumps(value)))
        assert found is not C.NONE
        assert bool(reader.error) or not found & (C.ERROR | C.MALFORMED)
    assert reader.usage is None or isinstance(reader.usage, Usage)
    assert isinstance(reader.missing() + reader.finish_reason, str)


JSON_DIALECTS = sorted(DIALECTS.keys() - {"plain-sse"})


@pytest.mark.parametrize("dialect", JSON_DIALECTS)
@pytest.mark.parametrize("data", ["<html>", "[1]", '"\ud800"', "{", "", "1", '{"x":' * 5000, "[" * 5000])
def test_what_is_no_object_is_malformed(dialect: str, data: str) -> None:
    reader = DIALECTS[dialect].reader()
    made = event("x")
    made.data = data
    assert reader.classify(made) is C.MALFORMED
    assert reader.malformed
    assert reader.error.startswith("expected a JSON object")


@pytest.mark.parametrize("dialect", JSON_DIALECTS)
@pytest.mark.parametrize(
    ("error", "said"),
    [
        ({"error": {"message": "boom", "code": 500}}, "'boom' (500)"),
        ({"error": {"message": "boom", "type": "overloaded"}}, "'boom' (overloaded)"),
        ({"error": "boom"}, "'boom'"),
    ],
)
def test_an_error_object_is_the_providers_word(dialect: str, error: object, said: str) -> None:
    reader, classes = read(DIALECTS[dialect], "{", error, {"error": "later"})
    assert classes == [C.MALFORMED, C.ERROR, C.ERROR]
    assert (reader.malformed, reader.error) == (False, said)


def test_an_error_as_deep_as_can_be_decoded_is_told_somehow() -> None:
    for depth in range(950, 1000):
        reader, (found,) = read(DIALECTS["openai-chat"], f'{{"error":{"[" * depth}{"]" * depth}}}')
        assert found in {C.ERROR, C.MALFORMED}
        assert reader.error


@pytest.mark.parametrize("dialect", sorted(DIALECTS.keys() - {"ollama", "ollama-generate"}))
def test_error_and_ping_events_are_what_their_names_say(dialect: str) -> None:
    ping = event({"type": "ping"}, "ping")
    reader, classes = read(DIALECTS[dialect], event("", "ping"), ping, event("no JSON", "error"))
    assert classes == [C.HEARTBEAT, C.HEARTBEAT, C.ERROR]
    assert reader.error == "'no JSON'"


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_an_empty_stream_is_no_success(dialect: str) -> None:
    reader = DIALECTS[dialect].reader()
    assert reader.missing()
    assert (reader.usage, reader.finished, reader.ended) == (None, False, False)


class Talk:
    def pick(self, rng: Random) -> list[dict[str, Any]]:
        return [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "ho"},
            {"role": "user", "content": [{"type": "text", "text": "1+1?"}]},
        ]


class Twelve:
    def pick(self, rng: Random) -> int:
        return 12


TALK = Talk().pick(Random())
TEXT = "Be brief.\n\nhi\n\nho\n\n1+1?"
REQUESTS: dict[str, dict[str, Any]] = {
    "openai-chat": {
        "model": "m", "messages": TALK, "stream": True, "max_tokens": 12, "stream_options": {"include_usage": True},
    },
    "openai-completions": {
        "model": "m", "prompt": TEXT, "stream": True, "max_tokens": 12, "stream_options": {"include_usage": True},
    },
    "openai-responses": {"model": "m", "input": TALK, "stream": True, "max_output_tokens": 12},
    "anthropic-messages": {"model": "m", "system": "Be brief.", "messages": TALK[1:], "stream": True, "max_tokens": 12},
    "azure": {
        "model": "m", "messages": TALK, "stream": True, "max_completion_tokens": 12, "stream_options": {"include_usage": True},
    },
    "gemini": {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "hi"}]}, {"role": "model", "parts": [{"text": "ho"}]},
            {"role": "user", "parts": [{"text": "1+1?"}]},
        ],
        "generationConfig": {"maxOutputTokens": 12},
    },
    "llamacpp": {"model": "m", "prompt": TEXT, "stream": True, "n_predict": 12},
    "mistral": {"model": "m", "messages": TALK, "stream": True, "max_tokens": 12},
    "ollama": {"model": "m", "messages": TALK, "stream": True, "options": {"num_predict": 12}},
    "ollama-generate": {"model": "m", "prompt": TEXT, "stream": True, "options": {"num_predict": 12}},
    "tgi": {"inputs": TEXT, "parameters": {"details": True, "max_new_tokens": 12}},
    "triton": {"text_input": TEXT, "stream": True, "max_tokens": 12},
}  # fmt: skip
LIMITS = {"max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict"}


@pytest.mark.parametrize("dialect", JSON_DIALECTS)
def test_request(dialect: str) -> None:
    asked = DIALECTS[dialect]
    full = asked.build_request(RequestKind(index=0, weight=1, prompt=Talk(), max_tokens=Twelve()), Random(1), "m")
    assert json.loads(full.body) == REQUESTS[dialect]
    headers = dict(full.headers)
    assert (full.method, headers["Content-Type"], headers["Accept"]) == ("POST", "application/json", asked.content_type)
    bare = json.loads(asked.build_request(RequestKind(index=0, weight=1, prompt=Talk()), Random(1), None).body)
    assert "12" not in json.dumps(bare)
    assert "model" not in bare


def test_the_body_of_the_workload_has_the_last_word() -> None:
    body = {"options": {"temperature": 0, "num_predict": 3}, "stream": None, "messages": [], "keep_alive": {"a": 1}}
    kind = RequestKind(index=0, weight=1, prompt=Talk(), max_tokens=Twelve(), body=body)
    assert json.loads(DIALECTS["ollama"].build_request(kind, Random(1), "m").body) == {
        "model": "m", "messages": [], "stream": None, "options": {"num_predict": 3, "temperature": 0}, "keep_alive": {"a": 1},
    }  # fmt: skip
    lenient = RequestKind(index=0, weight=1, prompt=Talk(), max_tokens=Twelve(), body={"options": {"temperature": 0}})
    assert json.loads(DIALECTS["ollama"].build_request(lenient, Random(1), "m").body)["options"] == {
        "num_predict": 12, "temperature": 0,
    }  # fmt: skip


def test_anthropic_is_told_the_version_of_its_api() -> None:
    request = DIALECTS["anthropic-messages"].build_request(RequestKind(index=0, weight=1, prompt=Talk()), Random(1), "m")
    assert ("anthropic-version", "2023-06-01") in request.headers

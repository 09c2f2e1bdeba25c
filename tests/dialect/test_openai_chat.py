"""What each chunk of an OpenAI-shaped stream means, by the servers that send it so."""

import json
from random import Random

import pytest

from loadgen.dialect.openai_chat import OpenAiChat, OpenAiChatReader
from loadgen.model import EventClass as C
from loadgen.wire.sse import SseEvent
from loadgen.workload.plan import RequestKind
from tests.support.streams import event


def chunk(delta: object, **choice: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": delta, **choice}]}


def classes(*events: object) -> list[C]:
    reader = OpenAiChat().reader()
    return [reader.classify(e if isinstance(e, SseEvent) else event(e)) for e in events]


@pytest.mark.parametrize(
    ("what", "data", "expected"),
    [
        ("text", chunk({"content": "a"}), C.ANSWER),
        ("refusal is visible text", chunk({"refusal": "no"}), C.ANSWER),
        ("reasoning, vLLM and OpenRouter", chunk({"reasoning": "hm"}), C.REASONING),
        ("reasoning, SGLang and DeepSeek", chunk({"reasoning_content": "hm"}), C.REASONING),
        ("null reasoning is no reasoning (SGLang)", chunk({"content": "a", "reasoning_content": None}), C.ANSWER),
        ("both", chunk({"content": "a", "reasoning": "b"}), C.ANSWER | C.REASONING),
        ("tool call", chunk({"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}), C.TOOL),
        ("old function call", chunk({"function_call": {"name": "f"}}), C.TOOL),
        ("Mistral text part", chunk({"content": [{"type": "text", "text": "a"}]}), C.ANSWER),
        ("Mistral thinking part", chunk({"content": [{"type": "thinking", "thinking": [{"x": 1}]}]}), C.REASONING),
        ("Mistral reference part", chunk({"content": [{"type": "reference"}]}), C.PRELUDE),
        ("role only", chunk({"role": "assistant", "content": ""}), C.PRELUDE),
        ("role with null content (llama.cpp)", chunk({"role": "assistant", "content": None}), C.PRELUDE),
        ("token held back", chunk({"content": ""}), C.EMPTY),
        ("finish alone", chunk({}, finish_reason="stop"), C.FINISH),
        ("finish with the last text (vLLM)", chunk({"content": "a"}, finish_reason="length"), C.ANSWER | C.FINISH),
        ("Azure's prelude", {"choices": [], "prompt_filter_results": []}, C.PRELUDE),
        ("usage, no choices", {"choices": [], "usage": {"completion_tokens": 3}}, C.USAGE),
        ("usage on an empty choice (LiteLLM)", chunk({}) | {"usage": {"completion_tokens": 3}}, C.USAGE),
        ("usage null on a text chunk (OpenAI)", chunk({"content": "a"}) | {"usage": None}, C.ANSWER),
        ("error object", {"error": {"message": "boom", "code": 500}}, C.ERROR),
        ("error text (TGI)", {"error": "boom", "error_type": "overloaded"}, C.ERROR),
        ("error beside choices (OpenRouter)", chunk({"content": ""}, finish_reason="error") | {"error": {"m": 1}}, C.ERROR),
        ("error event", event({"message": "boom"}, "error"), C.ERROR),
        ("error event that is no JSON", event("boom", "error"), C.ERROR),
        ("finish_reason error alone", chunk({}, finish_reason="error"), C.FINISH | C.ERROR),
        ("engine shut down (vLLM)", chunk({}, finish_reason="abort"), C.FINISH | C.ERROR),
        ("end mark", "[DONE]", C.END),
        ("end mark with white space", "[DONE] ", C.END),
        ("no JSON", "{broken", C.MALFORMED),
        ("JSON of another kind", "[1, 2]", C.MALFORMED),
        ("choices of a wrong type", {"choices": {"a": 1}}, C.MALFORMED),
        ("named extension (SGLang)", event({"ids": [1]}, "sglext_ids"), C.PRELUDE),
        ("named extension that is no JSON", event("x", "whatever"), C.META),
        ("ping event", event("", "ping"), C.HEARTBEAT),
    ],
)  # fmt: skip
def test_classes(what: str, data: object, expected: C) -> None:
    assert classes(data) == [expected]


def test_after_output_nothing_is_a_prelude_any_more() -> None:
    late_filter = {"choices": [{"index": 0, "content_filter_offsets": {}}]}
    assert classes(chunk({"content": "a"}), late_filter) == [C.ANSWER, C.META]
    assert classes(chunk({"content": "a"}), chunk({"role": "assistant", "content": ""})) == [C.ANSWER, C.EMPTY]


def finished(*events: object, choices: int = 1) -> OpenAiChatReader:
    reader = OpenAiChat().reader(choices)
    for e in events:
        reader.classify(e if isinstance(e, SseEvent) else event(e))
    return reader


def test_success_needs_finish_and_end_mark() -> None:
    text, finish = chunk({"content": "a"}), chunk({}, finish_reason="stop")
    assert finished(text, finish, "[DONE]").missing() == ""
    assert finished("[DONE]").missing() == "finish_reason for 1 choice(s)"
    assert finished(text, finish).missing() == "the end mark [DONE]"
    assert finished(text).missing() == "finish_reason for 1 choice(s) and the end mark [DONE]"


def test_every_choice_owes_a_finish() -> None:
    def of(index: int, **choice: object) -> dict[str, object]:
        return {"choices": [{"index": index, "delta": {"content": "a"}, **choice}]}

    both = finished(of(0), of(1), of(0, finish_reason="stop"), "[DONE]", choices=2)
    assert both.missing() == "finish_reason for 1 choice(s)"
    unasked = finished(of(0, finish_reason="stop"), of(1), "[DONE]")
    assert unasked.missing() == "finish_reason for 1 choice(s)"


def test_a_usage_chunk_with_an_empty_choice_owes_nothing() -> None:
    reader = finished(chunk({"content": "a"}, finish_reason="stop"), chunk({}) | {"usage": {"completion_tokens": 1}}, "[DONE]")
    assert reader.missing() == ""


def test_usage_is_taken_from_anywhere_and_the_last_counts() -> None:
    usage = {
        "prompt_tokens": 4, "completion_tokens": 8, "prompt_tokens_details": {"cached_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }  # fmt: skip
    got = finished(chunk({"content": "a"}) | {"usage": {"completion_tokens": 1}}, {"usage": usage}).usage
    assert got is not None
    assert (got.prompt_tokens, got.completion_tokens, got.cached_tokens, got.reasoning_tokens) == (4, 8, 2, 3)


def test_usage_of_odd_shapes_is_no_error() -> None:
    for usage in ("many", [1], {"completion_tokens": "3"}, {"prompt_tokens_details": 3, "completion_tokens": True}):
        got = finished({"choices": [], "usage": usage})
        assert not got.error
        assert got.usage is None or got.usage.completion_tokens is None


def test_error_text_is_the_providers_own() -> None:
    assert finished({"error": {"message": "KV full", "type": "server", "code": 503}}).error == "'KV full' (503)"
    assert finished(event({"type": "error", "error": {"message": "busy", "type": "overloaded"}}, "error")).error == (
        "'busy' (overloaded)"
    )


def test_a_providers_error_outweighs_a_malformed_event() -> None:
    reader = finished("{broken", {"error": "boom"}, "{broken too")
    assert (reader.error, reader.malformed) == ("'boom'", False)


def test_malformed_quotes_what_came() -> None:
    reader = finished("<html>")
    assert reader.malformed
    assert reader.error.startswith("expected a JSON object or [DONE], got '<html>'")


class Fixed:
    def pick(self, rng: Random) -> list[dict[str, object]]:
        return [{"role": "user", "content": "hi"}]


class Twelve:
    def pick(self, rng: Random) -> int:
        return 12


def test_request_body_has_the_last_word() -> None:
    kind = RequestKind(index=0, weight=1, prompt=Fixed(), max_tokens=Twelve(), body={"temperature": 0, "stream_options": None})
    request = OpenAiChat().build_request(kind, Random(1), "m")
    assert json.loads(request.body) == {
        "model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True, "max_tokens": 12,
        "temperature": 0, "stream_options": None,
    }  # fmt: skip
    assert "model" not in json.loads(OpenAiChat().build_request(kind, Random(1), None).body)

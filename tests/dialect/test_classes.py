"""What each event of each dialect is, one row an event. Chat's rows stand in test_openai_chat.py."""

import pytest

from loadgen.dialect import DIALECTS, Reader
from loadgen.model import EventClass as C
from tests.support.streams import event, read


def classes_of(dialect: str, *events: object) -> list[C]:
    return read(DIALECTS[dialect], *events)[1]


def after(dialect: str, *events: object, choices: int = 1) -> Reader:
    return read(DIALECTS[dialect], *events, choices=choices)[0]


def completion(text: object, **more: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "text": text, **more}]}


USAGE = {"prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3}


@pytest.mark.parametrize(
    ("what", "data", "expected"),
    [
        ("text", completion("a"), C.ANSWER),
        ("token held back", completion(""), C.EMPTY),
        ("finish alone", completion("", finish_reason="stop"), C.FINISH),
        ("finish with the last text", completion("a", finish_reason="length"), C.ANSWER | C.FINISH),
        ("usage in every chunk (vLLM)", completion("a") | {"usage": USAGE}, C.ANSWER | C.USAGE),
        ("usage of zeros in every chunk (Ollama)", completion("a") | {"usage": {"total_tokens": 0}}, C.ANSWER),
        ("usage, no choices", {"choices": [], "usage": USAGE}, C.USAGE),
        ("nothing", {"choices": []}, C.PRELUDE),
        ("two choices", {"choices": [{"index": 0, "text": "a"}, {"index": 1, "text": ""}]}, C.ANSWER | C.EMPTY),
        ("engine shut down", completion("", finish_reason="abort"), C.FINISH | C.ERROR),
        ("end mark", "[DONE]", C.END),
        ("end mark with a space (TensorRT-LLM)", "[DONE] ", C.END),
        ("text of a wrong type", completion(5), C.PRELUDE),
        ("choices of a wrong type", {"choices": 5}, C.MALFORMED),
    ],
)
def test_openai_completions(what: str, data: object, expected: C) -> None:
    assert classes_of("openai-completions", data) == [expected]


def test_a_text_completion_owes_a_finish_for_each_choice() -> None:
    text = {"choices": [{"index": 1, "text": "a"}]}
    assert after("openai-completions", completion("a", finish_reason="stop"), text, "[DONE]").missing() == (
        "finish_reason for 1 choice(s)"
    )
    assert after("openai-completions", completion("a"), choices=2).missing() == (
        "finish_reason for 2 choice(s) and the end mark [DONE]"
    )


def test_zeroed_usage_is_no_count() -> None:
    assert after("openai-completions", completion("a") | {"usage": {"total_tokens": 0, "prompt_tokens": 0}}).usage is None


def response(kind: str, **more: object) -> dict[str, object]:
    return {"type": f"response.{kind}", **more}


@pytest.mark.parametrize(
    ("what", "data", "expected"),
    [
        ("text", response("output_text.delta", delta="a"), C.ANSWER),
        ("refusal", response("refusal.delta", delta="no"), C.ANSWER),
        ("reasoning", response("reasoning_text.delta", delta="a"), C.REASONING),
        ("summary of reasoning", response("reasoning_summary_text.delta", delta="a"), C.REASONING),
        ("tool call", response("function_call_arguments.delta", delta="{"), C.TOOL),
        ("custom tool", response("custom_tool_call_input.delta", delta="x"), C.TOOL),
        ("MCP call", response("mcp_call_arguments.delta", delta="{"), C.TOOL),
        ("delta without text", response("output_text.delta", delta=""), C.EMPTY),
        ("created", response("created", response={"status": "in_progress"}), C.PRELUDE),
        ("queued", response("queued"), C.PRELUDE),
        ("in progress", response("in_progress"), C.PRELUDE),
        ("item", response("output_item.added", item={}), C.PRELUDE),
        ("part", response("content_part.added", part={}), C.PRELUDE),
        ("text done", response("output_text.done", text="a"), C.FINISH),
        ("item done", response("output_item.done"), C.FINISH),
        ("annotation", response("output_text.annotation.added"), C.META),
        ("unknown", response("something.new"), C.META),
        ("completed", response("completed", response={"status": "completed", "usage": {"output_tokens": 3}}),
         C.FINISH | C.USAGE | C.END),
        ("incomplete", response("incomplete", response={"incomplete_details": {"reason": "max_output_tokens"}}),
         C.FINISH | C.END),
        ("failed", response("failed", response={"error": {"code": "server_error", "message": "boom"}}),
         C.FINISH | C.END | C.ERROR),
        ("failed, reason unknown", response("failed"), C.FINISH | C.END | C.ERROR),
        ("error", {"type": "error", "code": "c", "message": "boom", "param": None, "sequence_number": 3}, C.ERROR),
        ("named by the event alone", event({"delta": "a"}, "response.output_text.delta"), C.ANSWER),
        ("response of a wrong type", response("completed", response=5), C.MALFORMED),
    ],
)  # fmt: skip
def test_openai_responses(what: str, data: object, expected: C) -> None:
    assert classes_of("openai-responses", data) == [expected]


def test_a_response_that_reached_its_limit_is_a_success_with_a_reason() -> None:
    """So vLLM words it, and so OpenAI does."""
    vllm = {"status": "completed", "incomplete_details": {"reason": "max_output_tokens"}}
    for kind, what in (("completed", vllm), ("incomplete", vllm | {"status": "incomplete"})):
        reader = after("openai-responses", response(kind, response=what))
        assert (reader.missing(), reader.error, reader.finish_reason) == ("", "", "max_output_tokens")


def test_a_response_without_terminal_event_is_none() -> None:
    assert after("openai-responses", response("output_text.delta", delta="a")).missing() == (
        "a finish reason and the end mark response.completed"
    )


def test_errors_of_responses_say_what_the_provider_said() -> None:
    assert after("openai-responses", {"type": "error", "code": "rate", "message": "boom"}).error == "'boom' (rate)"
    failed = response("failed", response={"error": {"code": "server_error", "message": "boom"}})
    assert after("openai-responses", failed).error == "'boom' (server_error)"


def test_a_gap_in_sequence_numbers_is_a_broken_stream() -> None:
    def numbered(*numbers: object) -> Reader:
        deltas = [response("output_text.delta", delta="a", sequence_number=n) for n in numbers]
        return after("openai-responses", *deltas)

    assert numbered(3, 4, 5).error == ""
    assert numbered(-1, -1, -1).error == ""  # early vLLM
    assert numbered(None, "x", None, 3).error == ""
    lost = numbered(3, 4, 7)
    assert (lost.malformed, lost.error) == (True, "sequence_number jumped from 4 to 7: events between are missing")


def delta(kind: str, **more: object) -> dict[str, object]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": kind, **more}}


@pytest.mark.parametrize(
    ("what", "data", "expected"),
    [
        ("start with usage", {"type": "message_start", "message": {"usage": {"input_tokens": 4}}}, C.PRELUDE | C.USAGE),
        ("start without", {"type": "message_start", "message": {}}, C.PRELUDE),
        ("block", {"type": "content_block_start", "content_block": {"type": "text", "text": ""}}, C.PRELUDE),
        ("block of a tool: its name was generated", {"type": "content_block_start", "content_block": {"name": "f"}}, C.TOOL),
        ("text", delta("text_delta", text="a"), C.ANSWER),
        ("token held back (vLLM)", delta("text_delta", text=""), C.EMPTY),
        ("thinking", delta("thinking_delta", thinking="a"), C.REASONING),
        ("a signature is no text", delta("signature_delta", signature="x"), C.META),
        ("citation", delta("citations_delta", citation={}), C.META),
        ("tool", delta("input_json_delta", partial_json="{"), C.TOOL),
        ("tool, nothing yet", delta("input_json_delta", partial_json=""), C.EMPTY),
        ("ping", {"type": "ping"}, C.HEARTBEAT),
        ("block end", {"type": "content_block_stop", "index": 0}, C.FINISH),
        ("reason", {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, C.FINISH),
        ("reason and usage", {"type": "message_delta", "delta": {"stop_reason": "x"}, "usage": {"output_tokens": 1}},
         C.FINISH | C.USAGE),
        ("end", {"type": "message_stop"}, C.FINISH | C.END),
        ("error", event({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, "error"), C.ERROR),
        ("error without a name", {"type": "error", "error": {"message": "busy"}}, C.ERROR),
        ("unknown", {"type": "brand_new"}, C.META),
        ("delta of a wrong type", {"type": "content_block_delta", "delta": 5}, C.MALFORMED),
    ],
)  # fmt: skip
def test_anthropic_messages(what: str, data: object, expected: C) -> None:
    assert classes_of("anthropic-messages", data) == [expected]


def test_anthropic_needs_stop_reason_and_message_stop() -> None:
    reason, stop = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"}
    assert after("anthropic-messages", reason, stop).missing() == ""
    assert after("anthropic-messages", stop).missing() == "a finish reason"
    assert after("anthropic-messages", reason).missing() == "the end mark message_stop"
    assert after("anthropic-messages", {"type": "message_delta", "delta": {"stop_reason": None}}, stop).missing()


def test_anthropics_usage_is_cumulative_and_comes_in_parts() -> None:
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 4, "output_tokens": 1}}}
    later = {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 9, "input_tokens": None}}
    usage = after("anthropic-messages", start, later).usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens) == (4, 9, None)


def line(**message: object) -> dict[str, object]:
    return {"message": {"role": "assistant", **message}, "done": False}


DONE = {"done": True, "done_reason": "stop", "eval_count": 3}


@pytest.mark.parametrize(
    ("what", "data", "expected"),
    [
        ("text", line(content="a"), C.ANSWER),
        ("thinking", line(content="", thinking="a"), C.REASONING),
        ("both", line(content="a", thinking="b"), C.ANSWER | C.REASONING),
        ("tool", line(content="", tool_calls=[{"function": {"name": "f"}}]), C.TOOL),
        ("token held back", line(content=""), C.EMPTY),
        ("generate", {"response": "a", "done": False}, C.ANSWER),
        ("generate, thinking", {"response": "", "thinking": "a", "done": False}, C.REASONING),
        ("generate, held back", {"response": "", "done": False}, C.EMPTY),
        ("done", {"message": {"content": ""}, **DONE}, C.FINISH | C.USAGE | C.END),
        ("done with the last text", {"response": "a", **DONE}, C.ANSWER | C.FINISH | C.USAGE | C.END),
        ("done without counts", {"response": "", "done": True}, C.FINISH | C.END),
        ("error", {"error": "model runner has stopped"}, C.ERROR),
        ("something else", {"status": "loading"}, C.PRELUDE),
        ("message of a wrong type", {"message": "a"}, C.MALFORMED),
    ],
)
def test_ollama(what: str, data: object, expected: C) -> None:
    assert classes_of("ollama", data) == [expected]


def test_ollama_ends_with_done() -> None:
    assert after("ollama", line(content="a")).missing() == "a finish reason and the end mark done: true"
    assert after("ollama", {"error": "model runner has stopped"}).error == "'model runner has stopped'"


def candidate(*parts: object, **more: object) -> dict[str, object]:
    return {"candidates": [{"content": {"parts": list(parts), "role": "model"}, **more}]}


META = {"usageMetadata": {"promptTokenCount": 3}}


@pytest.mark.parametrize(
    ("what", "data", "expected"),
    [
        ("text", candidate({"text": "a"}), C.ANSWER),
        ("text and usage", candidate({"text": "a"}) | META, C.ANSWER | C.USAGE),
        ("thought", candidate({"text": "a", "thought": True}), C.REASONING),
        ("thought and text", candidate({"text": "a", "thought": True}, {"text": "b"}), C.REASONING | C.ANSWER),
        ("tool", candidate({"functionCall": {"name": "f"}}), C.TOOL),
        ("signature alone", candidate({"thoughtSignature": "x"}), C.EMPTY),
        ("finish", candidate({"text": "a"}, finishReason="STOP"), C.ANSWER | C.FINISH),
        ("finish without parts", {"candidates": [{"finishReason": "SAFETY"}]} | META, C.FINISH | C.USAGE),
        ("finish with a signature", candidate({"text": "", "thoughtSignature": "x"}, finishReason="STOP"), C.EMPTY | C.FINISH),
        ("usage alone", META, C.USAGE),
        ("usage null", {"usageMetadata": None}, C.PRELUDE),
        ("nothing", {"modelVersion": "x"}, C.PRELUDE),
        ("refused", {"promptFeedback": {"blockReason": "SAFETY"}}, C.ERROR),
        ("refused, with usage", {"promptFeedback": {"blockReason": "SAFETY"}} | META, C.ERROR | C.USAGE),
        ("error", {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}, C.ERROR),
        ("parts of a wrong type", {"candidates": [{"content": {"parts": 5}}]}, C.MALFORMED),
    ],
)
def test_gemini(what: str, data: object, expected: C) -> None:
    assert classes_of("gemini", data) == [expected]


def test_gemini_ends_with_a_reason_and_nothing_else() -> None:
    assert after("gemini", candidate({"text": "a"})).missing() == "finish_reason for 1 choice(s)"
    assert after("gemini", candidate({"text": "a"}, finishReason="STOP")).missing() == ""
    assert after("gemini", {"promptFeedback": {"blockReason": "SAFETY"}}).error == "'the prompt was blocked: SAFETY'"


def token(text: str, **more: object) -> dict[str, object]:
    return {"index": 1, "token": {"id": 1, "text": text, "special": False}, "generated_text": None, "details": None} | more


DETAILS = {"finish_reason": "length", "generated_tokens": 3, "seed": None}


@pytest.mark.parametrize(
    ("what", "data", "expected"),
    [
        ("text", token("a"), C.ANSWER),
        ("no text yet", token(""), C.EMPTY),
        ("special", token("</s>", token={"id": 2, "text": "</s>", "special": True}), C.EMPTY),
        ("last", token("a", generated_text="a", details=DETAILS), C.ANSWER | C.FINISH | C.USAGE),
        ("last, special", token("", token={"text": "</s>", "special": True}, generated_text="a", details=DETAILS),
         C.EMPTY | C.FINISH | C.USAGE),
        ("last, details not asked for", token("a", generated_text="a"), C.ANSWER | C.FINISH),
        ("error", {"error": "Request failed", "error_type": "generation"}, C.ERROR),
        ("something else", {"x": 1}, C.PRELUDE),
        ("token of a wrong type", {"token": "a"}, C.MALFORMED),
    ],
)  # fmt: skip
def test_tgi(what: str, data: object, expected: C) -> None:
    assert classes_of("tgi", data) == [expected]


def test_tgi_says_what_kind_of_error_it_was() -> None:
    assert after("tgi", token("a"), {"error": "Request failed", "error_type": "overloaded"}).error == (
        "'Request failed' (overloaded)"
    )


@pytest.mark.parametrize(
    ("what", "data", "expected"),
    [
        ("text", {"content": "a", "stop": False}, C.ANSWER),
        ("token held back", {"content": "", "tokens": [5], "stop": False}, C.EMPTY),
        ("progress of the prompt", {"content": "", "stop": False, "prompt_progress": {"total": 9}}, C.PRELUDE),
        ("stop", {"content": "", "stop": True, "stop_type": "eos", "tokens_predicted": 3}, C.FINISH | C.USAGE),
        ("stop with the last text", {"content": "a", "stop": True}, C.ANSWER | C.FINISH | C.USAGE),
        ("error", {"error": {"code": 500, "message": "boom", "type": "server_error"}}, C.ERROR),
    ],
)
def test_llamacpp(what: str, data: object, expected: C) -> None:
    assert classes_of("llamacpp", data) == [expected]


@pytest.mark.parametrize(
    ("what", "data", "expected"),
    [
        ("text", {"model_name": "m", "text_output": "a"}, C.ANSWER),
        ("token held back", {"text_output": ""}, C.EMPTY),
        ("several outputs", {"text_output": ["a", "b"]}, C.ANSWER),
        ("no output", {"model_name": "m"}, C.PRELUDE),
        ("error", {"error": "in ensemble 'ensemble', failed"}, C.ERROR),
    ],
)
def test_triton(what: str, data: object, expected: C) -> None:
    assert classes_of("triton", data) == [expected]


def test_triton_owes_nothing_but_output() -> None:
    assert after("triton", {"text_output": ""}).missing() == "any output"
    assert after("triton", {"text_output": "a"}).missing() == ""


@pytest.mark.parametrize("dialect", ["openai-completions", "gemini", "tgi", "llamacpp", "triton", "ollama"])
def test_after_output_what_means_nothing_is_no_prelude(dialect: str) -> None:
    outputs = {
        "openai-completions": completion("a"), "gemini": candidate({"text": "a"}), "tgi": token("a"),
        "llamacpp": {"content": "a"}, "triton": {"text_output": "a"}, "ollama": line(content="a"),
    }  # fmt: skip
    assert classes_of(dialect, {"x": 1}, outputs[dialect], {"x": 1}) == [C.PRELUDE, C.ANSWER, C.META]

"""Every dialect against the simulated server, end to end in virtual time: outcomes, counts and stamps are exact."""

import pytest

from loadgen.dialect import DIALECTS
from loadgen.engine.run import SIM_PATH
from loadgen.model import Outcome, StreamRecord, Usage
from loadgen.sim.apis import APIS, find_api
from tests.support.virtual import HEAD, LAST, MS, VirtualRun, chunk, event, run_virtual, script

TOKENS, REASONING = 12, 5
PROMPT = "Say hello to all."  # 17 characters are 5 tokens
REASONS = sorted({"openai-chat", "openai-responses", "anthropic-messages", "azure", "gemini", "mistral", "ollama",
                  "ollama-generate"})  # fmt: skip
COUNTS_NOTHING = {"plain-sse", "triton"}
FINISH = {
    "openai-responses": "max_output_tokens", "anthropic-messages": "max_tokens", "gemini": "MAX_TOKENS", "llamacpp": "limit",
    "plain-sse": "", "triton": "",
}  # fmt: skip
HAS_END_MARK = {"openai-chat", "openai-completions", "openai-responses", "anthropic-messages", "azure", "mistral", "ollama",
                "ollama-generate"}  # fmt: skip


def run(dialect: str, **sim: object) -> VirtualRun:
    keys = {"ttft": "100ms", "itl": "10ms", "reasoning": REASONING, **sim}
    request = f'{{prompt: "{PROMPT}", max_tokens: {TOKENS}}}'
    path = SIM_PATH[dialect] + (f"?n={TOKENS}" if dialect == "plain-sse" else "")
    run = run_virtual(
        f"load: [{{hold: 500ms, streams: 3}}]\nrequests: [{request}]\ntimeouts: {{idle: 200ms}}\n",
        sim=keys, target=f'url: "http://sim{path}", dialect: {dialect}',
    )  # fmt: skip
    assert run.records
    return run


def from_start_ms(record: StreamRecord, stamp_ns: int | None) -> float:
    assert stamp_ns is not None
    return (stamp_ns - record.intended_ns) / MS


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_completed_with_its_counts(dialect: str) -> None:
    for record in run(dialect).records:
        assert (record.outcome, record.detail) == (Outcome.COMPLETED, "")
        assert record.output_events == TOKENS
        assert record.finish_reason == FINISH.get(dialect, "length")
        if dialect in COUNTS_NOTHING:
            assert record.usage is None
            continue
        assert record.usage is not None
        assert (record.usage.prompt_tokens, record.usage.completion_tokens) == (5, TOKENS)
        told = dialect in set(REASONS) - {"ollama", "ollama-generate"}
        assert record.usage.reasoning_tokens == (REASONING if told else None)


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_first_token_and_first_answer_are_apart(dialect: str) -> None:
    for record in run(dialect).records:
        assert from_start_ms(record, record.first_token_ns) == 100
        answer = 100 + 10 * REASONING if dialect in REASONS else 100
        assert from_start_ms(record, record.first_answer_ns) == answer
        assert from_start_ms(record, record.last_token_ns) == 100 + 10 * (TOKENS - 1)
        assert (record.itl_p50_ns, record.stall_ns) == (10 * MS, 10 * MS)


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_what_comes_before_a_token_is_no_token(dialect: str) -> None:
    """Role chunks, message_start, filter results 20 ms after arrival: an event, not the first token."""
    early = dialect in {"openai-chat", "openai-responses", "anthropic-messages", "azure", "mistral"}
    for record in run(dialect, role_first="20ms").records:
        assert from_start_ms(record, record.first_event_ns) == (20 if early else 100)
        assert from_start_ms(record, record.first_token_ns) == 100


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_several_tokens_an_event(dialect: str) -> None:
    events = TOKENS if dialect == "tgi" else TOKENS // 4  # TGI sends accepted drafts as a burst of events
    for record in run(dialect, tokens_per_event=4).records:
        assert (record.outcome, record.output_events) == (Outcome.COMPLETED, events)
        assert record.usage is None or record.usage.completion_tokens == TOKENS


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
@pytest.mark.parametrize("kind", ["error_object", "error_event"])
def test_an_error_in_mid_stream_is_the_providers(dialect: str, kind: str) -> None:
    ran = run(dialect, faults=[{"share": 1, "kind": kind, "after": 3}])
    if dialect == "plain-sse" and kind == "error_object":
        return  # plain SSE looks into no event
    for record in ran.records:
        assert record.outcome is Outcome.PROVIDER_ERROR
        assert "scripted fault" in record.detail
        assert record.output_events == 3


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_a_clean_cut_is_truncated_where_that_can_be_known(dialect: str) -> None:
    expected = Outcome.COMPLETED if dialect in COUNTS_NOTHING else Outcome.TRUNCATED
    for record in run(dialect, faults=[{"share": 1, "kind": "cut_clean", "after": 3}]).records:
        assert (record.outcome, record.output_events) == (expected, 3)


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_a_cut_inside_a_chunk_is_always_seen(dialect: str) -> None:
    for record in run(dialect, faults=[{"share": 1, "kind": "cut_in_chunk", "after": 3}]).records:
        assert (record.outcome, record.output_events) == (Outcome.TRUNCATED, 3)


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_without_its_end_mark_a_stream_is_truncated(dialect: str) -> None:
    expected = Outcome.TRUNCATED if dialect in HAS_END_MARK else Outcome.COMPLETED
    for record in run(dialect, faults=[{"share": 1, "kind": "no_done"}]).records:
        assert record.outcome is expected
        assert "end mark" in record.detail or expected is Outcome.COMPLETED


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_heartbeats_do_not_hold_off_the_idle_timeout_and_are_no_events(dialect: str) -> None:
    ran = run(dialect, heartbeat="30ms", faults=[{"share": 1, "kind": "stall", "after": 3}])
    for record in ran.records:
        assert (record.outcome, record.output_events) == (Outcome.TIMEOUT_IDLE, 3)
    alive = run(dialect, heartbeat="30ms").records
    assert {record.outcome for record in alive} == {Outcome.COMPLETED}
    assert all(record.heartbeats >= 1 for record in alive) is (dialect == "anthropic-messages")


def test_custom_reads_what_it_was_told_of() -> None:
    target = (
        "url: http://sim/completion, dialect: custom, custom: {request: {body: {stream: true}, prompt: /prompt, "
        "max_tokens: /n_predict}, text: /content, finish: /stop_type, usage: /tokens_predicted}"
    )
    ran = run_virtual(
        f"load: [{{hold: 200ms, streams: 2}}]\nrequests: [{{max_tokens: {TOKENS}}}]",
        sim={"ttft": "100ms", "itl": "10ms"}, target=target,
    )  # fmt: skip
    for record in ran.records:
        assert (record.outcome, record.output_events, record.finish_reason) == (Outcome.COMPLETED, TOKENS, "limit")
        assert record.usage == Usage(completion_tokens=TOKENS)
        assert from_start_ms(record, record.first_token_ns) == 100


ONE_STREAM = "load: [{hold: 50ms, streams: 1}]\nfailure_pause: 1s\n"
LINES = "url: http://sim/api/chat, dialect: ollama"
NDJSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_a_line_counts_when_its_lf_came() -> None:
    (record, *_) = run_virtual(
        ONE_STREAM, target=LINES,
        handler=script(
            NDJSON, 0.1, chunk(b'{"response":"a"'), 0.05, chunk(b"}"), 0.03, chunk(b'\n{"response":"b"}\n{"done":tr'), 0.02,
            chunk(b"ue}\n"), LAST,
        ),
    ).records  # fmt: skip
    assert (record.outcome, record.output_events, record.merged_reads) == (Outcome.COMPLETED, 2, 1)
    assert from_start_ms(record, record.first_token_ns) == from_start_ms(record, record.last_token_ns) == 180
    assert from_start_ms(record, record.end_ns) == 200


def test_a_line_without_its_lf_is_cut_off() -> None:
    (record, *_) = run_virtual(
        ONE_STREAM, target=LINES, handler=script(NDJSON, 0.1, chunk(b'{"response":"a"}\n{"done":true}'), LAST)
    ).records
    assert (record.outcome, record.detail) == (
        Outcome.TRUNCATED, "the stream ended without a finish reason and the end mark done: true",
    )  # fmt: skip


def test_the_answer_must_be_of_the_kind_that_the_dialect_reads() -> None:
    (record, *_) = run_virtual(ONE_STREAM, target=LINES, handler=script(HEAD, 0.1, event(b"{}"), LAST)).records
    assert record.outcome is Outcome.PROTOCOL_ERROR
    assert record.detail.startswith("expected content type application/x-ndjson, got 'text/event-stream'")


def test_a_json_answer_of_a_thousand_brackets_is_quoted() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
    (record, *_) = run_virtual(ONE_STREAM, target=LINES, handler=script(head, 0.1, b'{"a":' + b"[" * 4000)).records
    assert record.outcome is Outcome.PROTOCOL_ERROR
    assert 'the body begins \'{"a":[[[' in record.detail


def test_every_dialect_has_its_place_at_the_simulated_server() -> None:
    assert SIM_PATH.keys() == DIALECTS.keys()
    found = {id(find_api(path.partition("?")[0])) for dialect, path in SIM_PATH.items() if dialect != "plain-sse"}
    assert found == {id(api) for api in APIS.values()}

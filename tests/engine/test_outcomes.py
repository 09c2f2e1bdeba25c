"""How streams end: hostile and faulty servers, each with its outcome, its words, and nothing lost on the way."""

from itertools import count

import pytest
import trio

from loadgen.model import Outcome, StreamRecord
from tests.support.virtual import (
    DONE,
    FINISH,
    HEAD,
    LAST,
    MS,
    ROLE,
    Handler,
    VirtualRun,
    chunk,
    event,
    run_virtual,
    script,
    text,
)  # fmt: skip

ONE = "load: [{hold: 100ms, streams: 1}]\nfailure_pause: 10s\n"


def one(handler: Handler, more: str = "") -> tuple[StreamRecord, VirtualRun]:
    """The first stream of a run against a scripted server; the streams after it meet silence and are cut.

    (A closed loop of streams that take no time at all would never let virtual time pass.)
    """
    connections = count()

    async def handle(stream: trio.abc.Stream) -> None:
        await (handler if next(connections) == 0 else script(close=False))(stream)

    run = run_virtual(ONE + more, handler=handle)
    return run.records[0], run


def ended(handler: Handler, more: str = "") -> tuple[Outcome, str]:
    record, _ = one(handler, more)
    return record.outcome, record.detail


def test_role_only_chunk_is_not_the_first_token() -> None:
    record, run = one(script(HEAD, 0.01, ROLE, 0.15, text(), 0.02, text(), 0.02, FINISH + DONE + LAST))
    assert record.outcome is Outcome.COMPLETED
    assert record.first_event_ns == record.intended_ns + 10 * MS
    assert record.first_token_ns == record.intended_ns + 160 * MS
    itl = run.summary["metrics"]["itl"]
    assert (itl["count"], itl["p50_ms"]) == (1, 20.0)


def test_reasoning_is_a_first_token_but_no_answer() -> None:
    thought = event(b'{"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}')
    record, run = one(script(HEAD, 0.2, thought, 0.1, text(), FINISH + DONE + LAST))
    assert record.first_token_ns == record.intended_ns + 200 * MS
    assert record.first_answer_ns == record.intended_ns + 300 * MS
    only, _ = one(script(HEAD, 0.2, thought, FINISH + DONE + LAST))
    assert (only.outcome, only.first_answer_ns) == (Outcome.COMPLETED, None)
    assert run.summary["metrics"]["first_answer"]["count"] == 1


def test_two_tokens_in_one_delta_are_one_event_and_two_tokens_by_usage() -> None:
    usage = event(b'{"choices":[],"usage":{"completion_tokens":4}}')
    record, run = one(script(HEAD, 0.1, text(b"two tokens"), 0.09, text(b"two more"), FINISH + usage + DONE + LAST))
    assert record.output_events == 2
    assert run.summary["tokens"]["usage"] == 4
    assert run.summary["metrics"]["tpot"]["p50_ms"] == 30.0


def test_usage_long_after_the_last_text_moves_no_token_stamp() -> None:
    usage = event(b'{"choices":[],"usage":{"completion_tokens":2}}')
    record, _ = one(script(HEAD, 0.1, text(), 0.02, text(), FINISH, 0.3, usage, DONE + LAST))
    assert record.last_token_ns == record.intended_ns + 120 * MS
    assert record.usage is not None
    assert record.usage.completion_tokens == 2


@pytest.mark.parametrize("eol", [b"\n", b"\r\n", b"\r"])
def test_line_ends_of_every_kind(eol: bytes) -> None:
    delta = b'{"choices":[{"index":0,"delta":{"content":"a"}}]}'
    finish = b'{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'
    end = event(finish, eol) + event(b"[DONE]", eol) + LAST
    record, _ = one(script(HEAD, 0.1, event(delta, eol), 0.1, event(delta, eol), end))
    assert (record.outcome, record.output_events) == (Outcome.COMPLETED, 2)


def test_one_byte_writes_lose_nothing() -> None:
    body = HEAD + ROLE + text() + text() + FINISH + DONE + LAST
    steps = [piece for byte in body for piece in (bytes([byte]), 0.0001)]
    record, _ = one(script(*steps))
    assert (record.outcome, record.output_events) == (Outcome.COMPLETED, 2)


def test_line_separator_inside_a_delta_splits_nothing() -> None:
    record, _ = one(script(HEAD, text("a\u2028b\u0085c".encode()), text(), FINISH + DONE + LAST))
    assert (record.outcome, record.output_events) == (Outcome.COMPLETED, 2)


def test_a_line_of_a_mebibyte() -> None:
    record, _ = one(script(HEAD, text(b"x" * (1 << 20)), FINISH + DONE + LAST))
    assert (record.outcome, record.output_events) == (Outcome.COMPLETED, 1)


@pytest.mark.parametrize("end", [DONE + LAST, LAST, b""], ids=["done", "no done", "cut"])
def test_error_object_after_200_is_the_providers_whatever_follows(end: bytes) -> None:
    error = event(b'{"error":{"message":"KV cache full","code":500}}')
    record, run = one(script(HEAD, text(), error + end))
    assert (record.outcome, record.detail) == (Outcome.PROVIDER_ERROR, "'KV cache full' (500)")
    assert record.output_events == 1
    assert run.summary["metrics"]["e2e"]["count"] == 0


def test_error_event() -> None:
    assert ended(script(HEAD, text(), chunk(b"event: error\ndata: overloaded\n\n") + LAST)) == (
        Outcome.PROVIDER_ERROR, "'overloaded'",
    )  # fmt: skip


def test_unframed_error_bodies_after_200() -> None:
    body = b'{"error": {"message": "no such model"}}'
    as_json = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    for answer in (as_json, HEAD + chunk(body) + LAST):
        outcome, detail = ended(script(answer))
        assert outcome is Outcome.PROVIDER_ERROR
        assert "no such model" in detail


def test_done_alone_and_an_empty_body_are_no_success() -> None:
    lacking = "the stream ended without finish_reason for 1 choice(s)"
    assert ended(script(HEAD + DONE + LAST)) == (Outcome.TRUNCATED, lacking)
    assert ended(script(HEAD + LAST)) == (Outcome.TRUNCATED, f"{lacking} and the end mark [DONE]")
    _, run = one(script(HEAD + DONE + LAST))
    assert run.summary["metrics"]["ttft"] == {"count": 0, "meaning": run.summary["metrics"]["ttft"]["meaning"]}
    assert (run.summary["verdict"], run.summary["exit_code"]) == ("unreachable", 3)


def test_a_clean_end_without_done() -> None:
    assert ended(script(HEAD, text(), FINISH + LAST)) == (
        Outcome.TRUNCATED, "the stream ended without the end mark [DONE]",
    )  # fmt: skip


def test_cut_inside_a_chunk() -> None:
    outcome, detail = ended(script(HEAD, text(), b'ff\r\ndata: {"cho'))
    assert outcome is Outcome.TRUNCATED
    assert detail == "premature_eof: the peer closed the connection with 244 bytes of a chunk to come"


def test_cut_between_chunks_though_every_event_came() -> None:
    outcome, detail = ended(script(HEAD, text(), FINISH + DONE))
    assert outcome is Outcome.TRUNCATED
    assert "the last chunk never came" in detail


def test_closed_before_any_response() -> None:
    assert ended(script()) == (
        Outcome.TRUNCATED, "premature_eof: the peer closed the connection before any response",
    )  # fmt: skip


def test_bad_chunk_size_keeps_what_came_before() -> None:
    record, _ = one(script(HEAD, text() + b"zz\r\n"))
    assert (record.outcome, record.output_events) == (Outcome.PROTOCOL_ERROR, 1)
    assert record.detail.startswith("bad_chunk_size")


def test_a_malformed_event_between_good_ones() -> None:
    record, _ = one(script(HEAD, text() + event(b"{broken") + text() + FINISH + DONE + LAST))
    assert (record.outcome, record.output_events) == (Outcome.PROTOCOL_ERROR, 2)
    assert "'{broken'" in record.detail


def test_html_instead_of_a_stream() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 14\r\n\r\n<html>Hi</html"
    outcome, detail = ended(script(answer))
    assert outcome is Outcome.PROTOCOL_ERROR
    assert detail == "expected content type text/event-stream, got 'text/html'; the body begins '<html>Hi</html'"


def test_status_is_quoted_with_its_body() -> None:
    body = b'{"error":"bad key"}' + b" " * 500
    answer = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    outcome, detail = ended(script(answer))
    assert outcome is Outcome.HTTP_ERROR
    assert detail.startswith('401 Unauthorized: \'{"error":"bad key"}')
    assert len(detail) < 300


@pytest.mark.parametrize("status", [429, 503])
def test_rejections_tell_when_to_come_again(status: int) -> None:
    answer = b"HTTP/1.1 %d Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n" % status
    assert ended(script(answer)) == (Outcome.REJECTED, f"{status} Busy (Retry-After: '7')")


def test_redirects_are_told_and_not_followed() -> None:
    answer = b"HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n"
    outcome, detail = ended(script(answer))
    assert outcome is Outcome.HTTP_ERROR
    assert "redirects are not followed" in detail


def test_what_is_no_http() -> None:
    outcome, detail = ended(script(b"\x15\x03\x01\x00\x02\x02"))
    assert outcome is Outcome.PROTOCOL_ERROR
    assert detail.startswith("bad_status_line")


def test_unknown_content_encoding() -> None:
    head = HEAD.replace(b"\r\n\r\n", b"\r\nContent-Encoding: zstd\r\n\r\n")
    outcome, detail = ended(script(head + text()))
    assert outcome is Outcome.PROTOCOL_ERROR
    assert detail.startswith("unsupported_content_encoding")


def test_comments_are_no_tokens_and_do_not_hold_off_the_idle_timeout() -> None:
    ping = chunk(b": ping\n\n")
    steps = [piece for _ in range(20) for piece in (0.1, ping)]
    record, _ = one(script(HEAD, 0.1, text(), *steps, close=False), "timeouts: {idle: 500ms}\ndrain: 5s\n")
    assert (record.outcome, record.detail) == (Outcome.TIMEOUT_IDLE, "no event for 500ms")
    assert record.end_ns == record.intended_ns + 600 * MS


def test_timeouts_are_four_and_fire_when_they_should() -> None:
    silent = script(HEAD, close=False)
    more = "timeouts: {first_token: 300ms, idle: 200ms, total: 2s}\ndrain: 5s\n"
    record, _ = one(silent, more)
    assert (record.outcome, record.end_ns - record.intended_ns) == (Outcome.TIMEOUT_FIRST_TOKEN, 300 * MS)
    record, _ = one(script(HEAD, 0.25, text(), 0.15, text(), close=False), more)
    assert (record.outcome, record.end_ns - record.intended_ns) == (Outcome.TIMEOUT_IDLE, 600 * MS)
    endless = script(HEAD, *([text(), 0.1] * 100))
    record, _ = one(endless, more)
    assert (record.outcome, record.end_ns - record.intended_ns) == (Outcome.TIMEOUT_TOTAL, 2000 * MS)
    assert record.output_events >= 20


def test_an_end_mark_frees_the_slot_though_the_connection_stays_open() -> None:
    run = run_virtual("load: [{hold: 1s, streams: 1}]", handler=script(HEAD, 0.2, text(), FINISH + DONE, close=False))
    assert len(run.records) == 5
    for record in run.records:
        assert (record.outcome, record.left_open) == (Outcome.COMPLETED, True)
        assert record.end_ns == record.intended_ns + 200 * MS
    assert run.data.duration_ns < 2500 * MS


def test_what_is_still_open_at_the_end_is_cut_not_failed() -> None:
    run = run_virtual("load: [{hold: 1s, streams: 3}]\ndrain: 2s", handler=script(HEAD, text(), close=False))
    assert [r.outcome for r in run.records] == [Outcome.CUT] * 3
    assert run.summary["streams"]["error_rate"] is None
    assert run.data.duration_ns == 3000 * MS


def test_a_refusing_target_ends_the_run_at_once() -> None:
    def refuse() -> None:
        raise ConnectionRefusedError("refused")

    run = run_virtual("load: [{hold: 60s, streams: 5}]", handler=script(), refuse=refuse)
    assert run.data.duration_ns < 1000 * MS
    assert (run.summary["verdict"], run.summary["exit_code"]) == ("unreachable", 3)
    assert "refused" in run.summary["verdict_reason"]
    assert {r.outcome for r in run.records} == {Outcome.CONNECT_ERROR}


def test_a_rejecting_server_is_not_hammered() -> None:
    busy = script(b"HTTP/1.1 429 Busy\r\nContent-Length: 0\r\n\r\n")
    run = run_virtual("load: [{hold: 10s, streams: 2}]\nfailure_pause: 500ms", handler=busy)
    assert 38 <= len(run.records) <= 42
    assert run.summary["concurrency"]["mean_asked"] < 0.2

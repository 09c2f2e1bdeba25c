"""Answers that break where two rules meet: head and fault in one read, a refusal and then a reset."""

import pytest

from loadgen.dialect import DIALECTS
from loadgen.model import Outcome
from tests.support.fed import Fed
from tests.support.virtual import FINISH, HEAD, ROLE, chunk, text


def fed() -> Fed:
    return Fed(DIALECTS["openai-chat"])


@pytest.mark.parametrize("reads", [1, 2])
def test_events_before_a_framing_fault_count_even_when_the_head_came_in_the_same_read(reads: int) -> None:
    tested = fed()
    body = ROLE + text() + text() + b"zz\r\n"
    for data in [HEAD + body] if reads == 1 else [HEAD, body]:
        tested.connection.feed(data, 5, 1, kernel=False)
    assert (len(tested.exchange.timeline.outputs), tested.exchange.timeline.first_token_ns) == (2, 5)
    assert tested.exchange.verdict() == (
        Outcome.PROTOCOL_ERROR,
        "bad_chunk_size: expected a chunk size in hex digits, got 'zz'",
    )


def test_an_error_event_before_a_framing_fault_is_the_providers() -> None:
    tested = fed()
    tested.connection.feed(HEAD + chunk(b'data: {"error":{"message":"out of memory"}}\n\n') + b"zz\r\n", 5, 1, kernel=False)
    assert tested.exchange.verdict()[0] is Outcome.PROVIDER_ERROR


@pytest.mark.parametrize(("status", "outcome"), [(429, Outcome.REJECTED), (500, Outcome.HTTP_ERROR)])
def test_a_refusal_stays_one_when_the_server_resets_behind_it(status: int, outcome: Outcome) -> None:
    """A server that closes with request bytes unread sends RST: its answer had been given all the same."""
    tested = fed()
    tested.connection.feed(b"HTTP/1.1 %d No\r\nContent-Type: text/plain\r\n\r\nslow down" % status, 5, 1, kernel=False)
    tested.connection.reset("Connection reset by peer", 6)
    assert tested.exchange.verdict() == (outcome, f"{status} No: 'slow down'")


def test_a_reset_inside_a_stream_stays_a_reset() -> None:
    tested = fed()
    tested.connection.feed(HEAD + text() + FINISH, 5, 1, kernel=False)
    tested.connection.reset("Connection reset by peer", 6)
    assert tested.exchange.verdict() == (Outcome.RESET, "Connection reset by peer")


def test_a_timeout_before_the_end_of_a_refusal_stays_a_timeout() -> None:
    tested = fed()
    tested.connection.feed(b"HTTP/1.1 503 No\r\nContent-Length: 100\r\n\r\n", 5, 1, kernel=False)
    tested.exchange.give_up(Outcome.TIMEOUT_TOTAL, "not ended after 1s", 6)
    assert tested.exchange.verdict()[0] is Outcome.TIMEOUT_TOTAL

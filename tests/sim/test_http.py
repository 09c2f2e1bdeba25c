"""Requests as they come in pieces, and heads of answers."""

from itertools import pairwise

import h11
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import memory_stream_pair

from loadgen.sim import http
from loadgen.sim.http import BadRequestError, Connection, Framing, Request
from loadgen.sim.outlet import Outlet
from tests.support.sim_client import run_virtually

REQUEST = b"POST /a/b?n=3&x=%20&n=4 HTTP/1.1\r\nHost: sim\r\nContent-Length: 11\r\n\r\nhello world"
CHUNKED = b"POST /c HTTP/1.1\r\nHost: sim\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"


async def read_requests(*pieces: bytes, keep_alive: bool = True) -> list[Request]:
    ours, theirs = memory_stream_pair()
    connection = Connection(theirs, Outlet(theirs), keep_alive=keep_alive)
    for piece in pieces:
        await ours.send_all(piece)
    await ours.send_eof()
    requests = []
    while (request := await connection.next_request()) is not None:
        requests.append(request)
    return requests


@given(cuts=st.lists(st.integers(0, len(REQUEST + CHUNKED)), max_size=6))
def test_pieces_do_not_matter(cuts: list[int]) -> None:
    wire = REQUEST + CHUNKED
    edges = [0, *sorted(cuts), len(wire)]

    async def main() -> None:
        first, second = await read_requests(*(wire[a:b] for a, b in pairwise(edges) if a < b))
        assert (first.method, first.path, first.body) == ("POST", "/a/b", b"hello world")
        assert first.query == {"n": ["3", "4"], "x": [" "]}
        assert (second.path, second.body) == ("/c", b"hello world")

    run_virtually(main)


async def test_byte_by_byte() -> None:
    assert len(await read_requests(*(REQUEST[i : i + 1] for i in range(len(REQUEST))))) == 1


async def test_end_within_a_request_is_no_request() -> None:
    with pytest.raises(BadRequestError):
        await read_requests(REQUEST[:-1])
    with pytest.raises(BadRequestError):
        await read_requests(REQUEST[:20])


@pytest.mark.parametrize(
    ("wire", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),  # no Host
        (b"GET http://[ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 100_000, 431),
    ],
)
async def test_bad_requests_have_a_status(wire: bytes, status: int) -> None:
    with pytest.raises(BadRequestError) as caught:
        await read_requests(wire)
    assert caught.value.status == status


async def test_body_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_BODY_BYTES", 10)
    with pytest.raises(BadRequestError) as caught:
        await read_requests(REQUEST)
    assert caught.value.status == 413


@pytest.mark.parametrize(
    ("head", "keep_alive", "framing"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", True, Framing(chunked=True, close=False)),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", False, Framing(chunked=True, close=True)),
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: TE, Close\r\n\r\n", True, Framing(chunked=True, close=True)),
        (b"GET / HTTP/1.0\r\n\r\n", True, Framing(chunked=False, close=True)),
    ],
)
async def test_framing_follows_the_request(head: bytes, keep_alive: bool, framing: Framing) -> None:
    (request,) = await read_requests(head, keep_alive=keep_alive)
    assert request.framing == framing


async def test_expectation_is_met_before_the_body_comes(nursery: trio.Nursery) -> None:
    """curl waits a second for it before it sends a long body."""
    ours, theirs = memory_stream_pair()
    outlet = Outlet(theirs)
    nursery.start_soon(outlet.run)
    nursery.start_soon(Connection(theirs, outlet, keep_alive=True).next_request)
    await ours.send_all(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n")
    assert await ours.receive_some() == b"HTTP/1.1 100 Continue\r\n\r\n"
    await ours.send_all(b"x")
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("status", [200, 404, 413, 429, 431, 503, 599])
def test_messages_are_read_by_h11(status: int) -> None:
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method="GET", target="/", headers=[("Host", "a")]))
    client.send(h11.EndOfMessage())
    client.receive_data(Framing(chunked=True, close=False).message(status, b"body", "text/plain", "Retry-After: 1"))
    head, data, end = client.next_event(), client.next_event(), client.next_event()
    assert isinstance(head, h11.Response)
    assert head.status_code == status
    assert (b"retry-after", b"1") in head.headers
    assert isinstance(data, h11.Data)
    assert data.data == b"body"
    assert isinstance(end, h11.EndOfMessage)

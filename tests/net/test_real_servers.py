"""Servers and proxies that nobody here wrote. Truth is what the origin's own clock says (its schedule: 100 ms, then 30 ms)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from loadgen.wire.http1 import ResponseParser
from tests.support.servers import asgi_server, haproxy, nginx
from tests.support.sockets import run_real

pytestmark = [pytest.mark.net, pytest.mark.slow]


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with asgi_server("uvicorn", tmp_path_factory.mktemp("uvicorn")) as port:
        yield port


async def measure(port: int) -> dict[str, Any]:
    with trio.fail_after(15):
        summary, _ = await run_real(
            f'loadgen: 1\ntarget: {{url: "http://127.0.0.1:{port}/v1/chat/completions"}}\n'
            "load: [{warmup: 300ms, streams: 4}, {hold: 1s, streams: 4}]\ndrain: 3s\n"
        )
    assert summary["streams"]["outcomes"] == {"completed": summary["streams"]["started"]}
    return summary


def assert_undisturbed(summary: dict[str, Any]) -> None:
    """What the origin sends, give or take a busy machine."""
    metrics = summary["metrics"]
    assert 95 < metrics["ttft"]["p50_ms"] < 130
    assert 25 < metrics["itl"]["p50_ms"] < 35
    assert summary["bunching"]["share"] < 0.1
    assert summary["bunching"]["suspect"] is None


async def test_uvicorn(origin: int) -> None:
    assert_undisturbed(await measure(origin))


async def test_hypercorn(tmp_path: Path) -> None:
    with asgi_server("hypercorn", tmp_path) as port:
        assert_undisturbed(await measure(port))


async def test_nginx_defaults_hold_everything_back_and_ttft_shows_it(tmp_path: Path) -> None:
    """nginx 1.22 asks its upstream in HTTP/1.0; an origin that then sends no chunks is buffered to the end.

    (uvicorn sends chunks even then, and nginx passes them on one by one: measured, hence hypercorn here.)
    """
    with asgi_server("hypercorn", tmp_path) as origin, nginx(origin, tmp_path) as port:
        summary = await measure(port)
    # The whole answer takes 100 + 11 x 30 = 430 ms and arrives at once.
    assert summary["metrics"]["ttft"]["p50_ms"] > 400
    assert summary["metrics"]["itl"]["p50_ms"] < 5
    assert summary["bunching"]["share"] > 0.9
    assert summary["bunching"]["suspect"] is not None


async def test_nginx_without_buffering_adds_nothing(origin: int, tmp_path: Path) -> None:
    with nginx(origin, tmp_path, "proxy_buffering off") as port:
        assert_undisturbed(await measure(port))


async def test_nginx_gzip_without_buffering_is_decoded_event_by_event(origin: int, tmp_path: Path) -> None:
    settings = (
        "proxy_buffering off",
        "proxy_http_version 1.1",
        "gzip on",
        "gzip_types text/event-stream",
        "gzip_min_length 0",
    )
    with nginx(origin, tmp_path, *settings) as port:
        with trio.fail_after(15):
            summary, records = await run_real(
                f'loadgen: 1\ntarget: {{url: "http://127.0.0.1:{port}/", headers: {{Accept-Encoding: gzip}}}}\n'
                "load: [{hold: 600ms, streams: 2}]\ndrain: 3s\n"
            )
        head = httpx.post(f"http://127.0.0.1:{port}/", json={}).headers
    assert head["content-encoding"] == "gzip"
    assert summary["streams"]["outcomes"] == {"completed": len(records)}
    assert summary["bunching"]["share"] < 0.1


async def test_haproxy_corks_http1_for_200_ms_unless_told_not_to(origin: int, tmp_path: Path) -> None:
    (tmp_path / "corked").mkdir()
    with haproxy(origin, tmp_path / "corked") as port:
        corked = await measure(port)
    assert corked["bunching"]["share"] > 0.5
    assert corked["metrics"]["stall"]["p50_ms"] > 100
    (tmp_path / "free").mkdir()
    with haproxy(origin, tmp_path / "free", "option http-no-delay") as port:
        assert_undisturbed(await measure(port))


async def test_a_proxys_read_timeout_is_a_truncated_stream(origin: int, tmp_path: Path) -> None:
    """nginx gives up on its upstream inside the answer: status 200, no last chunk."""
    with nginx(origin, tmp_path, "proxy_buffering off", "proxy_http_version 1.1", "proxy_read_timeout 50ms") as port:
        with trio.fail_after(15):
            summary, records = await run_real(
                f'loadgen: 1\ntarget: {{url: "http://127.0.0.1:{port}/"}}\n'
                "load: [{hold: 500ms, streams: 2}]\nfailure_pause: 100ms\ndrain: 3s\n"
            )
    # The head waits for the first body bytes, 100 ms: the cut comes as a 504 before them, or as a cut after them.
    assert set(summary["streams"]["outcomes"]) <= {"completed", "truncated", "http_error"}
    assert summary["streams"]["outcomes"]["completed"] == 0
    assert all(record.detail for record in records)


async def test_our_transport_and_httpx_see_the_same_bytes(origin: int) -> None:
    """The same request, twice: body bytes equal but for the stamps inside."""
    async with httpx.AsyncClient() as client:
        theirs = (await client.post(f"http://127.0.0.1:{origin}/x", content=b"{}")).content
    stream = await trio.open_tcp_stream("127.0.0.1", origin)
    parser, ours = ResponseParser(), b""
    with trio.fail_after(10):
        async with stream:
            await stream.send_all(b"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
            while not parser.body_complete:
                parser.feed(await stream.receive_some())
                ours += parser.take_body()

    def without_stamps(body: bytes) -> list[bytes]:
        return [line.partition(b'"sent"')[0] for line in body.split(b"\n")]

    assert without_stamps(ours) == without_stamps(theirs)
    assert len(without_stamps(ours)) == 13 * 2 + 1

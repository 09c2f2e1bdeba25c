"""HTTP/2 against servers and proxies that nobody here wrote, in cleartext with prior knowledge and over TLS."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
import trustme

from tests.support.servers import APP, ENDLESS_APP, asgi_server, haproxy, nghttpx, nginx
from tests.support.sockets import run_real

pytestmark = [pytest.mark.net, pytest.mark.slow]


@contextmanager
def peer(kind: str, folder: Path, app: str = APP) -> Iterator[int]:
    """A server that speaks HTTP/2 in front of the app."""
    origin_folder = folder / "origin"
    origin_folder.mkdir()
    with asgi_server("hypercorn", origin_folder, app) as origin:
        match kind:
            case "hypercorn":
                yield origin
            case "nginx":
                settings = ("proxy_buffering off", "proxy_http_version 1.1")
                with nginx(origin, folder, *settings, listen="http2") as port:
                    yield port
            case "haproxy":
                with haproxy(origin, folder, "option http-no-delay", bind="proto h2") as port:
                    yield port
            case "nghttpx":
                with nghttpx(origin, folder) as port:
                    yield port


PEERS = ["hypercorn", "nginx", "haproxy", "nghttpx"]


@pytest.mark.parametrize("kind", PEERS)
async def test_streams_share_two_connections(kind: str, tmp_path: Path) -> None:
    with peer(kind, tmp_path) as port, trio.fail_after(20):
        summary, records = await run_real(
            f'loadgen: 1\ntarget: {{url: "http://127.0.0.1:{port}/v1/chat/completions"}}\n'
            'transport: {http: "2", connections: 2}\nload: [{hold: 1s, streams: 20}]\ndrain: 3s\n'
        )
    assert summary["streams"]["outcomes"] == {"completed": len(records)}, summary["streams"]["details"]
    assert {record.connection for record in records} == {0, 1}
    assert len(records) >= 40
    assert 95 < summary["metrics"]["ttft"]["p50_ms"] < 150
    assert 25 < summary["metrics"]["itl"]["p50_ms"] < 36
    assert summary["generator"]["stamps"] == "kernel"


async def test_over_tls_by_alpn(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    issued = authority.issue_cert("localhost", "127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))
    options = ("--certfile", str(tmp_path / "server.pem"), "--keyfile", str(tmp_path / "server.pem"))
    with asgi_server("hypercorn", tmp_path, APP, *options) as port, trio.fail_after(20):
        summary, records = await run_real(
            f'loadgen: 1\ntarget: {{url: "https://127.0.0.1:{port}/v1"}}\nload: [{{hold: 800ms, streams: 8}}]\ndrain: 3s\n'
            f'transport: {{http: "2", connections: 1, tls: {{ca: "{tmp_path}/ca.pem"}}}}\n'
        )
    assert summary["streams"]["outcomes"] == {"completed": len(records)}, summary["streams"]["details"]
    assert {record.connection for record in records} == {0}
    assert summary["metrics"]["tls"]["count"] == 1


async def test_a_server_without_http2_is_told_so(tmp_path: Path) -> None:
    with asgi_server("uvicorn", tmp_path) as port, trio.fail_after(20):
        summary, records = await run_real(
            f'loadgen: 1\ntarget: {{url: "http://127.0.0.1:{port}/v1"}}\ntransport: {{http: "2"}}\n'
            "load: [{hold: 300ms, streams: 1}]\n"
        )
    assert summary["streams"]["outcomes"]["completed"] == 0
    assert all("HTTP/1.1" in record.detail for record in records), summary["streams"]["details"]


@pytest.mark.parametrize("kind", ["hypercorn", "nginx"])
async def test_leaving_a_stream_reaches_the_origin_at_once(kind: str, tmp_path: Path) -> None:
    """RST_STREAM CANCEL; the connection lives on, and through nginx the upstream hears of it in less than 50 ms."""
    with peer(kind, tmp_path, ENDLESS_APP) as port, trio.fail_after(20):
        summary, records = await run_real(
            f'loadgen: 1\ntarget: {{url: "http://127.0.0.1:{port}/v1"}}\ntransport: {{http: "2", connections: 1}}\n'
            "load: [{hold: 1s, streams: 4}]\ntimeouts: {first_token: null, idle: null, total: 300ms}\ndrain: 3s\n"
        )
        await trio.sleep(0.1)
        gone = sorted(map(int, (tmp_path / "origin" / "gone").read_text().split()))
    assert set(summary["streams"]["outcomes"]) == {"completed", "timeout_total"}
    assert summary["streams"]["outcomes"]["completed"] == 0
    assert {record.connection for record in records} == {0}
    assert len(gone) == len(records)
    left = sorted(record.end_ns for record in records)
    late_ms = sorted((heard - end) / 1e6 for heard, end in zip(gone, left, strict=True))
    assert late_ms[len(late_ms) // 2] < 50

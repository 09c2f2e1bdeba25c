"""Connections as users have them: TCP, TLS with and without trust, unix sockets, dead ports, pools of stale connections."""

import ssl
from pathlib import Path

import pytest
import trio
import trustme

from loadgen.model import Outcome
from tests.support.sockets import listening, run_real
from tests.support.virtual import DONE, FINISH, HEAD, LAST, ROLE, script, text

pytestmark = pytest.mark.net
ANSWER = script(HEAD, 0.02, ROLE, text(), 0.02, text(), FINISH + DONE + LAST)
LOAD = "load: [{hold: 200ms, streams: 3}]\ndrain: 3s\n"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def server_context(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


async def test_tcp_has_kernel_stamps() -> None:
    async with listening(ANSWER) as port:
        summary, records = await run_real(f'loadgen: 1\ntarget: {{url: "http://127.0.0.1:{port}/v1"}}\n{LOAD}')
    assert {r.outcome for r in records} == {Outcome.COMPLETED}
    assert summary["generator"]["stamps"] == "kernel"
    assert summary["metrics"]["connect"]["count"] == len(records)
    assert summary["metrics"]["tls"]["count"] == 0


async def test_tls_is_checked_and_stamped_by_the_kernel(authority: trustme.CA, tmp_path: Path) -> None:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    async with listening(ANSWER, server_context(authority, "localhost")) as port:
        target = f'loadgen: 1\ntarget: {{url: "https://localhost:{port}/v1"}}\n{LOAD}'
        trusted, records = await run_real(f"{target}transport: {{tls: {{ca: ca.pem}}}}\n", folder=tmp_path)
        assert {r.outcome for r in records} == {Outcome.COMPLETED}
        assert trusted["generator"]["stamps"] == "kernel"
        assert trusted["metrics"]["tls"]["count"] == len(records)
        unchecked, records = await run_real(f"{target}transport: {{tls: {{verify: false}}}}\n")
        assert {r.outcome for r in records} == {Outcome.COMPLETED}
        untrusted, records = await run_real(target)
    assert {r.outcome for r in records} == {Outcome.TLS_ERROR}
    assert untrusted["exit_code"] == 3
    assert "transport.tls.ca" in untrusted["verdict_reason"]
    assert unchecked["exit_code"] == 0


async def test_a_certificate_for_another_name_is_refused(authority: trustme.CA, tmp_path: Path) -> None:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    async with listening(ANSWER, server_context(authority, "other.example")) as port:
        head = f'loadgen: 1\ntarget: {{url: "https://localhost:{port}/v1"}}\n{LOAD}'
        summary, _ = await run_real(f"{head}transport: {{tls: {{ca: ca.pem}}}}\n", folder=tmp_path)
        assert summary["exit_code"] == 3
        assert "localhost" in summary["verdict_reason"]
        named, _ = await run_real(f"{head}transport: {{tls: {{ca: ca.pem, server_name: other.example}}}}\n", folder=tmp_path)
        assert named["exit_code"] == 0


async def test_plain_http_where_tls_was_expected() -> None:
    async def speak_plainly(stream: trio.abc.Stream) -> None:
        async with stream:
            await stream.receive_some()
            await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with listening(speak_plainly) as port:
        summary, records = await run_real(f'loadgen: 1\ntarget: {{url: "https://127.0.0.1:{port}/"}}\n{LOAD}')
    assert summary["exit_code"] == 3
    assert {r.outcome for r in records} == {Outcome.TLS_ERROR}


async def test_unix_socket(tmp_path: Path, nursery: trio.Nursery) -> None:
    path = tmp_path / "llm.sock"
    listener = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM)
    await listener.bind(str(path))
    listener.listen()
    nursery.start_soon(trio.serve_listeners, ANSWER, [trio.SocketListener(listener)])
    with trio.fail_after(10):
        summary, records = await run_real(
            f'loadgen: 1\ntarget: {{url: "http://localhost/v1"}}\ntransport: {{unix: {path}}}\n{LOAD}'
        )
    assert {r.outcome for r in records} == {Outcome.COMPLETED}
    assert summary["exit_code"] == 0
    nursery.cancel_scope.cancel()


async def test_dead_port_ends_the_run_with_one_sentence() -> None:
    with trio.fail_after(3):
        summary, _ = await run_real('loadgen: 1\ntarget: {url: "http://127.0.0.1:9/"}\nload: [{hold: 60s, streams: 20}]')
    assert summary["exit_code"] == 3
    assert summary["verdict_reason"] == ("the target cannot be reached: 127.0.0.1 port 9: Connection refused")


async def test_unresolvable_name() -> None:
    summary, _ = await run_real(f'loadgen: 1\ntarget: {{url: "http://nowhere.invalid/"}}\n{LOAD}')
    assert summary["exit_code"] == 3
    assert "cannot resolve 'nowhere.invalid'" in summary["verdict_reason"]


async def test_a_pooled_connection_that_the_server_closed_is_replaced_unseen() -> None:
    """The server answers once and closes without saying so: the next stream must not fail for it."""
    async with listening(ANSWER) as port:
        summary, records = await run_real(
            f'loadgen: 1\ntarget: {{url: "http://127.0.0.1:{port}/v1"}}\ntransport: {{connections: 2}}\n{LOAD}'
        )
    assert {r.outcome for r in records} == {Outcome.COMPLETED}
    assert len(records) > 4
    assert summary["exit_code"] == 0


async def test_a_large_body_to_a_server_that_answers_early() -> None:
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    async with listening(script(refusal)) as port:
        _, records = await run_real(
            f'loadgen: 1\ntarget: {{url: "http://127.0.0.1:{port}/v1"}}\n'
            "requests: [{prompt: {characters: 8000000}}]\nfailure_pause: 5s\nload: [{hold: 300ms, streams: 1}]"
        )
    assert records[0].outcome in {
        Outcome.HTTP_ERROR,
        Outcome.RESET,
    }  # whether the answer outruns the reset is the kernel's

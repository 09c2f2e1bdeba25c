"""TLS that fails beside the handshake proper: a CA file that is none, a client certificate that was asked for."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest
import trio
import trio.testing
import trustme
from trio.testing import memory_stream_pair

from loadgen.clock import SystemClock
from loadgen.errors import ConnectError
from loadgen.model import Outcome
from loadgen.transport.link import StreamLink
from loadgen.transport.tls import TlsLink, build_ssl_context
from loadgen.workload.plan import Tls
from tests.support.sockets import run_real
from tests.transport.test_receive import Collector


def test_a_damaged_ca_file_is_told_as_one(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    with pytest.raises(ConnectError, match=r"transport\.tls\.ca: .*ca\.pem holds no certificate that can be read") as caught:
        build_ssl_context(Tls(ca=str(path)))
    assert caught.value.tls


@contextmanager
def asking_for_a_certificate() -> Iterator[int]:
    """The port of a TLS 1.3 server that refuses clients without a certificate, as nginx with ssl_verify_client does."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED

    def serve(server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = server.accept()
                connection.settimeout(2)
                with connection, suppress(ssl.SSLError), context.wrap_socket(connection, server_side=True):
                    pass

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = Thread(target=serve, args=(server,))
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(5)


@pytest.mark.net
async def test_a_missing_client_certificate_is_a_tls_error() -> None:
    with asking_for_a_certificate() as port:
        _, records = await run_real(f"""
loadgen: 1
target: {{url: "https://127.0.0.1:{port}/v1"}}
transport: {{tls: {{verify: false}}}}
load: [{{hold: 100ms, streams: 1}}]
timeouts: {{first_token: 2s}}
""")
    assert "CERTIFICATE_REQUIRED" in records[0].detail
    assert records[0].outcome is Outcome.TLS_ERROR


@pytest.mark.net
async def test_what_comes_with_the_end_of_the_handshake_is_not_kept_waiting() -> None:
    """A server that speaks first, as HTTP/2 servers do: its bytes may be in one read with the last of the handshake."""
    client, server = memory_stream_pair()
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # there the server sends last
    authority.issue_cert("localhost").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    tls = trio.SSLStream(server, context, server_side=True)

    async def serve() -> None:
        await tls.do_handshake()
        await tls.send_all(b"hello")

    async with trio.open_nursery() as nursery:
        link = TlsLink(StreamLink(client, nursery, SystemClock()), trusting, "localhost")
        nursery.start_soon(serve)
        with trio.fail_after(5):
            await link.handshake(SystemClock())
            await trio.testing.wait_all_tasks_blocked()
            sink = Collector()
            link.attach(sink)
            await sink.until(5)
        assert sink.data == b"hello"
        nursery.cancel_scope.cancel()

"""TLS that fails beside the handshake proper: a CA file that is none, a client certificate that was asked for."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest
import trustme

from loadgen.errors import ConnectError
from loadgen.model import Outcome
from loadgen.transport.tls import build_ssl_context
from loadgen.workload.plan import Tls
from tests.support.sockets import run_real


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
@pytest.mark.xfail(reason="the alert comes behind the client's side of a TLS 1.3 handshake and is told as a reset", strict=True)
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

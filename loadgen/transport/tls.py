"""TLS without sockets: ciphertext in, plaintext out, so that the receive loop can stamp the ciphertext's read.

``TlsLink`` wraps any Link. The stamp of a plaintext is that of the read that completed its record.
"""

import ssl
from typing import Final

import trio

from loadgen.clock import Clock
from loadgen.errors import ConnectError
from loadgen.model import Outcome
from loadgen.transport.link import ByteSink, Link
from loadgen.workload.plan import Tls

_READ_BYTES: Final = 256 * 1024


def build_ssl_context(tls: Tls, alpn: tuple[str, ...] = ("http/1.1",)) -> ssl.SSLContext:
    """A client context: certificates and names are checked unless the workload says ``verify: false``.

    Raises ConnectError when the CA file holds no certificate.
    """
    try:
        context = ssl.create_default_context(cafile=tls.ca)
    except ssl.SSLError as error:
        message = f"transport.tls.ca: {tls.ca} holds no certificate that can be read: {error.reason or error}"
        raise ConnectError(message, tls=True) from None
    context.set_alpn_protocols(list(alpn))
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


class TlsLink:
    """A Link that speaks TLS over another. Call ``handshake`` first; ``attach`` after it."""

    def __init__(self, inner: Link, context: ssl.SSLContext, server_name: str) -> None:
        self._inner = inner
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name)
        self._sink: ByteSink | None = None
        self._arrived = trio.Event()
        self._last_read = 0, 0, False  # when bytes of the handshake came last; see feed
        self._lost = ""
        self._lost_ns = 0

    async def handshake(self, clock: Clock) -> None:
        """Run the handshake. Raises ConnectError(tls=True) when the peer or its certificate does not pass."""
        self._inner.attach(self)
        while True:
            try:
                self._ssl.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush(clock)
                await self._arrived.wait()
                self._arrived = trio.Event()
                if self._lost:
                    raise ConnectError(f"the peer left during the TLS handshake: {self._lost}", tls=True) from None
            except ssl.SSLError as error:
                raise ConnectError(_describe(error), tls=True) from None
            else:
                await self._flush(clock)
                return

    @property
    def alpn(self) -> str | None:
        return self._ssl.selected_alpn_protocol()

    def attach(self, sink: ByteSink) -> None:
        self._sink = sink
        self._pass_on(*self._last_read)  # what came in one read with the end of the handshake
        if self._lost:
            sink.reset(self._lost, self._lost_ns)

    async def send_all(self, data: bytes, clock: Clock) -> int:
        self._ssl.write(data)
        return await self._flush(clock)

    def close(self) -> None:
        self._inner.close()

    def close_with_reset(self) -> None:
        self._inner.close_with_reset()

    # ---- the inner link's sink

    def feed(self, data: bytes, at_ns: int, since_ns: int, *, kernel: bool) -> None:
        self._incoming.write(data)
        if self._sink is None:
            self._last_read = at_ns, since_ns, kernel
            self._arrived.set()
        else:
            self._pass_on(at_ns, since_ns, kernel)

    def _pass_on(self, at_ns: int, since_ns: int, kernel: bool) -> None:  # noqa: FBT001 - hot path
        """Decrypt what is there."""
        assert self._sink is not None
        # All records of one read go on together: which event is the newest in its read decides what its stamp is worth.
        pieces: list[bytes] = []
        ended = ""
        while True:
            try:
                plain = self._ssl.read(_READ_BYTES)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLZeroReturnError:
                ended = "eof"
                break
            except ssl.SSLError as error:
                ended = _describe(error)
                break
            if not plain:
                ended = "eof"
                break
            pieces.append(plain)
        if pieces:
            self._sink.feed(pieces[0] if len(pieces) == 1 else b"".join(pieces), at_ns, since_ns, kernel=kernel)
        if ended == "eof":
            self._sink.eof(at_ns)
        elif ended:
            self._sink.reset(ended, at_ns, outcome=Outcome.TLS_ERROR)

    def eof(self, at_ns: int) -> None:
        # A peer that leaves without close_notify is told from a cut by HTTP's own framing.
        self._lost, self._lost_ns = "closed", at_ns
        self._arrived.set()
        if self._sink is not None:
            self._sink.eof(at_ns)

    def reset(self, detail: str, at_ns: int, *, outcome: Outcome = Outcome.RESET) -> None:
        self._lost, self._lost_ns = detail, at_ns
        self._arrived.set()
        if self._sink is not None:
            self._sink.reset(detail, at_ns, outcome=outcome)

    async def _flush(self, clock: Clock) -> int:
        return await self._inner.send_all(self._outgoing.read(), clock) if self._outgoing.pending else clock.now_ns()


def _describe(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the certificate was refused: {error.verify_message} (give transport.tls.ca, or tls.verify: false if you mean it)"
        )
    return f"TLS failed: {error.reason or error}"

"""From a target to a connected Link: resolve once, connect, TLS; each step stamped.

Dialing goes through a ``Dialer``, so that tests put memory streams where sockets would be.
"""

import errno
import os
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import trio

from loadgen.clock import NS_PER_US, Clock
from loadgen.errors import ConnectError
from loadgen.transport.link import Link, Receiver, SocketLink, StreamLink
from loadgen.transport.receive import enable_kernel_stamps
from loadgen.transport.tls import TlsLink
from loadgen.workload.plan import Target

# A later address gets its turn after this long even if the connect timeout is longer: a dead IPv6 route must not eat it all.
ADDRESS_PATIENCE_S: Final = 1.0

UNIX_RETRY_S: Final = 0.002  # between two tries at a unix socket whose accept queue is full

# struct tcp_info of linux/tcp.h: offsets of two __u32 fields, and so much of it as holds both.
TCPI_RTT: Final = 68
TCPI_TOTAL_RETRANS: Final = 100
TCP_INFO_BYTES: Final = 104
_U32: Final = struct.Struct("=I")

# The generator's own limits: no descriptors, no local ports, no buffers.
LOCAL_LIMITS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS, errno.ENOMEM})


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialed:
    """A fresh connection and when its steps were done (run clock); ``tls_ns`` is None without TLS.

    ``lag_ns``: the part of the connect that was this program waking up late, as far as the kernel's own round-trip time
    of the handshake tells; it is in ``connect_ns`` and so in TTFT. ``alpn``: what the TLS handshake agreed on.
    """

    link: Link
    start_ns: int
    connect_ns: int
    tls_ns: int | None
    lag_ns: int = 0
    alpn: str | None = None


class Dialer(Protocol):
    async def dial(self) -> Dialed:
        """A new connection. Raises ConnectError; the caller bounds it in time. Cancelled, it leaves nothing open."""
        ...


@dataclass(frozen=True, slots=True)
class Address:
    family: int
    sockaddr: Any
    shown: str


async def resolve(target: Target) -> tuple[Address, ...]:
    """All addresses of the target in the system's order. Raises ConnectError when there is none.

    Done once before the run: name service is not what is measured, and a resolver hiccup must not look like TTFT.
    """
    if target.unix_path is not None:
        return (Address(socket.AF_UNIX, target.unix_path, target.unix_path),)
    try:
        found = await trio.socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ConnectError(f"cannot resolve {target.host!r}: {getattr(error, 'strerror', None) or error}") from None
    return tuple(Address(family, addr, _show(addr)) for family, _, _, _, addr in found)


def _show(sockaddr: Any) -> str:
    return f"{sockaddr[0]} port {sockaddr[1]}"


class SocketDialer:
    """Connects over TCP or a unix socket; kernel stamps on, Nagle off."""

    def __init__(
        self,
        addresses: tuple[Address, ...],
        receiver: Receiver,
        clock: Clock,
        *,
        context: ssl.SSLContext | None = None,
        server_name: str = "",
    ) -> None:
        self._addresses = addresses
        self._receiver = receiver
        self._clock = clock
        self._context = context
        self._server_name = server_name
        self._works = False
        self._good = 0  # the address that worked last is tried first

    async def dial(self) -> Dialed:
        start_ns = self._clock.now_ns()
        sock = await self._connect_any()
        connect_ns = self._clock.now_ns()
        link = SocketLink(sock, self._receiver)
        dialed = Dialed(
            link=link, start_ns=start_ns, connect_ns=connect_ns, tls_ns=None, lag_ns=wake_lag_ns(sock, connect_ns - start_ns)
        )
        return await _add_tls(dialed, self._context, self._server_name, self._clock)

    async def _connect_any(self) -> socket.socket:
        failures = []
        order = range(self._good, self._good + len(self._addresses))
        for n, index in enumerate(i % len(self._addresses) for i in order):
            address = self._addresses[index]
            patience = ADDRESS_PATIENCE_S if n + 1 < len(self._addresses) else float("inf")
            with trio.move_on_after(patience):
                try:
                    sock = await _connect(address)
                except OSError as error:
                    # A machine without IPv6 says EADDRNOTAVAIL to ::1: where no address has worked yet, try the others first.
                    untried = not self._works and n + 1 < len(self._addresses)
                    if error.errno in LOCAL_LIMITS and not (error.errno == errno.EADDRNOTAVAIL and untried):
                        raise ConnectError(f"{os.strerror(error.errno)} (on this machine)", local=True) from None
                    failures.append(f"{address.shown}: {os.strerror(error.errno) if error.errno else error}")
                    continue
                self._good, self._works = index, True
                return sock
            failures.append(f"{address.shown}: no answer within {ADDRESS_PATIENCE_S:g} s")
        raise ConnectError("; ".join(failures))


async def _connect(address: Address) -> socket.socket:
    """A connected non-blocking socket. Raises OSError; closes on cancellation."""
    sock = socket.socket(address.family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        enable_kernel_stamps(sock)
        if address.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = sock.connect_ex(address.sockaddr)
        while code == errno.EAGAIN and address.family == socket.AF_UNIX:
            # The peer's accept queue is full (unix(7)); TCP would send its SYN again, here that is ours to do.
            await trio.sleep(UNIX_RETRY_S)
            code = sock.connect_ex(address.sockaddr)
        if code == errno.EINPROGRESS:
            # Nearby peers have answered by now: asking again saves the turn through the event loop, where many
            # connections made at once would wait for each other.
            code = sock.connect_ex(address.sockaddr)
        if code in {errno.EALREADY, errno.EINPROGRESS}:
            await trio.lowlevel.wait_writable(sock)
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code not in {0, errno.EISCONN}:
            raise OSError(code, os.strerror(code))
    except BaseException:
        trio.lowlevel.notify_closing(sock)
        sock.close()
        raise
    return sock


async def _add_tls(dialed: Dialed, context: ssl.SSLContext | None, server_name: str, clock: Clock) -> Dialed:
    """Put TLS over a connected link where asked; closes the link on failure and cancellation."""
    if context is None:
        return dialed
    link = dialed.link
    tls = TlsLink(link, context, server_name)
    try:
        await tls.handshake(clock)
    except OSError as error:
        link.close()
        raise ConnectError(f"the connection broke during the TLS handshake: {error}", tls=True) from None
    except BaseException:
        link.close()
        raise
    return replace(dialed, link=tls, tls_ns=clock.now_ns(), alpn=tls.alpn)


def wake_lag_ns(sock: socket.socket, elapsed_ns: int) -> int:
    """How much of a connect that took ``elapsed_ns`` was this program's delay: what exceeds the handshake's round trip.

    From TCP_INFO (Linux). 0 where the kernel does not say, and where a SYN was lost: that delay is the network's.
    """
    if sock.family == socket.AF_UNIX or not hasattr(socket, "TCP_INFO"):
        return 0
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
    if len(info) < TCP_INFO_BYTES:
        return 0
    (rtt_us,), (retransmitted,) = _U32.unpack_from(info, TCPI_RTT), _U32.unpack_from(info, TCPI_TOTAL_RETRANS)
    return 0 if retransmitted else max(elapsed_ns - rtt_us * NS_PER_US, 0)


class StreamDialer:
    """Dials through a factory of trio streams: the network of tests in virtual time."""

    def __init__(self, factory: Callable[[], Awaitable[trio.abc.Stream]], nursery: trio.Nursery, clock: Clock) -> None:
        self._factory = factory
        self._nursery = nursery
        self._clock = clock

    async def dial(self) -> Dialed:
        start_ns = self._clock.now_ns()
        try:
            stream = await self._factory()
        except OSError as error:
            raise ConnectError(str(error)) from None
        link = StreamLink(stream, self._nursery, self._clock)
        return Dialed(link=link, start_ns=start_ns, connect_ns=self._clock.now_ns(), tls_ns=None)

"""Connecting where the machine or the peer is short of something for a moment."""

import errno
import socket
from pathlib import Path
from typing import Any, cast

import pytest
import trio

from loadgen.clock import SystemClock
from loadgen.errors import ConnectError
from loadgen.transport import dial
from loadgen.transport.dial import Address, SocketDialer
from loadgen.transport.link import Receiver

V6 = Address(socket.AF_INET6, ("::1", 1), "::1 port 1")
V4 = Address(socket.AF_INET, ("127.0.0.1", 1), "127.0.0.1 port 1")


def dialer(*addresses: Address) -> SocketDialer:
    return SocketDialer(addresses, cast(Receiver, None), SystemClock())


async def test_a_machine_without_ipv6_uses_the_other_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """In containers localhost is often ::1 first while IPv6 is switched off: EADDRNOTAVAIL there is no lack of ports."""

    async def connect(address: Address) -> socket.socket:
        if address is V6:
            raise OSError(errno.EADDRNOTAVAIL, "")
        return socket.socket()

    monkeypatch.setattr(dial, "_connect", connect)
    tested = dialer(V6, V4)
    (await tested._connect_any()).close()
    assert tested._good == 1


async def test_a_machine_without_ports_says_so_after_the_last_address(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect(_: Address) -> Any:
        raise OSError(errno.EADDRNOTAVAIL, "")

    monkeypatch.setattr(dial, "_connect", connect)
    with pytest.raises(ConnectError, match=r"Cannot assign requested address \(on this machine\)") as caught:
        await dialer(V6, V4)._connect_any()
    assert caught.value.local


@pytest.mark.net
async def test_a_unix_socket_whose_backlog_is_full_is_waited_for(tmp_path: Path) -> None:
    """TCP sends its SYN again; a unix socket says EAGAIN at once."""
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(1)
        connected: list[socket.socket] = []

        async def connect() -> None:
            connected.append(await dial._connect(Address(socket.AF_UNIX, path, path)))

        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                for _ in range(8):
                    nursery.start_soon(connect)
                for _ in range(8):
                    await trio.sleep(0.005)
                    server.accept()[0].close()
        assert len(connected) == 8
        for sock in connected:
            sock.close()

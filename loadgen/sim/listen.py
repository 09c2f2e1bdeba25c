"""Listening sockets of the simulated server."""

import trio

BACKLOG = 8192  # a thousand clients may connect within one scheduling quantum; the kernel caps it at somaxconn


async def open_listeners(host: str, port: int) -> tuple[list[trio.SocketListener], str]:
    """Listeners on ``host`` and the URL they are reached at. Port 0 takes a free one."""
    listeners = await trio.open_tcp_listeners(port, host=host, backlog=BACKLOG)
    name, bound = listeners[0].socket.getsockname()[:2]
    return listeners, f"http://{f'[{name}]' if ':' in name else name}:{bound}"

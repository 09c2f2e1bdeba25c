"""Real sockets on loopback: a run against a listener, with every part that production uses."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio

from loadgen import api
from loadgen.clock import SystemClock
from loadgen.engine.run import execute
from loadgen.model import StreamRecord
from loadgen.record.recorder import Recorder
from loadgen.report.progress import Silent
from loadgen.workload.loader import loads

Handler = Callable[[trio.abc.Stream], Awaitable[None]]
LIMIT_S = 10  # no test on sockets takes longer


@asynccontextmanager
async def listening(handler: Handler, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """The port of a TCP server on loopback that hands each connection to ``handler``; TLS with a context."""

    async def serve(stream: trio.SocketStream) -> None:
        if context is None:
            await handler(stream)
            return
        tls = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
        try:
            await tls.do_handshake()
        except trio.BrokenResourceError:
            await stream.aclose()  # the client did not trust us
            return
        await handler(tls)

    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            listeners = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
            yield listeners[0].socket.getsockname()[1]
            nursery.cancel_scope.cancel()


async def run_real(workload: str, **load_options: Any) -> tuple[dict[str, Any], list[StreamRecord]]:
    """Run a workload on the current trio loop; its summary and records."""
    plan = loads(workload, **load_options).to_plan()
    records: list[StreamRecord] = []
    recorder = Recorder(plan.phases, SystemClock.now_ns())
    data = await execute(plan, recorder, Silent(), handle_signals=False, on_record=records.append)
    return api.summarise(data, recorder), records

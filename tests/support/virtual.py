"""Runs in virtual time over memory streams: exact stamps, no sockets, no waiting."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import trio
from trio.testing import MockClock, memory_stream_pair

from loadgen import api
from loadgen.clock import TrioClock
from loadgen.engine.run import RunData, execute
from loadgen.model import StreamRecord
from loadgen.record.recorder import Recorder
from loadgen.report.progress import Silent
from loadgen.sim.server import SimServer
from loadgen.transport.dial import StreamDialer
from loadgen.workload.loader import loads
from loadgen.workload.sim_script import SimScript

MS = 1_000_000
LIMIT_S = 600.0  # virtual: a run that does not end would spin for ever
Handler = Callable[[trio.abc.Stream], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualRun:
    records: list[StreamRecord]
    recorder: Recorder
    data: RunData
    summary: dict[str, Any]
    server: SimServer | None


def run_virtual(
    load: str,
    *,
    sim: dict[str, Any] | None = None,
    handler: Handler | None = None,
    refuse: Callable[[], None] = lambda: None,
    target: str = "url: http://sim/v1/chat/completions",
) -> VirtualRun:
    """Run a workload against a simulated server (``sim``: its script) or a hand-written ``handler`` of each connection.

    ``load`` is the workload without its ``target``. ``refuse`` is called before each connection and may raise OSError.
    """
    plan = loads(f"loadgen: 1\ntarget: {{{target}}}\n{load}").to_plan()
    records: list[StreamRecord] = []

    async def main() -> VirtualRun:
        clock = TrioClock()
        server = SimServer(SimScript.model_validate(sim), clock) if sim is not None else None
        serve = handler if server is None else server.serve_stream
        assert serve is not None
        async with trio.open_nursery() as nursery:
            if server is not None:
                await nursery.start(server.run)

            async def connect() -> trio.abc.Stream:
                refuse()
                ours, theirs = memory_stream_pair()
                nursery.start_soon(serve, theirs)
                return ours

            recorder = Recorder(plan.phases, clock.now_ns())
            data = await execute(
                plan,
                recorder,
                Silent(),
                clock=clock,
                dialer_factory=lambda background, clock: StreamDialer(connect, background, clock),
                handle_signals=False,
                on_record=records.append,
            )
            nursery.cancel_scope.cancel()
        return VirtualRun(records=records, recorder=recorder, data=data, summary=api.summarise(data, recorder), server=server)

    async def limited() -> VirtualRun:
        with trio.fail_after(LIMIT_S):
            return await main()

    return trio.run(limited, clock=MockClock(autojump_threshold=0))


def script(*steps: bytes | float, close: bool = True) -> Handler:
    """A connection handler: reads a request head, then sends the bytes and sleeps the seconds of its steps in order."""

    async def handle(stream: trio.abc.Stream) -> None:
        async with stream:
            got = b""
            while b"\r\n\r\n" not in got:
                data = await stream.receive_some()
                if not data:
                    return
                got += data
            try:
                for step in steps:
                    if isinstance(step, bytes):
                        await stream.send_all(step)
                    else:
                        await trio.sleep(step)
                if not close:
                    await trio.sleep_forever()
            except trio.BrokenResourceError:
                return

    return handle


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(data: bytes, eol: bytes = b"\n") -> bytes:
    """One SSE event as one HTTP chunk."""
    return chunk(b"data: " + data + eol + eol)


def text(content: bytes = b"x", finish: bytes = b"null") -> bytes:
    return event(b'{"choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":%s}]}' % (content, finish))


ROLE = event(b'{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}')
FINISH = event(b'{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}')
DONE = event(b"[DONE]")

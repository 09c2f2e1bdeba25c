"""A small HTTP client for the simulated server, on h11: any trio stream, arrival times in the run's (virtual) clock."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import h11
import msgspec
import trio
from trio.testing import MockClock, memory_stream_pair

from loadgen.clock import TrioClock
from loadgen.sim.server import SimServer
from loadgen.workload.sim_script import SimScript

MS = 1_000_000


@dataclass(slots=True)
class Answer:
    """A response, as far as it came. ``complete``: properly framed to its end. ``events``: (arrival ns, event text)."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    events: list[tuple[int, str]] = field(default_factory=list)
    complete: bool = False

    @property
    def chunks(self) -> list[tuple[int, dict[str, Any]]]:
        """The events that are JSON, with their arrivals."""
        return [(at, msgspec.json.decode(text[6:])) for at, text in self.events if text.startswith("data: {")]

    @property
    def tokens(self) -> list[tuple[int, str]]:
        """(arrival ns, text) of every event with output."""
        found = []
        for at, chunk in self.chunks:
            for choice in chunk.get("choices", ()):
                delta = choice["delta"]
                if text := delta.get("content") or delta.get("reasoning_content"):
                    found.append((at, text))
        return found

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class SimClient:
    """One connection, one request after another."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._h11 = h11.Connection(h11.CLIENT)

    async def ask(self, method: str = "GET", target: str = "/health", body: bytes = b"", **headers: str) -> Answer:
        """Send a request and read its answer to the end."""
        await self.send(method, target, body, **headers)
        return await self.read()

    async def chat(self, **body: Any) -> Answer:
        """A chat request, streamed unless said otherwise."""
        return await self.ask("POST", "/v1/chat/completions", chat_body(**body))

    async def send(self, method: str, target: str, body: bytes = b"", **headers: str) -> None:
        if self._h11.our_state is not h11.IDLE:
            self._h11.start_next_cycle()
        fields = [("Host", "sim"), ("Content-Length", str(len(body))), *headers.items()]
        data = self._h11.send(h11.Request(method=method, target=target, headers=fields)) or b""
        data += self._h11.send(h11.Data(data=body)) or b""
        data += self._h11.send(h11.EndOfMessage()) or b""
        await self.stream.send_all(data)

    async def read(self, *, stop: Callable[[Answer], bool] = lambda _: False) -> Answer:
        """The answer to what was sent last; ``stop``: leave off as soon as this holds."""
        answer, text = Answer(), ""
        while not stop(answer):
            try:
                event = self._h11.next_event()
            except h11.RemoteProtocolError:
                return answer  # cut
            match event:
                case h11.NEED_DATA:
                    try:
                        self._h11.receive_data(bytes(await self.stream.receive_some()))
                    except trio.BrokenResourceError:
                        return answer
                case h11.Response():
                    answer.status = event.status_code
                    answer.headers = {n.decode(): v.decode() for n, v in event.headers}
                case h11.Data():
                    answer.body += event.data
                    text += bytes(event.data).decode()
                    *whole, text = text.split("\n\n")
                    answer.events += [(TrioClock().now_ns(), one) for one in whole]
                case h11.EndOfMessage():
                    answer.complete = True
                    return answer
                case _:
                    return answer
        return answer


@dataclass(frozen=True, slots=True)
class MemorySim:
    """A server in this process, reached over memory streams."""

    server: SimServer
    nursery: trio.Nursery

    def connect(self, pair: Callable[[], tuple[trio.abc.Stream, trio.abc.Stream]] = memory_stream_pair) -> SimClient:
        ours, theirs = pair()
        self.nursery.start_soon(self.server.serve_stream, theirs)
        return SimClient(ours)


@asynccontextmanager
async def open_memory_sim(**script: Any) -> AsyncIterator[MemorySim]:
    """Needs a MockClock that jumps: pytest-trio's ``autojump_clock``, or ``run_virtually``."""
    async with trio.open_nursery() as nursery:
        server = SimServer(SimScript.model_validate(script), TrioClock())
        await nursery.start(server.run)
        yield MemorySim(server, nursery)
        nursery.cancel_scope.cancel()


def run_virtually(main: Callable[[], Any]) -> Any:
    """trio.run in virtual time; for tests of hypothesis, which cannot use function-scoped fixtures."""
    return trio.run(main, clock=MockClock(autojump_threshold=0))


def chat_body(prompt: str = "hi", stream: bool = True, **more: Any) -> bytes:
    return msgspec.json.encode({"messages": [{"role": "user", "content": prompt}], "stream": stream, **more})

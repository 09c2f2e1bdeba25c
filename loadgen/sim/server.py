"""The simulated inference server: HTTP requests in, scheduled tokens out. A test target with known truth.

One task per connection reads requests; the delivery's one task writes all tokens. What was sent and when is in ``log`` and
at GET /sim/streams.

    POST /v1/chat/completions   stream: true -> SSE, else JSON (at the same time as the last event would come)
    POST other APIs' paths      streams in their own form, see apis.py
    GET  /v1/models  /health  /metrics
    GET  /sim/streams?last=N    the N (1,000) streams that ended last, and all open ones
    POST /sim/reset             forget ended streams and counts
    any  /sse?n=N               plain events

A client that closes or half-closes is gone, as for uvicorn: its stream ends at once and its slot and blocks are free.
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final

import msgspec
import trio

from loadgen.clock import Clock, SystemClock
from loadgen.sim import chat
from loadgen.sim.apis import Api, find_api
from loadgen.sim.delivery import Delivery, LoggedStream
from loadgen.sim.http import BadRequestError, Connection, Framing, Request
from loadgen.sim.http2 import PREFACE, Http2Server, Http2Stream, StreamOutlet
from loadgen.sim.metrics import format_metrics
from loadgen.sim.outlet import Outlet
from loadgen.sim.reply import FAULT_MESSAGE, PlainReply, Reply, build_error
from loadgen.sim.scheduler import Job, Scheduler, State
from loadgen.workload.sim_script import FaultKind, SimScript

Client = Connection | Http2Stream  # who asked, and may leave
AnyOutlet = Outlet | StreamOutlet

RETRY_AFTER_S: Final = 1
PLAIN_EVENTS: Final = 16
REPORTED_STREAMS: Final = 1_000
MAX_QUERY_NUMBER: Final = 1_000_000


class SimServer:
    """``run`` must be running; ``serve_stream`` speaks on one connection of any kind.

    Real sockets: ``await nursery.start(server.run, listeners)``. Tests: ``await nursery.start(server.run)`` and
    ``nursery.start_soon(server.serve_stream, one_half)`` with a TrioClock: under a MockClock all stamps are exact.
    """

    def __init__(self, script: SimScript, clock: Clock | None = None) -> None:
        self.script = script
        self._delivery = Delivery(script, clock or SystemClock())

    @property
    def log(self) -> deque[LoggedStream]:
        """Ended streams, oldest first; the last 20,000."""
        return self._delivery.log

    @property
    def ended(self) -> Counter[State]:
        """How many streams ended, by state."""
        return self._delivery.ended

    @property
    def max_open(self) -> int:
        """The most streams open at once, waiting ones included."""
        return self._delivery.max_open

    @property
    def scheduler(self) -> Scheduler:
        return self._delivery.scheduler

    async def run(
        self,
        listeners: Sequence[trio.SocketListener] = (),
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Make tokens, and accept connections on the listeners, until cancelled.

        Cancellation closes the listeners and their connections and aborts their streams; nothing is sent any more.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._delivery.run)
            if listeners:
                await nursery.start(trio.serve_listeners, self.serve_stream, listeners)
            task_status.started()

    async def serve_stream(self, stream: trio.abc.Stream) -> None:
        """Speak on one connection until either side closes it: HTTP/2 if its preface comes, else HTTP/1.

        Cancellation closes it and aborts its streams.
        """
        outlet = Outlet(stream)
        async with stream, trio.open_nursery() as nursery:
            nursery.start_soon(outlet.run)
            try:
                first = await _read_first(stream)
                if first.startswith(PREFACE):
                    limit = self.script.max_concurrent_streams
                    await Http2Server(stream, outlet, self._answer_stream, max_streams=limit).run(first)
                else:
                    await self._speak_http1(stream, outlet, first)
            except trio.BrokenResourceError:
                pass  # the client left
            finally:
                outlet.stop()
            nursery.cancel_scope.cancel()

    async def _speak_http1(self, stream: trio.abc.Stream, outlet: Outlet, first: bytes) -> None:
        connection = Connection(stream, outlet, keep_alive=self.script.keep_alive, ahead=first)
        try:
            while (request := await connection.next_request()) is not None:
                if not await self._answer(connection, outlet, request):
                    break
        except BadRequestError as error:
            outlet.write(_error(Framing(chunked=False, close=True), error.status, str(error)))
        await outlet.drain()

    def streams(self, last: int = REPORTED_STREAMS) -> list[dict[str, Any]]:
        """What GET /sim/streams says: the ``last`` ended streams, oldest first, then the open ones."""
        delivery = self._delivery
        ended = islice(delivery.log, max(len(delivery.log) - last, 0), None)
        return [_report(stream) for stream in (*ended, *delivery.describe_open())]

    async def _answer_stream(self, stream: Http2Stream, outlet: StreamOutlet, request: Request) -> bool:
        """One HTTP/2 request; False: its answer stays incomplete."""
        try:
            return await self._answer(stream, outlet, request)
        except BadRequestError as error:
            outlet.write(_error(request.framing, error.status, str(error)))
            return True

    async def _answer(self, connection: Client, outlet: AnyOutlet, request: Request) -> bool:
        """Answer one request; False: close the connection afterwards."""
        framing = request.framing
        if request.method == "POST" and (api := find_api(request.path)) is not None:
            return await self._generate(api, connection, outlet, request)
        match request.method, request.path:
            case _, "/sse":
                events = _number(request, "n", PLAIN_EVENTS, range(1, MAX_QUERY_NUMBER + 1))
                return await self._plain(connection, outlet, framing, events)
            case "GET", "/v1/models":
                answer = framing.message(200, chat.build_models())
            case "GET", "/health":
                answer = framing.message(200, b"{}")
            case "GET", "/metrics":
                text = format_metrics(self._delivery, self.script).encode()
                answer = framing.message(200, text, "text/plain; version=0.0.4; charset=utf-8")
            case "GET", "/sim/streams":
                last = _number(request, "last", REPORTED_STREAMS, range(MAX_QUERY_NUMBER))
                answer = framing.message(200, msgspec.json.encode(self.streams(last)))
            case "POST", "/sim/reset":
                self._delivery.reset()
                answer = framing.message(200, b"{}")
            case method, path:
                answer = _error(framing, 404, f"nothing is served at {method} {path}")
        outlet.write(answer)
        return not framing.close

    async def _generate(self, api: Api, connection: Client, outlet: AnyOutlet, request: Request) -> bool:
        framing = request.framing
        try:
            asked = api.parse(request.body)
        except ValueError as error:
            outlet.write(_error(framing, 400, str(error)))
            return not framing.close

        def build_reply(job: Job) -> Reply:
            return api.build_reply(job, asked, framing, self.script)

        return await self._stream(connection, outlet, framing, asked.prompt_tokens, asked.max_tokens, build_reply)

    async def _plain(self, connection: Client, outlet: AnyOutlet, framing: Framing, events: int) -> bool:
        def build_reply(_: Job) -> Reply:
            return PlainReply(framing, stamps=self.script.stamps)

        return await self._stream(connection, outlet, framing, 1, events, build_reply)

    async def _stream(
        self,
        connection: Client,
        outlet: AnyOutlet,
        framing: Framing,
        prompt_tokens: int,
        max_tokens: int,
        build_reply: Callable[[Job], Reply],
    ) -> bool:
        """One stream to its end; or why there is none: too long, not let in, or what a fault says instead of it."""
        if not self.scheduler.fits(prompt_tokens, max_tokens):
            message = f"{prompt_tokens} prompt and {max_tokens} new tokens are more than the KV cache holds"
            outlet.write(_error(framing, 400, message))
            return not framing.close
        job = self._delivery.submit(prompt_tokens, max_tokens)
        if job is None:
            body = build_error("too many streams", "rate_limit_exceeded", 429)
            outlet.write(framing.message(429, body, "application/json", f"Retry-After: {RETRY_AFTER_S}"))
            return not framing.close
        fault = job.fault
        if fault is None or fault.kind not in {FaultKind.STATUS, FaultKind.HTML}:
            return await self._delivery.serve(job, outlet, build_reply(job), connection.wait_for_disconnect)
        self._delivery.end(job, State.FAULT)
        if fault.kind is FaultKind.HTML:
            outlet.write(framing.message(200, b"<!doctype html><title>Welcome</title>\n", "text/html"))
        else:
            outlet.write(_error(framing, fault.status, FAULT_MESSAGE, "server_error"))
        return not framing.close


async def _read_first(stream: trio.abc.Stream) -> bytes:
    """Enough of a connection to tell which HTTP it speaks; b"" when it was closed unused."""
    first = b""
    while len(first) < len(PREFACE) and PREFACE.startswith(first):
        piece = await stream.receive_some()
        if not piece:
            return first
        first += piece
    return first


def _error(framing: Framing, status: int, message: str, kind: str = "invalid_request_error") -> bytes:
    return framing.message(status, build_error(message, kind, status))


def _number(request: Request, name: str, default: int, allowed: range) -> int:
    """A number of the query; BadRequestError when it is none, or out of range."""
    text = request.query.get(name, [str(default)])[-1]
    if text.isascii() and text.isdecimal() and len(text) <= 20 and int(text) in allowed:
        return int(text)
    raise BadRequestError(400, f"{name} must be a number from {allowed[0]} to {allowed[-1]}, got {text[:80]!r}")


def _report(stream: LoggedStream) -> dict[str, Any]:
    return {
        "id": chat.build_id(stream.number),
        "outcome": stream.state if stream.ended_ns is not None else "open",
        "state": stream.state,
        "arrived_ns": stream.arrived_ns,
        "ended_ns": stream.ended_ns,
        "prompt_tokens": stream.prompt_tokens,
        "max_tokens": stream.max_tokens,
        "tokens": stream.tokens,
        "kv_blocks": stream.kv_blocks,
        "sent_ns": list(stream.sent_ns),
    }

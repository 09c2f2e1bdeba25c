"""The simulated inference server over HTTP/1.1: connections in, scheduled tokens out.

One task per connection reads requests (h11); one scheduler task sends every token of every stream when it is due, straight
into the socket, and stamps it just before. What was sent and when is kept in ``log``: known truth for tests.

Endpoints: POST /v1/chat/completions, GET /v1/models, /health, /metrics, /sim/streams, POST /sim/reset, and any method on
/sse (plain events, `?n=`). A client that closes or half-closes is gone: its stream ends at once and its blocks are free.
"""

import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import h11
import msgspec
import trio

from loadgen.clock import NS_PER_S, Clock, SystemClock
from loadgen.sim import chat
from loadgen.sim.metrics import format_metrics
from loadgen.sim.outlet import Outlet
from loadgen.sim.scheduler import Job, Scheduler, State
from loadgen.workload.sim_script import FaultKind, SimScript

READ_BYTES: Final = 64 * 1024
LOG_STREAMS: Final = 100_000  # finished streams kept in the log
RETRY_AFTER_S: Final = 1
PLAIN_EVENTS: Final = 16
_STREAM_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\n"
    b"Server: loadgen-sim\r\nTransfer-Encoding: chunked\r\n\r\n"
)


@dataclass(eq=False, slots=True)
class Stream:
    """A job with the connection it is sent on. ``over`` is cancelled when nothing more will be written to it."""

    job: Job
    outlet: Outlet
    writer: chat.ChunkWriter
    include_usage: bool
    plain: bool
    last_write_ns: int
    over: trio.CancelScope = field(default_factory=trio.CancelScope)
    role_sent: bool = False
    hang_up: bool = False  # close the connection, the message stays incomplete


class SimServer:
    """``serve_stream`` for one connection of any kind, ``run`` for the scheduler and listeners."""

    def __init__(self, script: SimScript, clock: Clock | None = None) -> None:
        self.script = script
        self.scheduler = Scheduler(script)
        self.log: deque[Job] = deque(maxlen=LOG_STREAMS)
        self.finished: Counter[str] = Counter()
        self.max_open = 0
        self._clock = clock or SystemClock()
        self._streams: dict[Job, Stream] = {}
        self._changed = trio.Event()

    async def run(
        self,
        listeners: "list[trio.SocketListener] | tuple[()]" = (),
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Schedule tokens, and accept connections on the listeners, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._schedule)
            if self.script.heartbeat is not None:
                nursery.start_soon(self._beat, self.script.heartbeat)
            if listeners:
                await nursery.start(trio.serve_listeners, self.serve_stream, listeners)
            task_status.started()

    async def serve_stream(self, stream: trio.abc.Stream) -> None:
        """Speak HTTP/1.1 on one connection until either side closes it."""
        async with stream, trio.open_nursery() as nursery:
            outlet = Outlet(stream)
            nursery.start_soon(outlet.run)
            connection = _Connection(stream, outlet)
            try:
                while (request := await connection.next_request()) is not None:
                    if not await self._answer(connection, *request):
                        break
                await outlet.drain()
            except (trio.BrokenResourceError, trio.ClosedResourceError, h11.RemoteProtocolError):
                pass  # the client left, or sent what is no HTTP
            nursery.cancel_scope.cancel()

    def streams_report(self) -> list[dict[str, Any]]:
        """Finished and open streams: arrival and the moment each event was sent, monotonic ns."""
        return [
            {"id": job.number, "state": job.state, "arrived_ns": job.arrived_ns, "prompt_tokens": job.prompt_tokens,
             "tokens": job.produced, "sent_ns": list(job.sent_ns)}
            for job in (*self.log, *self._streams)
        ]  # fmt: skip

    # ---- requests

    async def _answer(self, connection: "_Connection", request: h11.Request, body: bytes) -> bool:
        """Answer one request; False: close the connection afterwards."""
        target = urlsplit(request.target.decode("ascii"))
        match request.method, target.path:
            case b"POST", "/v1/chat/completions":
                return await self._chat(connection, body)
            case _, "/sse":
                events = int(parse_qs(target.query).get("n", [str(PLAIN_EVENTS)])[0])
                return await self._stream(connection, 1, events, chat.DEFAULT_MODEL, plain=True, include_usage=False)
            case b"GET", "/v1/models":
                models = {"object": "list", "data": [{"id": chat.DEFAULT_MODEL, "object": "model"}]}
                connection.respond(200, msgspec.json.encode(models))
            case b"GET", "/health":
                connection.respond(200, b"{}")
            case b"GET", "/metrics":
                connection.respond(200, format_metrics(self).encode(), "text/plain; version=0.0.4")
            case b"GET", "/sim/streams":
                connection.respond(200, msgspec.json.encode(self.streams_report()))
            case b"POST", "/sim/reset":
                self.log.clear()
                self.max_open = 0
                connection.respond(200, b"{}")
            case _:
                connection.respond(404, chat.error_body(f"no such path: {target.path}", "invalid_request_error", 404))
        return True

    async def _chat(self, connection: "_Connection", body: bytes) -> bool:
        try:
            asked = chat.parse_chat(body)
        except (ValueError, TypeError) as error:
            connection.respond(400, chat.error_body(str(error), "invalid_request_error", 400))
            return True
        if not self.scheduler.fits(asked.prompt_tokens + asked.max_tokens):
            connection.respond(400, chat.error_body("longer than the KV cache", "invalid_request_error", 400))
            return True
        if not asked.stream:
            text = chat.completion(0, asked.model, self._now_s(), asked.prompt_tokens, asked.max_tokens)
            connection.respond(200, text)
            return True
        return await self._stream(
            connection,
            asked.prompt_tokens,
            asked.max_tokens,
            asked.model,
            plain=False,
            include_usage=asked.include_usage,
        )

    async def _stream(
        self, connection: "_Connection", prompt: int, tokens: int, model: str, *, plain: bool, include_usage: bool
    ) -> bool:
        """Run one stream to its end. False when the connection cannot be used again."""
        if not self.scheduler.accepts():
            body = chat.error_body("too many streams", "rate_limit_exceeded", 429)
            connection.respond(429, body, headers=f"Retry-After: {RETRY_AFTER_S}\r\n")
            return True
        now_ns = self._clock.now_ns()
        job = self.scheduler.submit(prompt, tokens, now_ns)
        self.max_open = max(self.max_open, self.scheduler.open)
        fault = job.fault
        if fault is not None and fault.kind in {FaultKind.STATUS, FaultKind.HTML}:
            self._close_job(job, State.FAULT)
            if fault.kind is FaultKind.HTML:
                connection.respond(200, b"<html><body>Welcome!</body></html>", "text/html")
            else:
                connection.respond(fault.status, chat.error_body("scripted fault", "server_error", fault.status))
            return True
        writer = chat.ChunkWriter(job.number, model, self._now_s())
        stream = Stream(job, connection.outlet, writer, include_usage, plain, now_ns)
        self._streams[job] = stream
        stream.outlet.write(_STREAM_HEAD)
        self._changed.set()
        role_first = self.script.role_first
        with stream.over:
            if role_first is not None and not plain:
                await trio.sleep_until(self._clock.trio_deadline(now_ns + role_first))
                self._send_role(stream)
            await connection.wait_for_disconnect()
            self._close_job(job, State.ABORTED)
            return False
        return not stream.hang_up

    # ---- tokens

    async def _schedule(self) -> None:
        """Send what is due, sleep until the next is; everything due by a wake-up goes out in it."""
        scheduler, clock = self.scheduler, self._clock
        while True:
            self._changed = trio.Event()
            for job in scheduler.due(clock.now_ns()):
                stream = self._streams.get(job)
                if stream is not None and job in scheduler.running:
                    self._send_event(stream)
            due_ns = scheduler.next_due_ns()
            if due_ns is None:
                await self._changed.wait()
            else:
                with trio.move_on_at(clock.trio_deadline(due_ns)):
                    await self._changed.wait()

    def _send_event(self, stream: Stream) -> None:
        job, outlet, script = stream.job, stream.outlet, self.script
        if job.fault is not None and job.produced >= job.fault.after and self._play_fault(stream, job.fault.kind):
            return
        if outlet.full:
            self.scheduler.hold(job)
            return
        first = job.produced
        tokens = self.scheduler.produce(job)
        if not stream.role_sent and not stream.plain:
            self._send_role(stream)
        now_ns = self._clock.now_ns()
        job.sent_ns.append(now_ns)
        stream.last_write_ns = now_ns
        if stream.plain:
            outlet.write(chat.sse_chunk(b'data: {"n":%d,"mono_ns":%d}\n\n' % (first, now_ns)))
        else:
            kind = "reasoning_content" if first < script.reasoning else "content"
            outlet.write(stream.writer.token(first, tokens, kind, (now_ns, time.time_ns()) if script.stamps else None))
        if job.produced >= job.max_tokens:
            self._finish(stream, done=not (job.fault is not None and job.fault.kind is FaultKind.NO_DONE))

    def _send_role(self, stream: Stream) -> None:
        stream.role_sent = True
        stream.outlet.write(stream.writer.role())

    def _finish(self, stream: Stream, *, done: bool) -> None:
        if not stream.plain:
            end = stream.writer.finish("length")
            if stream.include_usage:
                end += stream.writer.usage(stream.job.prompt_tokens, stream.job.produced)
            stream.outlet.write(end + (chat.DONE if done else b""))
        stream.outlet.write(chat.LAST_CHUNK)
        self._close_job(stream.job, State.FINISHED)
        stream.over.cancel()

    def _play_fault(self, stream: Stream, kind: FaultKind) -> bool:
        """Break the stream as scripted; False for a fault that comes only at the end."""
        outlet = stream.outlet
        match kind:
            case FaultKind.ERROR_OBJECT:
                error = b"data: " + chat.error_body("scripted fault", "server_error", 500) + b"\n\n"
                outlet.write(chat.sse_chunk(error) + chat.DONE + chat.LAST_CHUNK)
            case FaultKind.ERROR_EVENT:
                error = b"event: error\ndata: " + chat.error_body("scripted fault", "server_error", 500) + b"\n\n"
                outlet.write(chat.sse_chunk(error) + chat.LAST_CHUNK)
            case FaultKind.CUT_CLEAN:
                outlet.write(chat.LAST_CHUNK)
            case FaultKind.CUT_IN_CHUNK:
                outlet.write(b'ff\r\ndata: {"choi')
                stream.hang_up = True
            case FaultKind.RESET:
                outlet.set_reset_on_close()
                stream.hang_up = True
            case FaultKind.STALL:
                self._close_job(stream.job, State.FAULT)
                return True  # the connection stays open and silent
            case _:
                return False
        self._close_job(stream.job, State.FAULT)
        stream.over.cancel()
        return True

    async def _beat(self, every_ns: int) -> None:
        """Comments on streams that have been silent for so long."""
        while True:
            await trio.sleep(every_ns / NS_PER_S / 4)
            now_ns = self._clock.now_ns()
            for stream in self._streams.values():
                if now_ns - stream.last_write_ns >= every_ns:
                    stream.last_write_ns = now_ns
                    stream.outlet.write(chat.PING)

    def _close_job(self, job: Job, state: State) -> None:
        if job.state in {State.FINISHED, State.ABORTED, State.FAULT}:
            return
        self.scheduler.end(job, state, self._clock.now_ns())
        self._streams.pop(job, None)
        self.finished[state] += 1
        self.log.append(job)
        self._changed.set()

    @staticmethod
    def _now_s() -> int:
        return int(time.time())


class _Connection:
    """Requests of one connection, one after another, and short answers to them."""

    def __init__(self, stream: trio.abc.Stream, outlet: Outlet) -> None:
        self.outlet = outlet
        self._stream = stream
        self._h11 = h11.Connection(h11.SERVER)

    async def next_request(self) -> tuple[h11.Request, bytes] | None:
        """The next request with its body; None when the client closed between requests."""
        if self._h11.our_state is not h11.IDLE:
            trailing = self._h11.trailing_data[0]
            self._h11 = h11.Connection(h11.SERVER)
            if trailing:
                self._h11.receive_data(trailing)
        request: h11.Request | None = None
        body = bytearray()
        while True:
            event = self._h11.next_event()
            match event:
                case h11.NEED_DATA:
                    await self._receive()
                case h11.Request():
                    request = event
                    if self._h11.they_are_waiting_for_100_continue:
                        self.outlet.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                case h11.Data():
                    body += event.data
                case h11.EndOfMessage():
                    assert request is not None
                    return request, bytes(body)
                case _:
                    return None

    def respond(self, status: int, body: bytes, content_type: str = "application/json", headers: str = "") -> None:
        head = f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}\r\nContent-Type: {content_type}\r\n{headers}"
        self.outlet.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)

    async def wait_for_disconnect(self) -> None:
        """Return when the client has closed its side. Bytes that come meanwhile are the next request's."""
        while True:
            try:
                data = await self._stream.receive_some(READ_BYTES)
            except trio.BrokenResourceError:
                return
            self._h11.receive_data(bytes(data))
            if not data:
                return

    async def _receive(self) -> None:
        self._h11.receive_data(bytes(await self._stream.receive_some(READ_BYTES)))


_REASONS: Final = {200: "OK", 400: "Bad Request", 404: "Not Found", 429: "Too Many Requests", 500: "Internal Server Error",
                   502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout"}  # fmt: skip

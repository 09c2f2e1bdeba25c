"""The life of one stream: slot, connection, request, answer, end. One trio task each, woken for life events only.

Tokens never wake the task: the receive loop feeds them into the stream's ``Exchange``. The task sleeps until the stream
has ended, or a deadline passed, or the run cuts it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

import trio

from loadgen import __version__
from loadgen.clock import NS_PER_S, Clock
from loadgen.dialect import Dialect
from loadgen.engine.concurrency import Limiter
from loadgen.errors import ConnectError
from loadgen.model import Outcome, StreamRecord
from loadgen.record.collector import Collector
from loadgen.record.timeline import Timeline
from loadgen.transport.exchange import Exchange, Request
from loadgen.transport.pool import Connection, ConnectionPool, Lease
from loadgen.transport.receive import Attention
from loadgen.workload.plan import AbortAfter, AbortBy, AbortPolicy, Plan, RequestKind, Target
from loadgen.workload.units import format_duration

# After the dialect's end mark the message itself should end: haproxy may hold the last chunk for 200 ms, a faulty server
# for ever. The stream's own times stop at the mark; this only bounds how long its connection is waited for.
LINGER_S: Final = 1.0
# A peer that refuses a request while it is still being sent may have said why; its words are given this long to arrive.
LAST_WORDS_S: Final = 0.1
# An idle connection that the server has closed answers a request with RST or FIN within a round trip. One that closes later
# has had the request: that is a failure of the target, and sending it again would hide it and double the load.
STALE_S: Final = 0.5
USER_AGENT: Final = f"loadgen/{__version__}"


class Life:
    """What a stream's task waits for, and how others make it leave."""

    def __init__(self, attention: Attention, abort: AbortPolicy | None) -> None:
        self.attention = attention
        self.abort = abort  # how this stream is to be left; None: it is not
        self.lease: Lease | None = None  # a place on a connection
        self.exchange: Exchange | None = None
        self.scope = trio.CancelScope()
        self.ended = trio.Event()
        self.released = trio.Event()
        self.sending = trio.CancelScope()
        self.total_deadline = math.inf
        self.due: tuple[Outcome, str] = (Outcome.CUT, "")  # what it means when the scope's deadline passes
        self.total_due: tuple[Outcome, str] = self.due
        self.first_token_deadline = math.inf

    def leave(self, outcome: Outcome, detail: str) -> None:
        """End the stream from outside: cut, abort."""
        self.due = (outcome, detail)
        self.scope.cancel()

    def set_deadline(self, deadline: float, outcome: Outcome, detail: str) -> None:
        """From now on until the next call, the stream may live until ``deadline`` (or its total one, if that is sooner)."""
        if deadline < self.total_deadline:
            self.scope.deadline, self.due = deadline, (outcome, detail)
        else:
            self.scope.deadline, self.due = self.total_deadline, self.total_due

    def begin_anew(self) -> None:
        """The request is sent again: what the first exchange told does not count."""
        self.exchange = None
        self.ended, self.released, self.sending = trio.Event(), trio.Event(), trio.CancelScope()

    def abort_now(self) -> None:
        """The moment of its policy has come. After the end of the stream it changes nothing."""
        if not self.ended.is_set():
            assert self.abort is not None
            self.leave(Outcome.ABORTED, describe_abort(self.abort))
            self.attention.noticed = True

    # ---- what the exchange tells

    def on_head(self) -> None:
        if self.abort is not None and self.abort.after is AbortAfter.HEADERS:
            self.abort_now()

    def on_tokens(self) -> None:
        self.abort_now()

    def on_first_token(self) -> None:
        if not self.scope.cancel_called:
            self.scope.deadline, self.due = self.total_deadline, self.total_due

    def on_end(self) -> None:
        self.ended.set()
        self.attention.noticed = True
        self.sending.cancel()  # an answer that has ended needs no more of its request

    def on_released(self) -> None:
        self.released.set()
        self.attention.noticed = True


def describe_abort(policy: AbortPolicy) -> str:
    """``left after 20 tokens by close``."""
    match policy.after:
        case AbortAfter.TOKENS:
            when = f"after {policy.amount} token{'s' if policy.amount != 1 else ''}"
        case AbortAfter.TIME:
            when = f"{format_duration(policy.amount)} after the request was sent"
        case AbortAfter.HEADERS:
            when = "after the response head"
        case AbortAfter.SENT:
            when = "once the request was sent"
    return f"left {when} by {policy.by}"


@dataclass(slots=True)
class Reach:
    """Whether the target can be reached at all."""

    connections: int = 0
    failures: int = 0
    last_failure: str = ""
    local_failure: str = ""  # this machine's own limit, if one was met


class StreamRunner:
    """Runs streams of one plan against one target. ``open`` holds the life of every stream that has not ended."""

    def __init__(
        self,
        *,
        plan: Plan,
        target: Target,
        dialect: Dialect,
        clock: Clock,
        pool: ConnectionPool,
        limiter: Limiter,
        collector: Collector,
        on_record: Callable[[StreamRecord], None],
        bounded_width: Callable[[int], None],
        attention: Attention,
        exchange_type: type[Exchange],
        nursery: trio.Nursery,
    ) -> None:
        self.reach = Reach()
        self.open: set[Life] = set()
        self._plan = plan
        self._target = target
        self._dialect = dialect
        self._clock = clock
        self._pool = pool
        self._limiter = limiter
        self._collector = collector
        self._on_record = on_record
        self._bounded_width = bounded_width
        self._attention = attention
        self._exchange_type = exchange_type
        self._nursery = nursery

    async def run(self, record: StreamRecord, kind: RequestKind, rng: Random) -> None:
        """Live one stream; returns when it has ended and its slot is free. Its record is delivered then or shortly after.

        Cancellation from outside (a crash elsewhere) loses the record; to end a stream and keep it, call ``Life.leave``.
        """
        record.started_ns = self._clock.now_ns()
        self._collector.stream_started(record)
        life = Life(self._attention, self._draw_abort(rng))
        self.open.add(life)
        try:
            with life.scope:
                if await self._limiter.enter():
                    record.slot_ns = self._clock.now_ns()
                    try:
                        await self._live(life, record, kind, rng)
                    finally:
                        self._limiter.leave()
                else:
                    record.outcome, record.detail = Outcome.DROPPED, "the limit was full"
        finally:
            self.open.discard(life)
        if life.scope.cancelled_caught:
            if life.exchange is None:
                record.outcome, record.detail = life.due
            else:
                life.exchange.give_up(*life.due, self._clock.now_ns())
        if life.ended.is_set() and not life.released.is_set() and not life.scope.cancelled_caught:
            self._nursery.start_soon(self._settle, life, record)
        else:
            self._deliver(life, record)

    # ---- the steps of a life

    async def _live(self, life: Life, record: StreamRecord, kind: RequestKind, rng: Random) -> None:
        """From the slot to the end of the stream."""
        request = self._build_request(kind, rng)
        pool, avoid = self._pool, None
        while (connection := await self._board(life, record, avoid)) is not None:
            record.reused = connection.streams > 0
            exchange = await self._converse(life, record, request, connection)
            if record.retried or not self._was_never_processed(record, exchange):
                return
            record.retried = True
            avoid = connection
            assert life.lease is not None
            if exchange.unprocessed:
                pool.release(life.lease, exchange)
                life.lease = None
            else:
                pool.renew(life.lease)
            life.begin_anew()

    def _was_never_processed(self, record: StreamRecord, exchange: Exchange) -> bool:
        """Whether the request may be sent again.

        The peer says so (HTTP/2: REFUSED_STREAM, or above the last id of GOAWAY), or it had closed an idle HTTP/1.1
        connection before the request came (RFC 9112, 9.3.1).
        """
        if exchange.status is not None:
            return False
        if self._plan.transport.http == "1.1":
            lost = record.reused and exchange.untouched and exchange.verdict()[0] in {Outcome.RESET, Outcome.TRUNCATED}
            return lost and exchange.end_ns - (record.connection_ns or 0) <= STALE_S * NS_PER_S
        return exchange.unprocessed

    async def _board(self, life: Life, record: StreamRecord, avoid: Connection | None) -> Connection | None:
        """A connection with a place for the stream; None: there is none to be had, the record says why."""
        pool = self._pool
        while True:
            if life.lease is None:
                life.lease = await pool.acquire(avoid=avoid)
                self._start_deadlines(life)
            if not await self._connect(life, record, life.lease):
                return None
            if life.lease.connection is not None:
                return life.lease.connection
            pool.release(life.lease, None)  # its places were fewer than hoped for: wait for another
            life.lease = None

    def _start_deadlines(self, life: Life) -> None:
        """Timeouts begin when the stream may use a connection: what it waited for before was not the target's doing."""
        timeouts, now = self._plan.timeouts, trio.current_time()
        if timeouts.total_ns is not None:
            life.total_deadline = now + timeouts.total_ns / NS_PER_S
            life.total_due = (Outcome.TIMEOUT_TOTAL, f"not ended after {format_duration(timeouts.total_ns)}")
        life.first_token_deadline = math.inf
        if timeouts.first_token_ns is not None:
            life.first_token_deadline = now + timeouts.first_token_ns / NS_PER_S

    async def _connect(self, life: Life, record: StreamRecord, lease: Lease) -> bool:
        connect_ns = self._plan.timeouts.connect_ns
        life.set_deadline(
            trio.current_time() + connect_ns / NS_PER_S,
            Outcome.TIMEOUT_CONNECT,
            f"no connection within {format_duration(connect_ns)}",
        )
        reach = self.reach
        try:
            with self._attention:
                dialed = await self._pool.connect(lease)
        except ConnectError as error:
            record.outcome = Outcome.TLS_ERROR if error.tls else Outcome.CONNECT_ERROR
            record.detail = str(error)
            reach.failures += 1
            reach.last_failure = record.detail
            if error.local:
                reach.local_failure = record.detail
            return False
        except trio.Cancelled:
            reach.failures += 1
            reach.last_failure = life.due[1]
            raise
        if dialed is None:
            return True
        reach.connections += 1
        record.connect_start_ns, record.connect_ns, record.tls_ns = dialed.start_ns, dialed.connect_ns, dialed.tls_ns
        record.dial_lag_ns = dialed.lag_ns
        return True

    async def _converse(self, life: Life, record: StreamRecord, request: Request, connection: Connection) -> Exchange:
        """Send the request and wait until its answer has ended."""
        record.connection_ns = self._clock.now_ns()
        record.connection = connection.number
        timeline = Timeline(self._collector.itl_sink(record.phase), self._bounded_width)
        exchange = self._exchange_type(self._dialect, self._dialect.reader(), timeline, life)
        life.exchange = exchange
        if life.abort is not None and life.abort.after is AbortAfter.TOKENS:
            exchange.tell_at = life.abort.amount
        first_token_ns = self._plan.timeouts.first_token_ns
        life.set_deadline(
            life.first_token_deadline,
            Outcome.TIMEOUT_FIRST_TOKEN,
            f"no token within {format_duration(first_token_ns or 0)}",
        )
        try:
            with self._attention, life.sending:
                record.sent_ns = await connection.send(request, exchange)
        except (OSError, trio.BrokenResourceError) as error:
            with trio.move_on_after(LAST_WORDS_S):
                await life.ended.wait()
            exchange.lose(Outcome.RESET, f"while the request was being sent: {error}", self._clock.now_ns())
        await self._wait_as_asked(life, exchange)
        return exchange

    async def _wait_as_asked(self, life: Life, exchange: Exchange) -> None:
        """Wait until the stream has ended, or leave it when its policy says so; that of tokens and head comes by itself."""
        abort = life.abort
        match None if abort is None else abort.after:
            case AbortAfter.SENT:
                life.abort_now()
                await trio.lowlevel.checkpoint()
            case AbortAfter.TIME:
                assert abort is not None
                with trio.move_on_after(abort.amount / NS_PER_S) as patience:
                    await self._wait_for_end(life, exchange)
                if patience.cancelled_caught:
                    life.abort_now()
                    await trio.lowlevel.checkpoint()
                return
        await self._wait_for_end(life, exchange)

    def _draw_abort(self, rng: Random) -> AbortPolicy | None:
        """Which policy this stream falls under. Without policies nothing is drawn."""
        if not self._plan.aborts:
            return None
        at = rng.random()
        for policy in self._plan.aborts:
            at -= policy.share
            if at < 0:
                return policy
        return None

    async def _wait_for_end(self, life: Life, exchange: Exchange) -> None:
        """Sleep until the stream has ended; once per idle timeout look whether it has fallen silent."""
        idle_ns = self._plan.timeouts.idle_ns
        if idle_ns is None:
            await life.ended.wait()
            return
        timeline, clock = exchange.timeline, self._clock
        check_ns = clock.now_ns() + idle_ns
        while not exchange.ended:
            with trio.move_on_at(clock.trio_deadline(check_ns)):
                await life.ended.wait()
            now_ns = clock.now_ns()
            check_ns = (now_ns if timeline.first_token_ns is None else timeline.last_event_ns) + idle_ns
            if not exchange.ended and check_ns <= now_ns:
                life.leave(Outcome.TIMEOUT_IDLE, f"no event for {format_duration(idle_ns)}")
                await trio.lowlevel.checkpoint()

    async def _settle(self, life: Life, record: StreamRecord) -> None:
        """The stream has ended and its slot is free; wait a little for its message to end as well."""
        with trio.move_on_after(LINGER_S):
            await life.released.wait()
        self._deliver(life, record)

    def _deliver(self, life: Life, record: StreamRecord) -> None:
        exchange = life.exchange
        record.end_ns = self._clock.now_ns() if exchange is None else exchange.end_ns
        if exchange is not None:
            exchange.fill(record)
            if self._target.backend_header is not None:
                record.backend = exchange.response_header(self._target.backend_header) or ""
        if life.lease is not None:
            if record.outcome is Outcome.ABORTED and life.abort is not None and life.abort.by is AbortBy.RESET:
                self._pool.reset_on_close(life.lease)
            self._pool.release(life.lease, exchange)
        life.exchange = life.lease = None  # they know each other: left alone, only the cyclic collector would free them
        self._on_record(record)

    def _build_request(self, kind: RequestKind, rng: Random) -> Request:
        """The dialect's request with the user's headers, which replace those of the same name."""
        target = self._target
        asked = self._dialect.build_request(kind, rng, target.model)
        given = {name.lower() for name, _ in target.headers}
        ours = (("User-Agent", USER_AGENT), *asked.headers)
        return Request(
            method=asked.method,
            scheme=target.scheme,
            authority=target.authority,
            path=target.path,
            headers=(*((name, value) for name, value in ours if name.lower() not in given), *target.headers),
            body=asked.body,
        )

"""One HTTP/1.1 connection: carries one exchange at a time, and knows whether it can carry another."""

from typing import Final

import trio

from loadgen.clock import Clock
from loadgen.errors import WireError
from loadgen.model import Outcome
from loadgen.record.repeat import Repeat
from loadgen.transport.exchange import Exchange, Request
from loadgen.transport.link import Link
from loadgen.wire.http1 import ResponseParser, chunk_begin, whole_chunks
from loadgen.wire.http1_request import build_request

_SETTLED: Final = trio.Event()
_SETTLED.set()


class Http1Connection:
    """The sink of a link; frames what arrives and passes it to the current exchange.

    ``usable``: idle, open, all of the last request sent, and fit for another one.
    """

    __slots__ = ("_by_reset", "_clock", "_exchange", "_framing", "_link", "_open", "_repeat", "_sending", "number", "streams")

    limit: Final = 1  # exchanges at a time, known from the start
    settled: Final = _SETTLED

    def __init__(self, link: Link, number: int, clock: Clock) -> None:
        self.number = number
        self.streams = 0  # exchanges carried so far
        self._link = link
        self._clock = clock
        self._open = True
        self._by_reset = False
        self._sending = False  # stays True for good when a send was cancelled
        self._exchange: Exchange | None = None
        self._framing = ResponseParser()
        self._repeat: Repeat | None = None  # what the exchange has of it, while the framing is between two chunks
        link.attach(self)

    @property
    def usable(self) -> bool:
        free = self._exchange is None or (self._exchange.released and self._framing.keep_alive)
        return self._open and not self._sending and free

    async def send(self, request: Request, exchange: Exchange) -> int:
        """Send one request whose answer goes to ``exchange``; returns when its last byte was handed over (ns).

        Raises OSError or trio.BrokenResourceError when the peer is gone; an answer may have come all the same.
        """
        assert self.usable, "the connection is busy or closed"
        self._exchange = exchange
        self._framing = ResponseParser(request_method=request.method)
        self.streams += 1
        headers = _with_host(request)
        self._sending = True
        sent_ns = await self._link.send_all(build_request(request.method, request.path, headers, request.body), self._clock)
        self._sending = False
        return sent_ns

    def leave(self, exchange: Exchange) -> None:
        """Nobody waits for the rest of this answer: only closing stops it."""
        if not exchange.released:
            self.close()

    def reset_on_close(self) -> None:
        """Close by RST, not FIN."""
        self._by_reset = True

    async def finish(self) -> None:
        """Close; there is nothing to be said."""
        self.close()

    def close(self) -> None:
        self._open = False
        self._repeat = None
        if self._by_reset:
            self._link.close_with_reset()
        else:
            self._link.close()

    # ---- the link's sink

    def feed(self, data: bytes, at_ns: int, since_ns: int, *, kernel: bool) -> None:
        repeat = self._repeat
        if repeat is not None and kernel:
            begin = chunk_begin(data)
            if begin:
                if repeat.take(data, begin, len(data) - 2, at_ns):
                    return
            elif repeat.take_several(data, whole_chunks(data), at_ns, since_ns):
                return
        self._feed(data, at_ns, since_ns, kernel)

    def eof(self, at_ns: int) -> None:
        self._open = False
        exchange, framing = self._exchange, self._framing
        if exchange is None or exchange.released:
            return
        try:
            framing.close()
            exchange.on_message_end(at_ns)
        except WireError as error:
            exchange.fail(error, at_ns)

    def reset(self, detail: str, at_ns: int, *, outcome: Outcome = Outcome.RESET) -> None:
        self._open = False
        if self._exchange is not None:
            self._exchange.lose(outcome, detail, at_ns)

    def _feed(self, data: bytes, at_ns: int, since_ns: int, kernel: bool) -> None:  # noqa: FBT001 - hot path
        exchange, framing = self._exchange, self._framing
        if exchange is None or exchange.released:
            self._open = False  # bytes that nobody asked for: whatever follows could not be trusted
            return
        self._repeat = None
        exchange.on_wire(len(data))
        try:
            framing.feed(data)
        except WireError as error:
            self._pass(exchange, at_ns, since_ns, kernel, error)
        else:
            self._pass(exchange, at_ns, since_ns, kernel, None)
            if framing.between_chunks:
                self._repeat = exchange.repeat

    def _pass(self, exchange: Exchange, at_ns: int, since_ns: int, kernel: bool, broken: WireError | None) -> None:  # noqa: FBT001 - hot path
        """Hand over what the framing has: also what came whole before it broke. The first error is the one to tell."""
        framing = self._framing
        try:
            if exchange.status is None and framing.head_complete:
                assert framing.status is not None
                exchange.on_head(framing.status, framing.reason or "", framing.header, at_ns)
            exchange.on_body(framing.take_body(), at_ns, since_ns, kernel=kernel)
            if framing.body_complete:
                exchange.on_message_end(at_ns)
        except WireError as error:
            broken = broken or error
        if broken is not None:
            exchange.fail(broken, at_ns)


def _with_host(request: Request) -> list[tuple[str, str]]:
    """Host first (RFC 9110, 7.2), unless the user gave one."""
    given = any(name.lower() == "host" for name, _ in request.headers)
    return list(request.headers) if given else [("Host", request.authority), *request.headers]

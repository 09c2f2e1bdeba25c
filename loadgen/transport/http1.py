"""One HTTP/1.1 connection: carries one exchange at a time, and knows whether it can carry another."""

from loadgen.clock import Clock
from loadgen.transport.exchange import Exchange
from loadgen.transport.link import Link


class Http1Connection:
    """The sink of a link; passes what arrives to the current exchange.

    ``usable``: idle, open, all of the last request sent, and fit for another one.
    """

    __slots__ = ("_exchange", "_link", "_open", "_sending", "number", "streams")

    def __init__(self, link: Link, number: int) -> None:
        self.number = number
        self.streams = 0  # exchanges carried so far
        self._link = link
        self._open = True
        self._sending = False  # stays True for good when a send was cancelled
        self._exchange: Exchange | None = None
        link.attach(self)

    @property
    def usable(self) -> bool:
        return self._open and not self._sending and (self._exchange is None or self._exchange.reusable)

    async def send(self, request: bytes, exchange: Exchange, clock: Clock) -> int:
        """Send one request whose answer goes to ``exchange``; returns when its last byte was handed over (ns).

        Raises OSError or trio.BrokenResourceError when the peer is gone; an answer may have come all the same.
        """
        assert self.usable, "the connection is busy or closed"
        self._exchange = exchange
        self.streams += 1
        self._sending = True
        sent_ns = await self._link.send_all(request, clock)
        self._sending = False
        return sent_ns

    def close(self) -> None:
        self._open = False
        self._link.close()

    # ---- the link's sink

    def feed(self, data: bytes, at_ns: int, since_ns: int, *, kernel: bool) -> None:
        exchange = self._exchange
        if exchange is None or exchange.released:
            self._open = False  # bytes that nobody asked for: whatever follows could not be trusted
        else:
            exchange.feed(data, at_ns, since_ns, kernel=kernel)

    def eof(self, at_ns: int) -> None:
        self._open = False
        if self._exchange is not None:
            self._exchange.eof(at_ns)

    def reset(self, detail: str, at_ns: int) -> None:
        self._open = False
        if self._exchange is not None:
            self._exchange.reset(detail, at_ns)

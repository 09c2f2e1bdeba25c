"""HTTP/1 as a server: requests read by h11, answers written by hand, because h11 costs 4 us a chunk on the way out."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs, urlsplit

import h11
import trio

from loadgen.sim.outlet import Outlet

READ_BYTES: Final = 64 * 1024
MAX_BODY_BYTES: Final = 32 << 20  # the longest prompts of today's models are a few MB of text
MAX_AHEAD_BYTES: Final = 64 * 1024  # what a client may send while it is being answered


class BadRequestError(Exception):
    """What the client sent is no request that can be answered; ``status`` says which way."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Framing:
    """How a body of unknown length is framed, and whether the connection ends with the answer.

    HTTP/1.0 (nginx's default towards its upstreams) knows no chunks: there the end of the connection ends the body.
    """

    chunked: bool
    close: bool

    def head(self, status: int, *headers: str) -> bytes:
        """Status line and header section; ``headers`` are whole lines."""
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase if status in _STATUSES else 'Status'}"]
        lines += ["Server: loadgen-sim", *headers, *(["Connection: close"] if self.close else [])]
        return "\r\n".join([*lines, "", ""]).encode("ascii")

    def stream_head(self, content_type: str = "text/event-stream; charset=utf-8") -> bytes:
        chunked = ["Transfer-Encoding: chunked"] if self.chunked else []
        return self.head(200, f"Content-Type: {content_type}", "Cache-Control: no-cache", *chunked)

    def message(self, status: int, body: bytes, content_type: str = "application/json", *headers: str) -> bytes:
        """A whole response with a Content-Length."""
        return self.head(status, f"Content-Type: {content_type}", f"Content-Length: {len(body)}", *headers) + body

    def frame(self, data: bytes) -> bytes:
        return b"%x\r\n%s\r\n" % (len(data), data) if self.chunked else data

    def broken(self, data: bytes) -> bytes:
        """The beginning of a chunk that promises more than ``data``."""
        return b"%x\r\n%s" % (len(data) + 64, data) if self.chunked else data

    @property
    def last(self) -> bytes:
        return b"0\r\n\r\n" if self.chunked else b""


_STATUSES: Final = frozenset(HTTPStatus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    method: str
    path: str
    query: dict[str, list[str]]
    body: bytes
    framing: Framing  # for its answer


class Connection:
    """Requests of one connection, one after another; no pipelining. Answers go to the outlet."""

    def __init__(self, stream: trio.abc.Stream, outlet: Outlet, *, keep_alive: bool, ahead: bytes = b"") -> None:
        self._stream = stream
        self._outlet = outlet
        self._keep_alive = keep_alive
        self._h11 = h11.Connection(h11.SERVER)
        self._ahead = bytearray(ahead)  # read already, for the next request

    async def next_request(self) -> Request | None:
        """The next request with its body; None when the client closed between requests.

        Raises BadRequestError for what is no HTTP, and trio.BrokenResourceError when the connection broke.
        """
        self._h11 = h11.Connection(h11.SERVER)  # h11 is not told of our answers: each request meets a fresh one
        if self._ahead:
            self._h11.receive_data(bytes(self._ahead))
            self._ahead.clear()
        request: h11.Request | None = None
        body = bytearray()
        while True:
            match event := self._next_event():
                case h11.Request():
                    request = event
                    if self._h11.they_are_waiting_for_100_continue:
                        self._outlet.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                case h11.Data():
                    body += event.data
                    if len(body) > MAX_BODY_BYTES:
                        raise BadRequestError(413, f"the body is larger than {MAX_BODY_BYTES} bytes")
                case h11.EndOfMessage():
                    assert request is not None
                    self._ahead += self._h11.trailing_data[0]
                    return self._build(request, bytes(body))
                case h11.ConnectionClosed():
                    return None
                case _:
                    self._h11.receive_data(bytes(await self._stream.receive_some(READ_BYTES)))

    async def wait_for_disconnect(self) -> None:
        """Return when the client has closed, half-closed or reset the connection, or sends without end."""
        while len(self._ahead) <= MAX_AHEAD_BYTES:
            try:
                data = await self._stream.receive_some(READ_BYTES)
            except trio.BrokenResourceError:
                return
            if not data:
                return
            self._ahead += data

    def _next_event(self) -> object:
        try:
            return self._h11.next_event()
        except h11.RemoteProtocolError as error:
            raise BadRequestError(error.error_status_hint, str(error)) from None

    def _build(self, request: h11.Request, body: bytes) -> Request:
        try:
            target = urlsplit(request.target.decode("ascii"))
        except ValueError:
            raise BadRequestError(400, f"cannot parse the target {request.target[:80]!r}") from None
        options = {o.strip().lower() for n, v in request.headers if n == b"connection" for o in v.split(b",")}
        chunked = request.http_version == b"1.1"
        # HTTP/1.0 keep-alive needs a Content-Length, which a stream has not: such a client is answered and closed.
        close = not self._keep_alive or not chunked or b"close" in options
        return Request(
            method=request.method.decode("ascii"),
            path=target.path,
            query=parse_qs(target.query),
            body=body,
            framing=Framing(chunked=chunked, close=close),
        )

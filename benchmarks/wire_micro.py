"""What framing and parsing one 250-byte event costs: ours, httptools and h11 on the same bytes, in one run."""

import timeit

import h11
import httptools
import msgspec

from loadgen.dialect.openai_chat import OpenAiChat
from loadgen.wire.http1 import ResponseParser
from loadgen.wire.sse import SseParser

EVENT = b'data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":null}]}\n\n' % (b"x" * 154)
CHUNK = b"%x\r\n%s\r\n" % (len(EVENT), EVENT)
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
ROUNDS = 100_000


def ns(call) -> float:  # noqa: ANN001
    """Best of five, ns a call."""
    return min(timeit.repeat(call, number=ROUNDS, repeat=5)) / ROUNDS * 1e9


def main() -> None:
    parser, sse = ResponseParser(), SseParser()
    parser.feed(HEAD)
    sse.feed(b":\n\n")
    (event,) = sse.feed(EVENT)
    reader = OpenAiChat().reader()

    def ours() -> None:
        parser.feed(CHUNK)
        parser.take_body()

    class Body:
        def on_body(self, body: bytes) -> None: ...

    llhttp = httptools.HttpResponseParser(Body())
    llhttp.feed_data(HEAD)
    slow = h11.Connection(h11.CLIENT)
    slow.send(h11.Request(method="GET", target="/", headers=[("Host", "x")]))
    slow.send(h11.EndOfMessage())
    slow.receive_data(HEAD)
    slow.next_event()

    def by_h11() -> None:
        slow.receive_data(CHUNK)
        while isinstance(slow.next_event(), h11.Data):
            pass

    rows = {
        "chunk, ResponseParser": ours,
        "chunk, httptools": lambda: llhttp.feed_data(CHUNK),
        "chunk, h11": by_h11,
        "event, SseParser": lambda: sse.feed(EVENT),
        "event, classify (msgspec)": lambda: reader.classify(event),
        "event, msgspec.json.decode": lambda: msgspec.json.decode(event.data),
    }
    for name, call in rows.items():
        print(f"{name:30} {ns(call):7.0f} ns")


if __name__ == "__main__":
    main()

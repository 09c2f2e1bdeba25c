"""What framing and parsing one 250-byte event costs: ours, httptools and h11 on the same bytes, in one run.

And what one event of each dialect costs, to be cut out of the body (parse) and to be understood (classify).
"""

import timeit

import h11
import httptools
import msgspec

from loadgen.dialect import DIALECTS, build_dialect
from loadgen.dialect.base import EVENT_PARSERS
from loadgen.dialect.openai_chat import OpenAiChat
from loadgen.model import EventClass
from loadgen.wire.http1 import ResponseParser
from loadgen.wire.sse import SseParser
from loadgen.workload.custom import CustomSpec

EVENT = b'data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":null}]}\n\n' % (b"x" * 154)
CHUNK = b"%x\r\n%s\r\n" % (len(EVENT), EVENT)
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
ROUNDS = 100_000
TEXT = b"x" * 16
# A usual event of each dialect; chat's for the others.
TOKENS = {
    "openai-completions": b'data: {"id":"cmpl-1","choices":[{"index":0,"text":"%s","finish_reason":null}]}\n\n' % TEXT,
    "openai-responses": (
        b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":1,"item_id":"m",'
        b'"output_index":0,"content_index":0,"delta":"%s"}\n\n' % TEXT
    ),
    "anthropic-messages": (
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
        b'"delta":{"type":"text_delta","text":"%s"}}\n\n' % TEXT
    ),
    "gemini": (
        b'data: {"candidates":[{"content":{"parts":[{"text":"%s"}],"role":"model"},"index":0}],"usageMetadata":'
        b'{"promptTokenCount":1,"candidatesTokenCount":2,"totalTokenCount":3},"modelVersion":"m"}\r\n\r\n' % TEXT
    ),
    "llamacpp": b'data: {"index":0,"content":"%s","tokens":[1],"stop":false,"tokens_predicted":1}\n\n' % TEXT,
    "ollama": b'{"model":"m","created_at":"2026-12-01T00:00:00Z","message":{"role":"assistant","content":"%s"},"done":false}\n'
    % TEXT,
    "ollama-generate": b'{"model":"m","created_at":"2026-12-01T00:00:00Z","response":"%s","done":false}\n' % TEXT,
    "tgi": (
        b'data: {"index":1,"token":{"id":5,"text":"%s","logprob":-0.5,"special":false},"generated_text":null,'
        b'"details":null}\n\n' % TEXT
    ),
    "triton": b'data: {"model_name":"m","model_version":"1","text_output":"%s"}\n\n' % TEXT,
}
CHAT_BY_POINTERS = build_dialect("custom", CustomSpec.model_validate({
    "text": "/choices/0/delta/content", "reasoning": "/choices/0/delta/reasoning", "finish": "/choices/0/finish_reason",
    "usage": "/usage", "end": "[DONE]",
}))  # fmt: skip


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
    print()
    for name, dialect in {**DIALECTS, "custom": CHAT_BY_POINTERS}.items():
        made = dialect.reader()
        wire = TOKENS.get(name, EVENT)
        events = EVENT_PARSERS[dialect.events]()
        events.feed(b"\n")
        (token,) = events.feed(wire)
        assert made.classify(token) & EventClass.OUTPUT, name
        costs = ns(lambda events=events, wire=wire: events.feed(wire)), ns(lambda made=made, token=token: made.classify(token))
        print(f"{name:20} parse {costs[0]:6.0f} ns   classify {costs[1]:6.0f} ns")


if __name__ == "__main__":
    main()

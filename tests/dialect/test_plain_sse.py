"""Plain SSE: every event counts."""

from random import Random

from loadgen.dialect.plain_sse import PlainSse
from loadgen.model import EventClass as C
from loadgen.wire.sse import SseParser
from loadgen.workload.plan import RequestKind


def read(body: bytes) -> tuple[list[C], str, str]:
    reader = PlainSse().reader()
    got = [reader.classify(e) for e in SseParser().feed(body)]
    return got, reader.missing(), reader.error


def test_every_event_counts_whatever_it_holds() -> None:
    assert read(b'data\n\ndata: {"a"\n\nevent: tick\ndata: 1\n\n') == ([C.ANSWER] * 3, "", "")


def test_comments_and_pings_are_no_output() -> None:
    assert read(b": hi\n\nevent: ping\ndata: x\n\n") == ([C.HEARTBEAT], "any event", "")


def test_done_is_a_mark_and_no_success_by_itself() -> None:
    assert read(b"data: 1\n\ndata: [DONE]\n\n") == ([C.ANSWER, C.END], "", "")
    assert read(b"data: [DONE]\n\n") == ([C.END], "any event", "")


def test_error_event() -> None:
    assert read(b"data: 1\n\nevent: error\ndata: boom\n\n") == ([C.ANSWER, C.ERROR], "", "'boom'")


def test_request_is_a_get_until_there_is_a_body() -> None:
    class Fixed:
        def pick(self, rng: Random) -> list[dict[str, object]]:
            return []

    bare = PlainSse().build_request(RequestKind(index=0, weight=1, prompt=Fixed()), Random(), None)
    assert (bare.method, bare.body) == ("GET", b"")
    full = PlainSse().build_request(RequestKind(index=0, weight=1, prompt=Fixed(), body={"a": 1}), Random(), None)
    assert (full.method, full.body) == ("POST", b'{"a":1}')

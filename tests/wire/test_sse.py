"""The SSE parser against the conformance cases, against a reference written from the text, and against any cut."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.errors import WireError
from loadgen.wire.sse import SseParser
from tests.support.cases import input_of, load_cases
from tests.support.cuts import cut_offsets, every_cut, one_by_one, pieces
from tests.support.reference_sse import reference_events

CASES = load_cases("sse_cases.yaml")
Parsed = tuple[list[tuple[str, str, str]], str, int | None]


def parse(parts: list[bytes]) -> Parsed:
    parser = SseParser()
    events = [event for part in parts for event in parser.feed(part)] + parser.close()
    return [(e.type, e.data, e.last_event_id) for e in events], parser.last_event_id, parser.retry_ms


def test_all_cases_were_read() -> None:
    assert len(CASES) >= 96
    assert len({case["id"] for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_case(case: dict[str, Any]) -> None:
    body = input_of(case)
    cuts = list(every_cut(body, most=10_000 if len(body) < 10_000 else 20))
    for parts in [*cuts, *(pieces(body, offsets) for offsets in case.get("splits", []))]:
        events, last_event_id, retry = parse(parts)
        if "events" in case:
            assert events == [(e["type"], e["data"], e["last_event_id"]) for e in case["events"]]
        else:
            assert len(events) == case["events_count"]
            assert len(events[0][1]) == case["first_data_len"]
        assert (last_event_id, retry) == (case["last_event_id"], case["retry"])


@pytest.mark.parametrize("case", [c for c in CASES if "dispatch_by" in c], ids=lambda case: case["id"])
def test_no_event_waits_for_more_than_it_needs(case: dict[str, Any]) -> None:
    parser = SseParser()
    seen = [at for at, byte in enumerate(one_by_one(input_of(case)), 1) for _ in parser.feed(byte)]
    assert len(seen) == len(case["dispatch_by"])
    assert all(at <= by for at, by in zip(seen, case["dispatch_by"], strict=True))


FRAGMENTS = [
    b"data", b"data: ", b"data:", b"event: x", b"event:", b"id: 1", b"id", b"id: \0", b"retry: 10", b"retry: x", b": c",
    b":", b"other: y", b"\r", b"\n", b"\r\n", b"\n\n", b"\r\r", b"\r\n\r\n", b" ", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\x85",
    b"\xff", b"\xe2\x82", b"\xf0\x9f\x98\x80", b"\0", b"{}",
]  # fmt: skip
documents = st.lists(st.sampled_from(FRAGMENTS), max_size=25).map(b"".join) | st.binary(max_size=60)


@given(documents, st.data())
def test_any_cut_gives_what_the_text_says(body: bytes, data: st.DataObject) -> None:
    expected = reference_events(body)
    assert parse([body]) == expected
    assert parse(one_by_one(body)) == expected
    assert parse(pieces(body, data.draw(cut_offsets(len(body))))) == expected


WHOLE_EVENTS = st.sampled_from([
    b"data: a\n\n", b"data:a\n\n", b"data:\n\n", b"data:  a\n\n", b"data: a\r\n\r\n", b"data: a\n\r\n", b"data: a\r\n\n",
    b"data\n\n", b"event: x\ndata: a\n\n", b"event: x\r\ndata: a\r\n\r\n", b"event: x\r\ndata: a\n\n", b"event: \ndata: a\n\n",
    b"event:x\ndata: a\n\n", b"event: x\rdata: a\n\n", b"event: \xff\ndata: \xff\n\n", b"event: x\n\n", b"event: x\n",
    b"id: 1\n\n",
    b"data: a\r\r", b"data: a\n", b"datax: a\n\n", b": c\n\n", b"data: a\n\ndata: b\n\n", b"data: a\r\n\r", b"\n",
])  # fmt: skip


@given(st.lists(WHOLE_EVENTS, max_size=6))
def test_whole_events_in_one_read_are_no_special_case(events: list[bytes]) -> None:
    """They take a path of their own, once the beginning of the stream is over."""
    assert parse([b"\n\n", *events]) == reference_events(b"\n\n" + b"".join(events))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_takes_any_buffer_and_keeps_none(kind: Any) -> None:
    parser = SseParser()
    source = bytearray(b"data: a")
    parser.feed(kind(source))
    source[:] = b"xxxxxxx"
    (event,) = parser.feed(b"\n\n")
    assert event.data == "a"


def test_partial_tells_whether_an_event_is_under_way() -> None:
    parser = SseParser()
    assert not parser.partial
    for part, expected in ((b"da", True), (b"ta: x\n", True), (b"\n", False), (b": comment\n", False), (b"event: y\r", True)):
        parser.feed(part)
        assert parser.partial is expected
    parser.feed(b"\r")
    assert not parser.partial


def test_comments_are_counted() -> None:
    parser = SseParser()
    parser.feed(b": a\n:\n\ndata: x\n: b\n\n")
    assert parser.comments == 3


def test_lines_and_events_are_bounded() -> None:
    with pytest.raises(WireError) as line:
        SseParser(max_line_bytes=10).feed(b"x" * 11)
    assert line.value.code == "line_too_big"
    parser = SseParser(max_event_bytes=10)
    with pytest.raises(WireError) as event:
        parser.feed(b"data: 12345\n" * 3)
    assert event.value.code == "event_too_big"


def test_byte_by_byte_is_linear() -> None:
    """Doubling the length of one unfinished line must not quadruple the time."""

    def spent(size: int) -> float:
        parser, byte = SseParser(), b"x"
        began = time.perf_counter()
        for _ in range(size):
            parser.feed(byte)
        return time.perf_counter() - began

    spent(1000)
    assert spent(80_000) < 8 * spent(20_000)

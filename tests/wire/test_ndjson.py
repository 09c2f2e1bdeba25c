"""The NDJSON parser against a slow reference and against any cut, and what it promises of promptness and bounds."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.errors import WireError
from loadgen.wire.ndjson import NdjsonParser
from tests.support.cuts import cut_offsets, every_cut, one_by_one, pieces
from tests.support.reference_ndjson import reference_lines


def parse(parts: list[bytes]) -> list[str]:
    parser = NdjsonParser()
    events = [event for part in parts for event in parser.feed(part)] + parser.close()
    assert {(event.type, event.last_event_id) for event in events} <= {("message", "")}
    return [event.data for event in events]


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        (b'{"a":1}\n{"b":2}\n', ['{"a":1}', '{"b":2}']),
        (b'{"a":1}\r\n', ['{"a":1}']),
        (b"\n\r\n \t\n1\n", ["1"]),
        (b'{"a":1}\n{"b":', ['{"a":1}']),  # cut inside a line
        (b'{"a":1}', []),  # whole as JSON, but nobody can know that
        (b'{"a":"\\n\\u2028"}\n', ['{"a":"\\n\\u2028"}']),
        (b'"\xe2\x80\xa8\x85"\n', ['"\u2028\ufffd"']),  # other line ends of Unicode, and no UTF-8 at all
        (b"1\r2\n", ["1\r2"]),  # a CR alone ends nothing
        (b"", []),
    ],
)
def test_lines(body: bytes, lines: list[str]) -> None:
    for parts in every_cut(body):
        assert parse(parts) == lines
    assert reference_lines(body) == lines


FRAGMENTS = [
    b"{}", b'{"a":', b'"b"}', b"\n", b"\n\n", b"\r\n", b"\r", b" ", b"\t", b"data: x", b"\xef\xbb\xbf", b"\xe2\x80\xa8",
    b"\x0b", b"\x0c", b"\xc2\x85", b"\xff", b"\xf0\x9f\x98\x80", b"\0",
]  # fmt: skip
documents = st.lists(st.sampled_from(FRAGMENTS), max_size=25).map(b"".join) | st.binary(max_size=60)


@given(documents, st.data())
def test_any_cut_gives_the_same_lines(body: bytes, data: st.DataObject) -> None:
    expected = reference_lines(body)
    assert parse([body]) == expected
    assert parse(one_by_one(body)) == expected
    assert parse(pieces(body, data.draw(cut_offsets(len(body))))) == expected


@given(documents)
def test_a_line_comes_with_its_lf_and_not_before(body: bytes) -> None:
    parser = NdjsonParser()
    for at, byte in enumerate(one_by_one(body), 1):
        events = parser.feed(byte)
        assert len(events) == len(reference_lines(body[:at])) - len(reference_lines(body[: at - 1]))
        assert parser.partial is (body[:at].rpartition(b"\n")[2] != b"")


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_takes_any_buffer_and_keeps_none(kind: Any) -> None:
    parser = NdjsonParser()
    source = bytearray(b"12")
    parser.feed(kind(source))
    source[:] = b"xx"
    (event,) = parser.feed(b"3\n")
    assert event.data == "123"


def test_close_forgets_what_is_unfinished() -> None:
    parser = NdjsonParser()
    parser.feed(b'{"a"')
    assert parser.close() == []
    assert not parser.partial


@pytest.mark.parametrize("parts", [[b"12345678901"], [b"123456", b"78901"], [b"1\n12345678901\n"], [b"1\n12345678901"]])
def test_lines_are_bounded(parts: list[bytes]) -> None:
    parser = NdjsonParser(max_line_bytes=10)
    for part in parts[:-1]:
        parser.feed(part)
    with pytest.raises(WireError, match=r"more than 10 bytes at byte [02], it begins '1234") as caught:
        parser.feed(parts[-1])
    assert caught.value.code == "line_too_big"
    assert parse([b"1234567890\n"]) == ["1234567890"]


def test_byte_by_byte_is_linear() -> None:
    """Doubling the length of one unfinished line must not quadruple the time."""

    def spent(size: int) -> float:
        parser, byte = NdjsonParser(), b"x"
        began = time.perf_counter()
        for _ in range(size):
            parser.feed(byte)
        return time.perf_counter() - began

    spent(1000)
    assert spent(80_000) < 8 * spent(20_000)

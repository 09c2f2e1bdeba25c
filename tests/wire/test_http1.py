"""Response framing: the conformance cases, a slow reference for chunks, and every cut."""

import base64
import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.errors import WireError
from loadgen.wire.content import content_decoder
from loadgen.wire.http1 import MAX_CHUNK_LINE_BYTES, ResponseParser
from tests.support.cases import input_of, load_cases
from tests.support.cuts import cut_offsets, every_cut, one_by_one, pieces
from tests.support.reference_http1 import reference_chunked

CASES = load_cases("h1_chunk_cases.yaml")
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def run(parts: list[bytes], *, eof: bool = False) -> tuple[ResponseParser, bytes, str | None]:
    """The parser, the body it gave, and the code of its error."""
    parser, body = ResponseParser(), b""
    try:
        for part in parts:
            parser.feed(part)
            body += parser.take_body()
        if eof:
            parser.close()
    except WireError as error:
        return parser, body + parser.take_body(), error.code
    return parser, body, None


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_case(case: dict[str, Any]) -> None:
    data = input_of(case)
    for parts in every_cut(data, most=10_000 if len(data) < 10_000 else 20):
        check(case, *run(parts, eof=case["eof"]))


def check(case: dict[str, Any], parser: ResponseParser, body: bytes, error: str | None) -> None:
    also = set(case.get("also_ok", []))
    if error != case["error"]:
        assert error in also
        return
    assert (parser.status, parser.info) == (case["status"], case["info"])
    if case["framing"] is not None:
        assert parser.framing == case["framing"]
    assert parser.body_complete is case["complete"]
    if not also & {"keep_alive", "no_keep_alive"}:
        assert parser.keep_alive is case["keep_alive"]
    if "body_b64" in case:
        expected = base64.b64decode(case["body_b64"])
        assert body == expected if error is None else expected.startswith(body)
    elif "body_len" in case:
        assert (len(body), hashlib.sha256(body).hexdigest()) == (case["body_len"], case["body_sha256"])
    assert [list(field) for field in parser.trailers] == case.get("trailers", [])
    assert parser.leftover == base64.b64decode(case.get("leftover_b64", ""))


ENCODED = [case for case in CASES if "decoded_b64" in case or "decode_error" in case]


@pytest.mark.parametrize("case", ENCODED, ids=lambda case: case["id"])
def test_content_encoding(case: dict[str, Any]) -> None:
    parser, body, _ = run([input_of(case)])
    accepted = frozenset({"gzip", "x-gzip", "deflate"})
    for parts in every_cut(body):
        decoded, error = b"", None
        try:
            decoder = content_decoder(parser.header("content-encoding"), accepted)
            for part in parts:
                decoded += part if decoder is None else decoder.decode(part)
            if decoder is not None:
                decoder.close()
        except WireError as failure:
            error = failure.code
        assert error == case.get("decode_error")
        if "decoded_b64" in case:
            assert decoded == base64.b64decode(case["decoded_b64"])


def test_a_sync_flushed_event_is_out_with_its_chunk() -> None:
    (case,) = (c for c in CASES if "decoded_after_chunk" in c)
    head, _, chunks = input_of(case).partition(b"\r\n\r\n")
    parser = ResponseParser()
    parser.feed(head + b"\r\n\r\n")
    decoder = content_decoder(parser.header("content-encoding"))
    assert decoder is not None
    sizes, decoded = [], 0
    for byte in one_by_one(chunks):
        parser.feed(byte)
        body = parser.take_body()
        if body:
            decoded += len(decoder.decode(body))
        if parser.body_complete or (byte == b"\n" and not body):
            sizes.append(decoded)
    assert set(case["decoded_after_chunk"]) <= set(sizes)


FRAGMENTS = [
    b"0\r\n", b"\r\n", b"1\r\na\r\n", b"3\r\nabc\r\n", b"a;x=y\r\n0123456789\r\n", b"2", b"A", b"\r", b"\n", b"xyz", b"0",
    b";e", b"X: 1\r\n", b"5\r\nhello\r\n", b"00\r\n\r\n",
]  # fmt: skip
bodies = st.lists(st.sampled_from(FRAGMENTS), max_size=12).map(b"".join) | st.binary(max_size=30)


@given(bodies, st.data())
def test_chunks_are_what_the_grammar_says_however_they_are_cut(body: bytes, data: st.DataObject) -> None:
    expected, state = reference_chunked(body)
    results = [
        run([CHUNKED + body]),
        run([CHUNKED, *one_by_one(body)]),
        run(pieces(CHUNKED + body, [len(CHUNKED) + o for o in data.draw(cut_offsets(len(body)))])),
    ]
    assert len({(got, error, parser.body_complete, parser.leftover) for parser, got, error in results}) == 1
    parser, got, error = results[0]
    if state == "complete" and error is None:
        assert parser.body_complete
    if state == "open" and error is None:
        assert not parser.body_complete
    if state != "error":
        assert expected.startswith(got) if error else got == expected
    if error is None:
        assert state != "error"


@given(st.binary(max_size=80), st.data())
def test_any_bytes_give_the_same_however_they_are_cut(raw: bytes, data: st.DataObject) -> None:
    def seen(parts: list[bytes]) -> object:
        parser, body, error = run(parts, eof=True)
        return body, error, parser.status, parser.headers, parser.body_complete, parser.leftover

    raw = data.draw(st.sampled_from([b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 404\r\nA: b\r\n", CHUNKED])) + raw
    assert seen([raw]) == seen(one_by_one(raw)) == seen(pieces(raw, data.draw(cut_offsets(len(raw)))))


def head(*lines: str) -> bytes:
    return "\r\n".join(["HTTP/1.1 200 OK", *lines, "", ""]).encode("latin-1")


@pytest.mark.parametrize(
    ("what", "data", "code"),
    [
        ("HTTP/2", b"HTTP/2.0 200 OK\r\n\r\n", "bad_status_line"),
        ("two-digit status", b"HTTP/1.1 20 OK\r\n\r\n", "bad_status_line"),
        ("status below 100", b"HTTP/1.1 099 X\r\n\r\n", "bad_status_line"),
        ("leading empty line", b"\r\nHTTP/1.1 200 OK\r\n\r\n", "bad_status_line"),
        ("101", b"HTTP/1.1 101 Switching\r\n\r\n", "bad_status_line"),
        ("no colon", head("Oops"), "bad_header"),
        ("empty name", head(": x"), "bad_header"),
        ("space in the name", head("A B: x"), "bad_header"),
        ("fold first", head(" x: y"), "bad_header"),
        ("bare CR in a value", head("A: x\ry"), "bad_header"),
        ("lengths differ in one field", head("Content-Length: 1, 2"), "bad_content_length"),
        ("empty length", head("Content-Length: "), "bad_content_length"),
        ("hex length", head("Content-Length: 0x5"), "bad_content_length"),
        ("length of 20 digits", head("Content-Length: " + "9" * 20), "bad_content_length"),
        ("chunked twice", head("Transfer-Encoding: chunked, chunked"), "unsupported_transfer_encoding"),
        ("chunked not last", head("Transfer-Encoding: chunked, gzip"), "unsupported_transfer_encoding"),
        ("identity", head("Transfer-Encoding: identity"), "unsupported_transfer_encoding"),
        ("bare LF after a size", CHUNKED + b"5\nhello\r\n", "bad_chunk_size"),
        ("control character in an extension", CHUNKED + b"5;a\x01\r\nhello\r\n", "bad_chunk_ext"),
        ("endless extension", CHUNKED + b"5;" + b"x" * MAX_CHUNK_LINE_BYTES, "line_too_big"),
        ("size of 2^63", CHUNKED + b"8000000000000000\r\n", "chunk_size_too_big"),
        ("bad trailer", CHUNKED + b"0\r\noops\r\n\r\n", "bad_trailer"),
        ("endless trailers", CHUNKED + b"0\r\n" + b"A: b\r\n" * 20_000, "header_too_big"),
        ("endless 1xx", b"HTTP/1.1 102 Processing\r\n\r\n" * 100, "header_too_big"),
    ],
)  # fmt: skip
def test_errors_by_name(what: str, data: bytes, code: str) -> None:
    parser, _, error = run([data])
    assert error == code
    assert not parser.keep_alive
    with pytest.raises(WireError):  # and it stays broken
        parser.feed(b"x")


@pytest.mark.parametrize(
    ("data", "keep_alive"),
    [
        (head("Content-Length: 0"), True),
        (head("Content-Length: 0", "Connection: keep-alive, Close"), False),
        (head("Content-Length: 5, 5") + b"hello", True),
        (CHUNKED.replace(b"\r\n\r\n", b"\r\nContent-Length: 3\r\n\r\n") + b"0\r\n\r\n", True),
    ],
)
def test_keep_alive(data: bytes, keep_alive: bool) -> None:
    parser, _, error = run([data])
    assert error is None
    assert parser.body_complete
    assert parser.keep_alive is keep_alive


def test_head_has_no_body() -> None:
    parser = ResponseParser(request_method="HEAD")
    parser.feed(head("Content-Length: 10"))
    assert (parser.framing, parser.body_complete) == ("none", True)


def test_chunk_data_is_given_before_its_chunk_is_whole() -> None:
    parser = ResponseParser()
    parser.feed(CHUNKED + b"64\r\nfirst")
    assert parser.take_body() == b"first"

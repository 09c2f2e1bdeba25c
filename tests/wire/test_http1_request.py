"""Requests: what is sent, and what is refused before it can break the framing."""

import h11
import pytest

from loadgen.wire.http1_request import build_request


def test_an_independent_parser_reads_it() -> None:
    raw = build_request("POST", "/v1/x?y=1", [("Host", "a"), ("X-Name", "v")], b'{"a":1}')
    server = h11.Connection(h11.SERVER)
    server.receive_data(raw)
    request = server.next_event()
    assert isinstance(request, h11.Request)
    assert (request.method, request.target) == (b"POST", b"/v1/x?y=1")
    assert list(request.headers) == [(b"host", b"a"), (b"x-name", b"v"), (b"content-length", b"7")]
    data = server.next_event()
    assert isinstance(data, h11.Data)
    assert bytes(data.data) == b'{"a":1}'


def test_content_length_only_where_it_says_something() -> None:
    assert b"Content-Length" not in build_request("GET", "/", [])
    assert b"Content-Length: 0\r\n" in build_request("POST", "/", [])


@pytest.mark.parametrize(
    ("method", "path", "header"),
    [
        ("PO ST", "/", ("A", "b")),
        ("GET", "x", ("A", "b")),
        ("GET", "/a b", ("A", "b")),
        ("GET", "/\u00e9", ("A", "b")),
        ("GET", "/", ("A:", "b")),
        ("GET", "/", ("", "b")),
    ],
)
def test_what_would_break_the_framing_is_refused(method: str, path: str, header: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match=r"method|path|header name"):
        build_request(method, path, [header])


@pytest.mark.parametrize("value", ["sk-secret\r\nX: y", "sk-secret\0", "sk-secret\u20ac"])
def test_a_refusal_names_the_header_and_hides_its_value(value: str) -> None:
    with pytest.raises(ValueError, match="Authorization") as error:
        build_request("GET", "/", [("Authorization", value)])
    assert "secret" not in str(error.value)

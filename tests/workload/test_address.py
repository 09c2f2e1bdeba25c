import pytest

from loadgen.workload.address import check_headers, parse_url

EXAMPLE = "http://127.0.0.1:8000/v1/chat/completions"


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("http://127.0.0.1:8000/v1/chat/completions", ("http", "127.0.0.1", 8000, "/v1/chat/completions")),
        ("http://gw.example", ("http", "gw.example", 80, "/")),
        ("https://gw.example/v1?api-version=2", ("https", "gw.example", 443, "/v1?api-version=2")),
        ("https://gw.example?x=1", ("https", "gw.example", 443, "/?x=1")),
        ("http://[::1]:8443/x", ("http", "::1", 8443, "/x")),
        ("HTTP://Gw.Example/A", ("http", "gw.example", 80, "/A")),
        ("http://vllm_1:80/", ("http", "vllm_1", 80, "/")),
        ("http://gw.example./", ("http", "gw.example.", 80, "/")),
        ("http://h/a@b", ("http", "h", 80, "/a@b")),
    ],
)
def test_urls(url: str, parts: tuple[object, ...]) -> None:
    address = parse_url(url)
    assert (address.scheme, address.host, address.port, address.path) == parts


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", f"must begin with http:// or https://, such as {EXAMPLE}, got ''"),
        ("localhost:8000/v1", f"must begin with http:// or https://, such as {EXAMPLE}, got 'localhost:8000/v1'"),
        ("gw.example", f"must begin with http:// or https://, such as {EXAMPLE}, got 'gw.example'"),
        ("ftp://h/", "must begin with http:// or https://, got 'ftp://h/'"),
        ("http://", f"has no host, such as {EXAMPLE}, got 'http://'"),
        ("http://:80/", f"has no host, such as {EXAMPLE}, got 'http://:80/'"),
        ("http://h:0/", "must have a port from 1 to 65535, got 'http://h:0/'"),
        ("http://h:65536/", "is no URL: Port out of range 0-65535, got 'http://h:65536/'"),
        ("http://h:x/", "is no URL: Port could not be cast to integer value as 'x', got 'http://h:x/'"),
        ("http://h/#a", "must not have a fragment (#...): servers never see it, got 'http://h/#a'"),
        ("http://a b/", "must be percent-encoded ASCII without spaces, got ' ' at character 9"),
        ("http://h/ä", "must be percent-encoded ASCII without spaces, got 'ä' at character 10"),
        ("http://h/\n", "must be percent-encoded ASCII without spaces, got '\\n' at character 10"),
        ("http://-h/", "has a host that is neither a name nor an address, got 'http://-h/'"),
        ("http://a..b/", "has a host that is neither a name nor an address, got 'http://a..b/'"),
        ("http://[::1/", "is no URL: Invalid IPv6 URL, got 'http://[::1/'"),
        ("http://[v1.a:b]/", "has a host in [] that is no IPv6 address, got 'http://[v1.a:b]/'"),
        ("http://[fe80::1%25eth0]/", "must not name an interface (%...), got 'http://[fe80::1%25eth0]/'"),
    ],
)
def test_no_urls(url: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_url(url)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "url",
    [
        "http://user:hunter2@h/", "http://user:hunter2@h:x/", "ftp://user:hunter2@h/", "http://h:0/?key=hunter2",
        "http://h:x/?key=hunter2", "http://hunter2@h:99999/", "user:hunter2@h", "http://h/?token=hunter2#a",
        "http://user:hunter2/x@h/", "http://user:p@hunter2:x@h/",
    ],
)  # fmt: skip
def test_messages_never_show_credentials(url: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_url(url)
    assert "hunter2" not in str(caught.value)


def test_good_headers() -> None:
    assert check_headers({"Authorization": "Bearer a b", "Host": "other.example", "X-Umlaut": "ä", "X-Empty": ""}) == []


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("x y", "a", "'x y' is no header name: letters, digits and -_. are usual"),
        ("", "a", "'' is no header name: letters, digits and -_. are usual"),
        ("Content-Length", "5", "is written by loadgen itself, from what it sends and how connections are used: leave it out"),
        (
            "transfer-encoding",
            "chunked",
            "is written by loadgen itself, from what it sends and how connections are used: leave it out",
        ),
        ("Connection", "close", "is written by loadgen itself, from what it sends and how connections are used: leave it out"),
        ("A", "hunter2\n", "ends with a line break; if it comes from a variable or a file, cut the line break off there"),
        ("A", "hunter2\r\nB: c", "must not hold CR, LF or NUL: they would end the header"),
        ("A", "hunter2\0", "must not hold CR, LF or NUL: they would end the header"),
        ("A", " hunter2", "must not begin or end with spaces"),
        ("A", "hunter2€", "must hold Latin-1 characters only, character 8 is not"),
    ],
)
def test_bad_headers(name: str, value: str, message: str) -> None:
    assert check_headers({name: value}) == [(name, message)]
    assert "hunter2" not in message


def test_a_header_given_twice() -> None:
    assert check_headers({"X-A": "1", "x-a": "2"}) == [("x-a", "is given twice: X-A is the same header")]

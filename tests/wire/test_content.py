"""Content codings: whatever can be decoded is given at once; every way to be wrong has a name."""

import gzip
import zlib

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.errors import WireError
from loadgen.wire import content
from loadgen.wire.content import content_decoder
from tests.support.cuts import cut_offsets, every_cut, pieces

TEXT = b"data: one\n\ndata: two\n\n" * 20
ENCODED = {
    "gzip": gzip.compress(TEXT),
    "x-gzip": gzip.compress(TEXT),
    "deflate": zlib.compress(TEXT),
    "br": brotli.compress(TEXT),
    "gzip, br": brotli.compress(gzip.compress(TEXT)),
    "identity, gzip": gzip.compress(TEXT),
}


def decode(encoding: str, parts: list[bytes]) -> bytes:
    decoder = content_decoder(encoding)
    assert decoder is not None
    out = b"".join(decoder.decode(part) for part in parts)
    decoder.close()
    return out


@pytest.mark.parametrize("encoding", ENCODED)
def test_every_cut(encoding: str) -> None:
    for parts in every_cut(ENCODED[encoding]):
        assert decode(encoding, parts) == TEXT


@pytest.mark.parametrize("encoding", [None, "", "identity", " identity , identity"])
def test_nothing_to_decode(encoding: str | None) -> None:
    assert content_decoder(encoding) is None


@given(st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=8), st.data())
def test_flushed_pieces_come_out_as_they_go_in(messages: list[bytes], data: st.DataObject) -> None:
    del data
    for wbits, encoding in ((31, "gzip"), (15, "deflate"), (-15, "deflate")):
        coder, decoder = zlib.compressobj(wbits=wbits), content_decoder(encoding)
        assert decoder is not None
        for message in messages:
            assert decoder.decode(coder.compress(message) + coder.flush(zlib.Z_SYNC_FLUSH)) == message
        decoder.decode(coder.flush())
        decoder.close()


def test_brotli_flushes_too() -> None:
    coder, decoder = brotli.Compressor(), content_decoder("br")
    assert decoder is not None
    for message in (b"one", b"two", b"three"):
        assert decoder.decode(coder.process(message) + coder.flush()) == message
    decoder.decode(coder.finish())
    decoder.close()


def test_members_and_padding() -> None:
    assert decode("gzip", [gzip.compress(b"a") + gzip.compress(b"b") + b"\0" * 9]) == b"ab"
    assert decode("gzip", [b""]) == b""


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br"])
@given(st.data())
def test_a_truncated_body_is_told(encoding: str, data: st.DataObject) -> None:
    whole = ENCODED[encoding]
    short = whole[: data.draw(st.integers(1, len(whole) - 1))]
    with pytest.raises(WireError) as error:
        decode(encoding, pieces(short, data.draw(cut_offsets(len(short)))))
    assert error.value.code == "truncated_encoding"


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br"])
def test_garbage_is_told(encoding: str) -> None:
    with pytest.raises(WireError) as error:
        decode(encoding, [b"\x06<html>nonsense that is no compressed body</html>" * 3])
    assert error.value.code == "bad_encoding"


def test_unknown_or_unasked() -> None:
    for encoding, accepted in (("zstd", content.ALL_ENCODINGS), ("br", frozenset({"gzip"}))):
        with pytest.raises(WireError) as error:
            content_decoder(encoding, accepted)
        assert error.value.code == "unsupported_content_encoding"


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br"])
def test_a_bomb_is_stopped(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "MAX_DECODED_BYTES", 1000)
    plain = b"\0" * 1_000_000
    packed = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress}[encoding](plain)
    with pytest.raises(WireError) as error:
        decode(encoding, [packed])
    assert error.value.code == "decoded_too_big"

"""Content encodings, decoded incrementally: whatever the bytes so far can give is given at once (RFC 9110, 8.4).

Errors: WireError unsupported_content_encoding, bad_encoding, truncated_encoding, decoded_too_big.
"""

import zlib
from collections.abc import Callable
from typing import Final, Protocol

import brotli

from loadgen.errors import WireError, shorten

MAX_DECODED_BYTES: Final = 64 << 20  # of one call: 64 MiB out of one read is a decompression bomb, not an event stream
ALL_ENCODINGS: Final = frozenset({"gzip", "x-gzip", "deflate", "br"})


class ContentDecoder(Protocol):
    def decode(self, data: bytes) -> bytes:
        """Everything that can be decoded now."""
        ...

    def close(self) -> None:
        """The body ended. Raises WireError truncated_encoding when the coding did not."""
        ...


def content_decoder(encoding: str | None, accepted: frozenset[str] = ALL_ENCODINGS) -> ContentDecoder | None:
    """A decoder for the value of a Content-Encoding header; None where there is nothing to decode."""
    codings = [c.strip().lower() for c in (encoding or "").split(",")]
    codings = [c for c in codings if c not in {"", "identity"}]
    for coding in codings:
        if coding not in accepted or coding not in ALL_ENCODINGS:
            raise WireError("unsupported_content_encoding", f"Content-Encoding {shorten(coding)} was not asked for")
    if not codings:
        return None
    decoders: list[ContentDecoder] = [_DECODERS[coding]() for coding in reversed(codings)]
    return decoders[0] if len(decoders) == 1 else _Chain(decoders)


class _Chain:
    """Codings applied in order are undone from the last to the first."""

    def __init__(self, decoders: list[ContentDecoder]) -> None:
        self._decoders = decoders

    def decode(self, data: bytes) -> bytes:
        for decoder in self._decoders:
            data = decoder.decode(data)
        return data

    def close(self) -> None:
        for decoder in self._decoders:
            decoder.close()


class _Gzip:
    """gzip, all members of it (RFC 1952, 2.2); zero bytes behind the last member are padding, as gzip(1) has it."""

    def __init__(self) -> None:
        self._member = self._new_member()
        self._begun = False  # inside a member

    def decode(self, data: bytes) -> bytes:
        out: list[bytes] = []
        room = MAX_DECODED_BYTES
        while data:
            if not self._begun:
                data = data.lstrip(b"\0")
                if not data:
                    break
                self._member = self._new_member()
                self._begun = True
            if not room:  # to zlib a bound of 0 is none
                raise WireError("decoded_too_big", f"more than {MAX_DECODED_BYTES} bytes out of one read")
            out.append(_inflate(self._member, data, room))
            room -= len(out[-1])
            data = self._member.unused_data
            self._begun = not self._member.eof
        return b"".join(out)

    def close(self) -> None:
        if self._begun:
            raise WireError("truncated_encoding", "the body ended inside the gzip data")

    @staticmethod
    def _new_member() -> "zlib._Decompress":
        return zlib.decompressobj(16 + zlib.MAX_WBITS)


class _Deflate:
    """``deflate`` is the zlib format (RFC 9110, 8.4.1.2); servers that send raw deflate are understood as well."""

    def __init__(self) -> None:
        self._head = b""
        self._inflater: zlib._Decompress | None = None

    def decode(self, data: bytes) -> bytes:
        if self._inflater is None:
            self._head += data
            if len(self._head) < 2:
                return b""
            data, self._head = self._head, b""
            zlib_format = data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0
            self._inflater = zlib.decompressobj(zlib.MAX_WBITS if zlib_format else -zlib.MAX_WBITS)
        return _inflate(self._inflater, data, MAX_DECODED_BYTES)

    def close(self) -> None:
        if self._head or (self._inflater is not None and not self._inflater.eof):
            raise WireError("truncated_encoding", "the body ended inside the deflate data")


class _Brotli:
    def __init__(self) -> None:
        self._decoder = brotli.Decompressor()
        self._begun = False

    def decode(self, data: bytes) -> bytes:
        if not data:
            return b""
        self._begun = True
        out: list[bytes] = []
        room = MAX_DECODED_BYTES
        try:
            # The limit is a hint, and what it holds back comes with the next call only: ask until nothing more comes.
            while piece := self._decoder.process(data, output_buffer_limit=room):
                out.append(piece)
                room -= len(piece)
                data = b""
                if room <= 0:
                    raise WireError("decoded_too_big", f"more than {MAX_DECODED_BYTES} bytes out of one read")
                if self._decoder.is_finished():
                    break
        except brotli.error as error:
            raise WireError("bad_encoding", f"not brotli data: {error}") from None
        return b"".join(out)

    def close(self) -> None:
        if self._begun and not self._decoder.is_finished():
            raise WireError("truncated_encoding", "the body ended inside the brotli data")


def _inflate(inflater: "zlib._Decompress", data: bytes, room: int) -> bytes:
    try:
        out = inflater.decompress(data, room)
    except zlib.error as error:
        raise WireError("bad_encoding", f"the compressed body is corrupt: {error}") from None
    if inflater.unconsumed_tail:
        raise WireError("decoded_too_big", f"more than {MAX_DECODED_BYTES} bytes out of one read")
    return out


_DECODERS: Final[dict[str, Callable[[], ContentDecoder]]] = {
    "gzip": _Gzip,
    "x-gzip": _Gzip,
    "deflate": _Deflate,
    "br": _Brotli,
}

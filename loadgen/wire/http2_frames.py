"""HTTP/2 frames cut out of a byte stream (RFC 9113, 4.1), and the few small ones that are written or read by hand.

The h2 library gives every frame its meaning, except DATA of event streams, which pays for a shortcut: one token is one DATA
frame, and h2 makes a frame object and an event of it and runs two state machines and two window managers. Frames must be cut in
any case: what the kernel's stamp says of a token depends on whether another frame came after it in the same read.
"""

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from loadgen.errors import WireError, shorten

HEAD_BYTES: Final = 9
MAX_FRAME_BYTES: Final = 16_384  # the smallest SETTINGS_MAX_FRAME_SIZE there is, which we leave as it is (6.5.2)

DATA: Final = 0x0
HEADERS: Final = 0x1
RST_STREAM: Final = 0x3
SETTINGS: Final = 0x4
PUSH_PROMISE: Final = 0x5
PING: Final = 0x6
GOAWAY: Final = 0x7
WINDOW_UPDATE: Final = 0x8
CONTINUATION: Final = 0x9

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8

_HEAD: Final = struct.Struct(">IBI")  # length (24 bits) and type (8), flags, stream
_WINDOW_UPDATE: Final = struct.Struct(">IBII")
_GOAWAY: Final = struct.Struct(">II")
_STREAM_BITS: Final = 0x7FFF_FFFF

Frame = tuple[int, int, int, bytes]  # type, flags, stream, the whole frame with its head


class ErrorCode(IntEnum):
    """RFC 9113, 7."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    INTERNAL_ERROR = 0x2
    FLOW_CONTROL_ERROR = 0x3
    SETTINGS_TIMEOUT = 0x4
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    CONNECT_ERROR = 0xA
    ENHANCE_YOUR_CALM = 0xB
    INADEQUATE_SECURITY = 0xC
    HTTP_1_1_REQUIRED = 0xD


def name_code(code: int) -> str:
    """``REFUSED_STREAM``, or ``error code 0x2a`` for what the RFC does not know."""
    return ErrorCode(code).name if code in _CODES else f"error code 0x{code:x}"


_CODES: Final = frozenset(ErrorCode)


class FrameCutter:
    """``feed`` bytes, get whole frames. ``partial``: the beginning of another one is waiting.

    ``broken`` is set once the peer announces a frame that is larger than allowed, or does not speak HTTP/2 at all; the
    frames before it are given all the same, and nothing after it. Never holds more than one frame.
    """

    __slots__ = ("_begun", "_rest", "broken")

    def __init__(self) -> None:
        self.broken: WireError | None = None
        self._rest = b""
        self._begun = False  # a frame has been seen

    @property
    def partial(self) -> bool:
        return bool(self._rest)

    def feed(self, data: bytes) -> list[Frame]:
        frames: list[Frame] = []
        if self.broken is not None:
            return frames
        if self._rest:
            data = self._rest + data
        at, end = 0, len(data)
        while end - at >= HEAD_BYTES:
            length_and_type, flags, stream = _HEAD.unpack_from(data, at)
            length = length_and_type >> 8
            if length > MAX_FRAME_BYTES or not self._begun:
                self.broken = _check_frame(data[at:], length_and_type & 0xFF, flags, begun=self._begun)
                if self.broken is not None:
                    data, at, end = b"", 0, 0
                    break
                self._begun = True
            stop = at + HEAD_BYTES + length
            if stop > end:
                break
            frames.append((length_and_type & 0xFF, flags, stream & _STREAM_BITS, data[at:stop]))
            at = stop
        self._rest = data[at:]
        return frames


def _check_frame(begins: bytes, kind: int, flags: int, *, begun: bool) -> WireError | None:
    """What is wrong with the frame that ``begins`` so. The first one must be the peer's SETTINGS (RFC 9113, 3.4)."""
    if not begun and (kind != SETTINGS or flags & ACK):
        hint = ' (it speaks HTTP/1.1: set transport.http: "1.1")' if begins.startswith(b"HTTP/1.") else ""
        return WireError("not_http2", f"expected a SETTINGS frame first, got {shorten(begins, 40)}{hint}")
    length = int.from_bytes(begins[:3])
    if length > MAX_FRAME_BYTES:
        return WireError("frame_size", f"expected frames of at most {MAX_FRAME_BYTES} bytes, got one of {length}")
    return None


def build_window_update(stream: int, increment: int) -> bytes:
    return _WINDOW_UPDATE.pack((4 << 8) | WINDOW_UPDATE, 0, stream, increment)


def build_end_of_stream(stream: int) -> bytes:
    """An empty DATA frame with END_STREAM: how h2 hears that a stream is over whose DATA went past it."""
    return _HEAD.pack(DATA, END_STREAM, stream)


class GoAway(NamedTuple):
    last_stream: int
    code: int
    debug: bytes

    @property
    def described(self) -> str:
        said = f" {shorten(self.debug, 80)}" if self.debug else ""
        return f"GOAWAY {name_code(self.code)}{said}"


def parse_goaway(frame: bytes, stream: int) -> GoAway:
    """RFC 9113, 6.8. Raises WireError."""
    if len(frame) < HEAD_BYTES + _GOAWAY.size or stream:
        raise WireError("frame_size", f"expected a GOAWAY of at least 8 bytes on stream 0, got {shorten(frame[HEAD_BYTES:])}")
    last, code = _GOAWAY.unpack_from(frame, HEAD_BYTES)
    return GoAway(last & _STREAM_BITS, code, frame[HEAD_BYTES + _GOAWAY.size :])

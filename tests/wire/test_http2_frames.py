"""Cutting frames: every cut gives the same frames, no cut holds more than one, and what is too large is refused at its head."""

from itertools import pairwise

import pytest
from hyperframe.frame import DataFrame, Frame, GoAwayFrame, SettingsFrame, WindowUpdateFrame
from hypothesis import given
from hypothesis import strategies as st

from loadgen.errors import WireError
from loadgen.wire import http2_frames as f

SETTINGS = SettingsFrame(0).serialize()
FRAMES = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 255), st.integers(0, (1 << 31) - 1), st.binary(max_size=40)), max_size=8
)


def build(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


@given(frames=FRAMES, cuts=st.lists(st.integers(0, 400), max_size=8), tail=st.binary(max_size=8))
def test_cuts_do_not_matter(frames: list[tuple[int, int, int, bytes]], cuts: list[int], tail: bytes) -> None:
    wire = SETTINGS + b"".join(build(*frame) for frame in frames) + tail
    edges = sorted({0, len(wire), *(min(cut, len(wire)) for cut in cuts)})
    cutter = f.FrameCutter()
    got = [frame for a, b in pairwise(edges) for frame in cutter.feed(wire[a:b])]
    assert got == [(4, 0, 0, SETTINGS), *((k, fl, s, build(k, fl, s, p)) for k, fl, s, p in frames)]
    assert cutter.partial is bool(tail)


def test_hyperframe_reads_the_same() -> None:
    data = DataFrame(5, b"hello", flags=("END_STREAM",)).serialize()
    (_, (kind, flags, stream, raw)) = f.FrameCutter().feed(SETTINGS + data)
    theirs, _ = Frame.parse_frame_header(memoryview(raw[:9]))
    assert (kind, flags, stream) == (theirs.type, f.END_STREAM, theirs.stream_id)


@pytest.mark.parametrize(
    ("first", "message"),
    [
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            r"not_http2: expected a SETTINGS frame first, got 'HTTP/1.1 400.*\(it speaks HTTP/1.1",
        ),
        (b"SSH-2.0-OpenSSH_9.2\r\n", r"not_http2: .* got 'SSH-2.0"),
        (build(6, 0, 0, b"12345678"), "not_http2"),
        (build(4, 1, 0, b""), "not_http2"),
        ((20_000).to_bytes(3) + b"\x04\0\0\0\0\0", "frame_size: expected frames of at most 16384 bytes, got one of 20000"),
    ],
)  # fmt: skip
def test_what_is_no_http2(first: bytes, message: str) -> None:
    cutter = f.FrameCutter()
    assert cutter.feed(first) == []
    assert cutter.broken is not None
    with pytest.raises(WireError, match=message):
        raise cutter.broken
    assert cutter.feed(SETTINGS) == []


def test_an_oversized_frame_is_refused_at_its_head_and_what_came_before_counts() -> None:
    cutter = f.FrameCutter()
    assert len(cutter.feed(SETTINGS + (16_385).to_bytes(3) + b"\0\0\0\0\0\1")) == 1
    assert cutter.broken is not None
    assert cutter.broken.code == "frame_size"
    largest = f.FrameCutter()
    assert len(largest.feed(SETTINGS + build(0, 0, 1, bytes(16_384)))) == 2


def test_written_frames_are_what_hyperframe_reads() -> None:
    update, length = Frame.parse_frame_header(memoryview(f.build_window_update(7, 70_000)[:9]))
    update.parse_body(memoryview(f.build_window_update(7, 70_000)[9:]))
    assert isinstance(update, WindowUpdateFrame)
    assert (update.stream_id, update.window_increment, length) == (7, 70_000, 4)
    end, length = Frame.parse_frame_header(memoryview(f.build_end_of_stream(9)))
    assert (end.stream_id, "END_STREAM" in end.flags, length) == (9, True, 0)


def test_goaway() -> None:
    raw = GoAwayFrame(0, last_stream_id=7, error_code=11, additional_data=b"too many pings").serialize()
    goaway = f.parse_goaway(raw, 0)
    assert (goaway.last_stream, goaway.described) == (7, "GOAWAY ENHANCE_YOUR_CALM 'too many pings'")
    for bad, stream in ((raw, 1), (raw[:16], 0)):
        with pytest.raises(WireError, match="frame_size"):
            f.parse_goaway(bad, stream)


def test_codes_have_names() -> None:
    assert f.name_code(0x7) == "REFUSED_STREAM"
    assert f.name_code(0x2A) == "error code 0x2a"

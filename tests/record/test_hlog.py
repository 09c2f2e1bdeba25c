"""The interval log: read back by hdrh's own reader, by a strict pattern of the format, and by ours."""

import re
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from loadgen.record.hdr import DIGITS, HIGHEST_NS, LOWEST_NS, Hdr
from loadgen.record.hlog import HlogWriter, read_blocks, read_hlog

STARTED_NS = 1_754_470_000_123_000_000

# The grammar of the format's own documentation (HistogramLogWriter), tags included.
STRICT = re.compile(
    r"#\[Histogram log format version 1\.[0-9]\]\n"
    r"#\[StartTime: \d+\.\d{3} \(seconds since epoch\), [^\]\n]+\]\n"
    r'"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"\n'
    r"(?:Tag=[^,\s]+,\d+\.\d{3},\d+\.\d{3},\d+\.\d{3},HIST[A-Za-z0-9+/]+=*\n)*"
)


def hdr_of(*values: int) -> Hdr:
    hdr = Hdr()
    hdr.record_many(values)
    return hdr


def write(path: Path, *lines: tuple[str, float, float, Hdr]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        log = HlogWriter(file, STARTED_NS)
        for line in lines:
            log.write(*line)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "histograms.hlog"
    write(
        path,
        ("ttft", 0.0, 1.0, hdr_of(250_000_000, 300_000_000)),
        ("nginx.itl", 0.0, 1.0, hdr_of(20_000_000)),
        ("ttft", 1.0, 1.004, hdr_of(512_345_678)),
    )
    return path


def test_the_format_is_strict(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert STRICT.fullmatch(text), text
    assert text.splitlines()[-1].startswith("Tag=ttft,1.000,1.004,512.346,HIST")


def test_the_packaged_reader_sees_the_same(path: Path) -> None:
    reader = HistogramLogReader(str(path), HdrHistogram(LOWEST_NS, HIGHEST_NS, DIGITS))
    found = []
    while (interval := reader.get_next_interval_histogram()) is not None:
        found.append((interval.get_tag(), interval.get_start_time_stamp(), interval.get_end_time_stamp(), interval))
    reader.close()
    started_ms = STARTED_NS / 1e6
    assert [(tag, start, end) for tag, start, end, _ in found] == [
        ("ttft", pytest.approx(started_ms), pytest.approx(started_ms + 1000)),
        ("nginx.itl", pytest.approx(started_ms), pytest.approx(started_ms + 1000)),
        ("ttft", pytest.approx(started_ms + 1000), pytest.approx(started_ms + 2004)),
    ]
    assert [interval.get_total_count() for *_, interval in found] == [2, 1, 1]
    assert found[2][3].get_max_value() == pytest.approx(512_345_678, rel=1e-3)


def test_its_start_time_is_the_runs(path: Path) -> None:
    reader = HistogramLogReader(str(path), HdrHistogram(LOWEST_NS, HIGHEST_NS, DIGITS))
    reader.get_next_interval_histogram()
    reader.close()
    assert reader.get_start_time_sec() == 1_754_470_000.123
    assert "BaseTime" not in path.read_text(encoding="utf-8")


def test_reading_back_adds_up_each_tag(path: Path) -> None:
    found = read_hlog(path)
    assert {tag: hdr.count for tag, hdr in found.items()} == {"ttft": 3, "nginx.itl": 1}
    assert found["ttft"].counts.tolist() == hdr_of(250_000_000, 300_000_000, 512_345_678).counts.tolist()


def test_a_line_cut_anywhere_is_left_out(path: Path) -> None:
    whole = path.read_bytes()
    begin = whole.rindex(b"Tag=")
    for cut in range(begin, len(whole) - 1):
        path.write_bytes(whole[:cut])
        assert read_hlog(path)["ttft"].count == 2
    path.write_bytes(whole[:-1])  # only the line end is missing
    assert read_hlog(path)["ttft"].count == 3


def test_a_damaged_line_in_the_middle_is_an_error_with_its_place(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    lines[4] = lines[4][:40] + "\n"
    path.write_text("".join(lines), encoding="utf-8")
    with pytest.raises(ValueError, match=r"histograms\.hlog:5: "):
        read_hlog(path)


def test_lines_of_other_writers_without_a_tag(path: Path) -> None:
    path.write_text(f"0.127,1.007,2.769,{hdr_of(7).encode()}\n", encoding="utf-8")
    assert read_hlog(path)[""].count == 1


def test_an_empty_interval_is_not_written(path: Path) -> None:
    write(path, ("ttft", 0.0, 1.0, Hdr()))
    assert len(path.read_text(encoding="utf-8").splitlines()) == 3


def test_each_line_is_on_its_way_at_once(tmp_path: Path) -> None:
    path = tmp_path / "live.hlog"
    with path.open("w", encoding="utf-8") as file:
        log = HlogWriter(file, STARTED_NS)
        log.write("ttft", 0.0, 1.0, hdr_of(5))
        assert read_hlog(path)["ttft"].count == 1


@pytest.mark.parametrize("tag", ["", "a b", "a,b", "a\n"])
def test_tags_that_would_break_the_format_are_refused(tmp_path: Path, tag: str) -> None:
    with pytest.raises(ValueError, match="tag"):
        write(tmp_path / "x.hlog", (tag, 0.0, 1.0, hdr_of(5)))


def test_blocks_are_one_tags_intervals_and_neighbours_where_there_are_too_many(tmp_path: Path) -> None:
    path = tmp_path / "x.hlog"
    lines = [(tag, float(second), 1.0, hdr_of(second + 1)) for second in range(7) for tag in ("itl", "ttft")]
    write(path, *lines)
    assert [(block.min, block.count) for block in read_blocks(path, "itl", most=10)] == [(n, 1) for n in range(1, 8)]
    assert [(b.min, b.max, b.count) for b in read_blocks(path, "itl", most=3)] == [(1, 3, 3), (4, 6, 3), (7, 7, 1)]
    assert read_blocks(path, "tls", most=3) == []
    path.write_text(path.read_text() + "Tag=itl,7.000,1.0")  # killed
    assert len(read_blocks(path, "itl", most=10)) == 7
    path.write_text(path.read_text() + "\n")
    with pytest.raises(ValueError, match=r":18: expected "):
        read_blocks(path, "itl", most=10)

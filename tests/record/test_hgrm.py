"""The percentile distribution against the one that hdrh writes."""

import io
import statistics

import numpy as np
import pytest

from loadgen.clock import NS_PER_MS
from loadgen.record.hdr import Hdr
from loadgen.record.hgrm import write_hgrm


def hdr_of(values: list[int]) -> Hdr:
    hdr = Hdr()
    hdr.record_many(values)
    return hdr


def rows_of(text: str) -> list[list[float]]:
    lines = text.splitlines()[2:]
    return [[float(word) for word in line.split()] for line in lines if not line.startswith("#")]


def written(hdr: Hdr) -> str:
    file = io.StringIO()
    write_hgrm(file, hdr)
    return file.getvalue()


SAMPLES = {
    "one": [250 * NS_PER_MS],
    "two": [1 * NS_PER_MS, 900 * NS_PER_MS],
    "equal": [20 * NS_PER_MS] * 500,
    "lognormal": np.random.default_rng(3).lognormal(17, 1, 3_000).astype(np.int64).tolist(),
    "zeros": [0] * 90 + [NS_PER_MS] * 10,
}


@pytest.mark.parametrize("name", SAMPLES)
def test_rows_are_those_of_hdrh(name: str) -> None:
    values = SAMPLES[name]
    hdr, theirs = hdr_of(values), io.BytesIO()
    hdr.to_hdrh().output_percentile_distribution(theirs, NS_PER_MS)
    expected = rows_of(theirs.getvalue().decode())
    got = rows_of(written(hdr))
    assert len(got) == len(expected)
    for mine, other in zip(got, expected, strict=True):
        assert mine[1:] == other[1:]
        assert mine[0] == pytest.approx(min(other[0], max(values) / NS_PER_MS), abs=0.0006)


def test_the_last_row_is_the_exact_maximum() -> None:
    values = SAMPLES["lognormal"]
    last = rows_of(written(hdr_of(values)))[-1]
    assert last == [round(max(values) / NS_PER_MS, 6), 1.0, len(values)]


def test_the_summary_lines_are_exact_and_in_milliseconds() -> None:
    values = [10 * NS_PER_MS, 20 * NS_PER_MS, 60 * NS_PER_MS]
    tail = written(hdr_of(values)).splitlines()[-3:]
    deviation = statistics.pstdev(v / NS_PER_MS for v in values)
    assert tail[0].startswith("#[Mean    =    30.000000, StdDeviation   = ")
    assert float(tail[0].split("=")[2].rstrip("]")) == pytest.approx(deviation, rel=1e-3)
    assert tail[1] == "#[Max     =    60.000000, Total count    =            3]"
    assert tail[2] == "#[Buckets =           32, SubBuckets     =         2048]"


def test_an_empty_one_has_no_rows_and_says_so() -> None:
    text = written(Hdr())
    assert rows_of(text) == []
    assert "Total count    =            0]" in text

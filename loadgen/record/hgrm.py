"""The classic percentile distribution (``<metric>.hgrm``), as HdrHistogram plotters read it. Values in milliseconds.

The rows are those of hdrh's ``output_percentile_distribution`` (Java's ``outputPercentileDistribution``, 5 ticks per
half distance), with two differences: mean and max are exact and the deviation is in the unit of the rows (hdrh takes
the mean of buckets and leaves the deviation unscaled), and no value exceeds the exact maximum. Six decimals show ns.
"""

import math
from collections.abc import Iterator
from typing import Any, Final, TextIO

import numpy as np

from loadgen.clock import NS_PER_MS
from loadgen.record.hdr import Hdr

TICKS_PER_HALF_DISTANCE: Final = 5  # the default of every implementation


def write_hgrm(file: TextIO, hdr: Hdr) -> None:
    """Write the distribution of ``hdr`` (ns). An empty one has no rows and a total count of 0."""
    layout = hdr.to_hdrh()
    file.write(f"{'Value':>12} {'Percentile':>14} {'TotalCount':>10} {'1/(1-Percentile)':>14}\n\n")
    for value, percent, reached in _rows(hdr, layout):
        share = percent / 100
        row = f"{value / NS_PER_MS:12.6f} {share:2.12f} {reached:10d}"
        file.write(f"{row} {1 / (1 - share):14.2f}\n" if percent < 100 else f"{row}\n")
    deviation = _deviation(hdr, layout) if hdr.count else 0.0
    file.write(
        f"#[Mean    = {hdr.mean / NS_PER_MS:12.6f}, StdDeviation   = {deviation / NS_PER_MS:12.6f}]\n"
        f"#[Max     = {hdr.max / NS_PER_MS:12.6f}, Total count    = {hdr.count:12d}]\n"
        f"#[Buckets = {layout.bucket_count:12d}, SubBuckets     = {layout.sub_bucket_count:12d}]\n"
    )


def _rows(hdr: Hdr, layout: Any) -> Iterator[tuple[int, float, int]]:
    """(value in ns, percentile in percent, count up to that value); the levels close in on 100."""
    if not hdr.count:
        return
    below = np.cumsum(hdr.counts)
    percent, reached, value = 0.0, 0, 0
    while reached < hdr.count:
        index = int(np.argmax((below * 100.0 / hdr.count >= percent) & (below > 0)))
        reached = int(below[index])
        value = min(layout.get_highest_equivalent_value(layout.get_value_from_index(index)), hdr.max)
        yield value, percent, reached
        half_distance = math.pow(2, math.log2(100 / (100 - percent)) + 1)
        percent += 100 / (TICKS_PER_HALF_DISTANCE * half_distance)
    yield value, 100.0, reached


def _deviation(hdr: Hdr, layout: Any) -> float:
    """Standard deviation in ns, each value taken as the middle of its bucket."""
    filled = np.flatnonzero(hdr.counts)
    lows = [layout.get_value_from_index(int(index)) for index in filled]
    middles = np.array([(low + layout.get_highest_equivalent_value(low)) / 2 for low in lows])
    return math.sqrt(float((hdr.counts[filled] * (middles - hdr.mean) ** 2).sum()) / hdr.count)

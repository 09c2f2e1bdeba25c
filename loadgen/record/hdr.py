"""HDR histograms of nanoseconds, filled in batches.

The counts have exactly hdrhistogram's layout (lowest 1 ns, highest 1 h, 3 digits), so they encode, merge and read like any
other HDR histogram; only the filling is ours: numpy buckets a batch at about 30 ns a value where ``record_value`` takes 592,
bucket for bucket equal (tested). Out-of-range values are clamped and counted, never lost; min, max and sum stay exact.
"""

import binascii
import math
import zlib
from array import array
from collections.abc import Iterable, Sequence
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
from hdrh.codec import HdrCookieException, HdrLengthException
from hdrh.histogram import HdrHistogram

LOWEST_NS: Final = 1
HIGHEST_NS: Final = 3_600_000_000_000
DIGITS: Final = 3
_HALF_BITS: Final = 10  # sub-bucket half count 1,024 for 3 digits
_COUNTS: Final = 33_792

Counts = npt.NDArray[np.int64]


class Hdr:
    """``count``, ``min``, ``max`` and ``total`` (sum) are exact; percentiles are within 1/1,000 of the true value."""

    __slots__ = ("clamped", "count", "counts", "max", "min", "total")

    def __init__(self) -> None:
        self.counts: Counts = np.zeros(_COUNTS, dtype=np.int64)
        self.count = 0
        self.total = 0
        self.min = 0
        self.max = 0
        self.clamped = 0

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0

    def record(self, value_ns: int) -> None:
        """Add one value in ns. About 1 us; a batch of one through ``record_many`` takes 35."""
        value = value_ns if value_ns == 0 else min(max(value_ns, LOWEST_NS), HIGHEST_NS)
        self.clamped += value != value_ns
        bucket = max(value.bit_length() - (_HALF_BITS + 1), 0)
        self.counts[((bucket + 1) << _HALF_BITS) + (value >> bucket) - (1 << _HALF_BITS)] += 1
        self.min = min(self.min, value) if self.count else value
        self.max = max(self.max, value)
        self.count += 1
        self.total += value

    def record_many(self, values: "Sequence[int] | array[int] | npt.NDArray[np.int64]") -> None:
        """Add a batch of values in ns. An ``array('q')`` is read in place."""
        batch = np.frombuffer(values, dtype=np.int64) if isinstance(values, array) and values else np.asarray(values)
        if not batch.size:
            return
        batch = batch.astype(np.int64, copy=False)
        clipped = np.clip(batch, LOWEST_NS, HIGHEST_NS)
        # Zero is below what the layout calls trackable but has a bucket of its own: gaps within one read are zero.
        clipped = np.where(batch == 0, 0, clipped)
        self.clamped += int(np.count_nonzero(clipped != batch))
        self.counts += np.bincount(_indexes(clipped), minlength=_COUNTS)
        low, high = int(clipped.min()), int(clipped.max())
        self.min = min(self.min, low) if self.count else low
        self.max = max(self.max, high)
        self.count += int(clipped.size)
        self.total += int(clipped.sum())

    def add(self, other: "Hdr") -> None:
        """Merge another histogram into this one: the same as having recorded its values here."""
        if not other.count:
            return
        self.counts += other.counts
        self.min = min(self.min, other.min) if self.count else other.min
        self.max = max(self.max, other.max)
        self.count += other.count
        self.total += other.total
        self.clamped += other.clamped

    def percentile(self, q: float) -> int:
        """The value at quantile ``q`` (0 to 1), ns: the highest of its bucket, but never outside the exact [min, max]."""
        return self.percentiles((q,))[0]

    def percentiles(self, qs: Iterable[float]) -> list[int]:
        """Several at once for little more than one. All zeros for an empty histogram."""
        cumulative = np.cumsum(self.counts)
        found = []
        for q in qs:
            rank = min(max(math.ceil(q * self.count), 1), self.count)
            index = int(np.searchsorted(cumulative, rank)) if self.count else 0
            value = self.min if q <= 0 else _highest_equivalent(index)
            found.append(min(max(value, self.min), self.max))
        return found

    def count_above(self, value_ns: float) -> int:
        """How many values lie in buckets above that of ``value_ns``."""
        clipped = np.clip(np.array([round(value_ns)], dtype=np.int64), LOWEST_NS, HIGHEST_NS)
        return int(self.counts[int(_indexes(clipped)[0]) + 1 :].sum())

    def counts_up_to(self, bounds_ns: Sequence[int]) -> list[int]:
        """How many values are no greater than each bound, or in its bucket: coarser histograms are made of these."""
        indexes = _indexes(np.clip(np.array(bounds_ns, dtype=np.int64), 0, HIGHEST_NS))
        found: list[int] = np.cumsum(self.counts)[indexes].tolist()
        return found

    def buckets(self) -> tuple[Counts, Counts]:
        """The filled buckets in ascending order: the highest value (ns) of each, within [min, max], and its count."""
        filled = np.flatnonzero(self.counts)
        highest = np.array([_highest_equivalent(int(index)) for index in filled], dtype=np.int64)
        return np.clip(highest, self.min, self.max), self.counts[filled]

    def to_hdrh(self) -> Any:
        """A ``hdrh.histogram.HdrHistogram`` with the same content."""
        return self._copy_to(HdrHistogram(LOWEST_NS, HIGHEST_NS, DIGITS))

    def _copy_to(self, histogram: Any) -> Any:
        np.frombuffer(histogram.counts, dtype=np.int64)[:] = self.counts
        histogram.total_count = self.count
        histogram.min_value, histogram.max_value = (self.min, self.max) if self.count else _EMPTY_RANGE
        return histogram

    def encode(self) -> str:
        """V2 compressed, base64: what a .hlog line carries."""
        return str(self._copy_to(_SCRATCH).encode().decode("ascii"))

    def __reduce__(self) -> tuple[Any, ...]:
        """Only the filled counters travel between processes."""
        filled = np.flatnonzero(self.counts)
        state = (filled.astype(np.uint16), self.counts[filled], self.count, self.total, self.min, self.max, self.clamped)
        return _rebuild, state

    @classmethod
    def decode(cls, payload: str) -> Self:
        """From ``encode``; min, max and sum are then as good as the buckets. Raises ValueError on anything else."""
        try:
            histogram = HdrHistogram.decode(payload.encode("ascii"))
        except (binascii.Error, zlib.error, UnicodeEncodeError, HdrLengthException, HdrCookieException) as error:
            raise ValueError(f"no HDR histogram: {error}") from None
        if histogram.counts_len != _COUNTS:
            raise ValueError(f"an HDR histogram of another layout: {histogram.counts_len} counters")
        made = cls()
        made.counts[:] = np.frombuffer(histogram.counts, dtype=np.int64)
        made.count = int(made.counts.sum())
        filled = np.flatnonzero(made.counts)
        if filled.size:
            made.min, made.max = _lowest_equivalent(int(filled[0])), _highest_equivalent(int(filled[-1]))
            made.total = sum(int(made.counts[i]) * _middle(int(i)) for i in filled)
        return made


_SCRATCH: Final = HdrHistogram(LOWEST_NS, HIGHEST_NS, DIGITS)  # making one takes longer than encoding it
_EMPTY_RANGE: Final = _SCRATCH.min_value, _SCRATCH.max_value


def _rebuild(filled: npt.NDArray[np.uint16], values: Counts, *rest: int) -> Hdr:
    hdr = Hdr()
    hdr.counts[filled] = values
    hdr.count, hdr.total, hdr.min, hdr.max, hdr.clamped = rest
    return hdr


def _indexes(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The counter of each value: HdrHistogram's bucket and sub-bucket arithmetic. Values are below 2^53."""
    bits = np.frexp(values.astype(np.float64))[1].astype(np.int64)  # bit length
    bucket = np.maximum(bits - (_HALF_BITS + 1), 0)
    return ((bucket + 1) << _HALF_BITS) + (values >> bucket) - (1 << _HALF_BITS)


def _lowest_equivalent(index: int) -> int:
    bucket = (index >> _HALF_BITS) - 1
    sub = (index & ((1 << _HALF_BITS) - 1)) + (1 << _HALF_BITS)
    return sub - (1 << _HALF_BITS) if bucket < 0 else sub << bucket


def _highest_equivalent(index: int) -> int:
    bucket = max((index >> _HALF_BITS) - 1, 0)
    return _lowest_equivalent(index) + (1 << bucket) - 1


def _middle(index: int) -> int:
    return (_lowest_equivalent(index) + _highest_equivalent(index) + 1) // 2

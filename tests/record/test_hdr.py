"""The histogram against hdrh's own recording and against sorted lists."""

import math
import pickle
from array import array

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.record.hdr import DIGITS, HIGHEST_NS, LOWEST_NS, Hdr

EDGES = sorted({0, 1, HIGHEST_NS, *(2**k + d for k in range(1, 42) for d in (-1, 0, 1) if 2**k + d <= HIGHEST_NS)})
latencies = st.floats(0, 28).map(lambda x: min(int(math.exp(x)), HIGHEST_NS))  # evenly over all magnitudes
values = st.lists(latencies | st.sampled_from(EDGES) | st.integers(0, HIGHEST_NS), min_size=1, max_size=60)


def hdr_of(numbers: list[int]) -> Hdr:
    hdr = Hdr()
    hdr.record_many(array("q", numbers))
    return hdr


def state(hdr: Hdr) -> tuple[object, ...]:
    return hdr.counts.tobytes(), hdr.count, hdr.total, hdr.min, hdr.max, hdr.clamped


def recorded_by_hdrh(numbers: list[int]) -> HdrHistogram:
    other = HdrHistogram(LOWEST_NS, HIGHEST_NS, DIGITS)
    assert all(other.record_value(number) for number in numbers)
    return other


@settings(max_examples=60, deadline=None)
@given(values)
def test_every_bucket_is_that_of_hdrh(numbers: list[int]) -> None:
    hdr, other = hdr_of(numbers), recorded_by_hdrh(numbers)
    assert np.array_equal(hdr.counts, np.frombuffer(other.counts, dtype=np.int64))
    assert (hdr.count, hdr.min, hdr.max, hdr.total) == (len(numbers), min(numbers), max(numbers), sum(numbers))
    assert not hdr.clamped


def test_all_edges_and_a_lognormal_batch_fall_into_hdrhs_buckets() -> None:
    lognormal = np.random.default_rng(7).lognormal(17, 1.5, 5_000).astype(np.int64).tolist()
    numbers = [*EDGES, *lognormal]
    assert np.array_equal(hdr_of(numbers).counts, np.frombuffer(recorded_by_hdrh(numbers).counts, dtype=np.int64))


@settings(max_examples=60, deadline=None)
@given(values, st.sampled_from([0.0, 0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0]))
def test_a_percentile_is_the_nearest_rank_within_a_thousandth(numbers: list[int], q: float) -> None:
    rank = max(math.ceil(round(q * 1000) * len(numbers) / 1000), 1)
    exact = sorted(numbers)[rank - 1]
    found = hdr_of(numbers).percentile(q)
    assert exact <= found <= exact * 1.001 + 0.5
    assert min(numbers) <= found <= max(numbers)


@given(st.integers(0, HIGHEST_NS), st.integers(1, 50))
@settings(max_examples=30, deadline=None)
def test_equal_values_come_back_exactly(value: int, times: int) -> None:
    hdr = hdr_of([value] * times)
    assert hdr.percentiles((0, 0.5, 0.99, 1)) == [value] * 4
    assert hdr.mean == value


@settings(max_examples=40, deadline=None)
@given(st.lists(values, min_size=1, max_size=4))
def test_merging_parts_equals_recording_all(parts: list[list[int]]) -> None:
    merged = Hdr()
    for part in parts:
        merged.add(hdr_of(part))
    merged.add(Hdr())
    assert state(merged) == state(hdr_of([number for part in parts for number in part]))


@settings(max_examples=30, deadline=None)
@given(values)
def test_one_by_one_equals_a_batch(numbers: list[int]) -> None:
    hdr = Hdr()
    for number in numbers:
        hdr.record(number)
    assert state(hdr) == state(hdr_of(numbers))


@settings(max_examples=40, deadline=None)
@given(values)
def test_encoding_keeps_every_count(numbers: list[int]) -> None:
    hdr = hdr_of(numbers)
    back = Hdr.decode(hdr.encode())
    assert np.array_equal(back.counts, hdr.counts)
    assert back.count == hdr.count
    assert back.min <= hdr.min <= back.min * 1.001 + 1
    assert hdr.max <= back.max <= hdr.max * 1.001 + 1
    assert back.mean == pytest.approx(hdr.mean, rel=1e-3, abs=1)


def test_an_encoded_histogram_is_read_by_hdrh() -> None:
    other = HdrHistogram.decode(hdr_of([1_000, 2_000_000, 3_000_000_000]).encode())
    assert other.get_total_count() == 3
    assert other.get_value_at_percentile(100) == pytest.approx(3_000_000_000, rel=1e-3)


def test_an_empty_histogram_encodes_too() -> None:
    assert state(Hdr.decode(Hdr().encode())) == state(Hdr())


def test_values_out_of_range_are_clamped_and_counted() -> None:
    hdr = hdr_of([-5, 10, HIGHEST_NS + 1])
    assert hdr.clamped == 2
    assert hdr.count == 3
    assert hdr.max == HIGHEST_NS
    assert hdr.min in {0, LOWEST_NS}


def test_zero_is_a_value() -> None:
    """Events that share one read have gaps of zero."""
    hdr = hdr_of([0, 0])
    assert (hdr.count, hdr.clamped, hdr.min, hdr.max, hdr.percentile(0.99)) == (2, 0, 0, 0, 0)


def test_an_array_can_be_cleared_after_recording() -> None:
    numbers = array("q", [1, 2, 3])
    hdr = Hdr()
    hdr.record_many(numbers)
    del numbers[:]  # BufferError if the histogram still held its memory
    hdr.record_many(numbers)
    assert hdr.count == 3


@pytest.mark.parametrize("cut", [0, 1, 10, -3])
def test_a_damaged_payload_is_a_value_error(cut: int) -> None:
    with pytest.raises(ValueError):
        Hdr.decode(hdr_of([5, 500_000]).encode()[:cut])


def test_another_layout_is_refused() -> None:
    other = HdrHistogram(1, 60_000, 2)
    other.record_value(7)
    with pytest.raises(ValueError, match="layout"):
        Hdr.decode(other.encode().decode())


def test_it_travels_between_processes() -> None:
    hdr = hdr_of([1, 2_000, 3_000_000])
    assert state(pickle.loads(pickle.dumps(hdr))) == state(hdr)


@given(st.lists(st.integers(-5, 2 * HIGHEST_NS), max_size=20))
def test_one_by_one_is_the_same_as_a_batch(values: list[int]) -> None:
    one, many = Hdr(), Hdr()
    for value in values:
        one.record(value)
    many.record_many(values)
    assert (one.counts == many.counts).all()
    for name in ("count", "total", "min", "max", "clamped"):
        assert getattr(one, name) == getattr(many, name)


@given(st.lists(st.integers(0, HIGHEST_NS), max_size=50), st.lists(st.integers(0, HIGHEST_NS), min_size=1, max_size=5))
def test_counts_up_to_a_bound_are_right_but_for_the_bounds_own_bucket(values: list[int], bounds: list[int]) -> None:
    hdr = Hdr()
    hdr.record_many(values)
    for bound, count in zip(bounds, hdr.counts_up_to(bounds), strict=True):
        assert sum(value <= bound for value in values) <= count <= sum(value <= bound * 1.001 + 1 for value in values)


@given(st.lists(st.integers(0, HIGHEST_NS), max_size=50))
def test_buckets_hold_every_value_within_its_bucket(values: list[int]) -> None:
    hdr = Hdr()
    hdr.record_many(values)
    highest, counts = hdr.buckets()
    assert highest.tolist() == sorted(set(highest.tolist()))
    again = np.repeat(highest, counts).tolist()
    assert len(again) == len(values)
    for found, value in zip(again, sorted(values), strict=True):
        assert value <= found <= value * 1.001 + 1

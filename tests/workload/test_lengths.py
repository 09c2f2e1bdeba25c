from collections import Counter
from random import Random

import pytest

from loadgen.workload.lengths import Fixed, Uniform, parse_length


@pytest.mark.parametrize(
    ("value", "length"),
    [(1, Fixed(1)), (512, Fixed(512)), ({"uniform": [16, 512]}, Uniform(16, 512)), ({"uniform": [5, 5]}, Uniform(5, 5))],
)
def test_lengths(value: object, length: object) -> None:
    found = parse_length(value)
    assert found == length
    assert found.written() == value
    assert parse_length(found) is found


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0, "must be at least 1, got 0"),
        (-3, "must be at least 1, got -3"),
        (True, "must be a whole number or {uniform: [low, high]}, got 'True'"),
        ("5", "must be a whole number or {uniform: [low, high]}, got '5'"),
        (1.5, "must be a whole number or {uniform: [low, high]}, got '1.5'"),
        (None, "must be a whole number or {uniform: [low, high]}, got 'None'"),
        ({}, "must be a whole number or {uniform: [low, high]}, got '{}'"),
        ({"normal": [1, 2]}, "must be a whole number or {uniform: [low, high]}, got \"{'normal': [1, 2]}\""),
        ({"uniform": 5}, "uniform must be two whole numbers [low, high], got '5'"),
        ({"uniform": [5]}, "uniform must be two whole numbers [low, high], got '[5]'"),
        ({"uniform": [1, True]}, "uniform must be two whole numbers [low, high], got '[1, True]'"),
        ({"uniform": [0, 5]}, "must be at least 1, got 0"),
        ({"uniform": [9, 5]}, "uniform must be [low, high] with low <= high, got [9, 5]"),
    ],
)
def test_no_lengths(value: object, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_length(value)
    assert str(caught.value) == message


def test_uniform_gives_both_ends_and_all_between() -> None:
    rng = Random(1)
    counts = Counter(Uniform(3, 6).pick(rng) for _ in range(4_000))
    assert set(counts) == {3, 4, 5, 6}
    assert min(counts.values()) > 850  # 1,000 expected, standard deviation 27


def test_fixed_draws_nothing() -> None:
    rng = Random(1)
    before = rng.getstate()
    assert Fixed(7).pick(rng) == 7
    assert rng.getstate() == before

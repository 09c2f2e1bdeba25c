"""The drawn distributions are those of drawing the units again one by one."""

from collections.abc import Callable

import numpy as np
import pytest

from loadgen.record.bootstrap import Floats, draw_pooled_quantile, draw_quantile, draw_ratio, draw_share, pool, rank_of
from loadgen.record.hdr import Hdr

QS = (0.025, 0.25, 0.5, 0.75, 0.975)


def again(count: int, figure: Callable[[np.ndarray], float], draws: int = 4_000) -> Floats:
    """The bootstrap as everybody writes it: resample, work out the figure, again and again."""
    rng = np.random.default_rng(1)
    return np.array([figure(rng.integers(0, count, count)) for _ in range(draws)])


@pytest.mark.parametrize("q", [0.5, 0.9, 0.97])
def test_a_quantile_of_a_resample_but_for_a_rank(q: float) -> None:
    """Of the values 0, 1, 2, ..., which are ranks; the two differ by one rank at most, and by the draws' own noise."""
    ordered = np.arange(400.0)
    expected = again(400, lambda chosen: float(np.sort(ordered[chosen])[rank_of(q, 400)]))
    drawn = draw_quantile(ordered, q, np.random.default_rng(2))
    assert np.quantile(drawn, QS) == pytest.approx(np.quantile(expected, QS), abs=1 + 0.1 * expected.std())
    assert drawn.std() == pytest.approx(expected.std(), rel=0.08)
    assert set(drawn) <= set(ordered)


@pytest.mark.slow
def test_a_quantile_of_pooled_blocks_drawn_again() -> None:
    rng = np.random.default_rng(3)
    gaps = [rng.gamma(4, 1e6, 300) + level for level in rng.normal(20e6, 1e6, 30)]
    blocks = []
    for block in gaps:
        hdr = Hdr()
        hdr.record_many(block.astype(np.int64))
        blocks.append(hdr)
    for q in (0.5, 0.99):
        expected = again(30, lambda chosen, q=q: float(np.quantile(np.concatenate([gaps[i] for i in chosen]), q)), 1_000)
        drawn = draw_pooled_quantile(*pool(blocks), q, np.random.default_rng(4))
        assert np.quantile(drawn, QS) == pytest.approx(np.quantile(expected, QS), abs=0.3 * expected.std())


def test_pooling_loses_nothing() -> None:
    blocks = [Hdr(), Hdr(), Hdr()]
    blocks[0].record_many([1, 5_000_000, 5_000_000])
    blocks[1].record_many([5_000_000, 70_123_456])
    values, up_to = pool(blocks)
    assert values.size == 3
    assert values == pytest.approx([1, 5_000_000, 70_123_456], rel=1e-3)
    assert up_to.tolist() == [[1, 3, 3], [0, 1, 2], [0, 0, 0]]


def test_a_ratio_of_blocks_drawn_again() -> None:
    rng = np.random.default_rng(5)
    tops, bottoms = rng.poisson(800, 25).astype(float), rng.uniform(0.9, 1.1, 25)
    expected = again(25, lambda chosen: float(tops[chosen].sum() / bottoms[chosen].sum()))
    drawn = draw_ratio(tops, bottoms, np.random.default_rng(6))
    assert drawn.mean() == pytest.approx(tops.sum() / bottoms.sum(), rel=1e-3)
    assert drawn.std() == pytest.approx(expected.std() * (25 / 24) ** 0.5, rel=0.06)


@pytest.mark.parametrize(
    ("hits", "count", "low", "high"), [(0, 100, 0.0, 0.025), (50, 100, 0.403, 0.597), (100, 100, 0.975, 1.0)]
)
def test_a_share_is_never_known_to_be_none_or_all(hits: int, count: int, low: float, high: float) -> None:
    """The bounds of Jeffreys' interval, from tables of the beta distribution."""
    drawn = draw_share(hits, count, np.random.default_rng(8))
    assert np.quantile(drawn, (0.025, 0.975)) == pytest.approx((low, high), abs=0.005)
    assert drawn.std() > 0

"""Bootstrap: how far a figure of a run could have come out otherwise, from the run's own spread.

Each ``draw_`` gives ``DRAWS`` values that the figure would take if its units (streams, or blocks of time) were drawn again with
replacement. Nothing is resampled one by one where the result's distribution is known, so 10,000 streams cost milliseconds:
the rank that a quantile of a resample of n values has in the sorted values is beta distributed.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from loadgen.record.hdr import Hdr

DRAWS: Final = 10_000

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator


def rank_of(q: float, count: int) -> int:
    """The 0-based nearest rank of quantile ``q``, as of every percentile here (``Hdr.percentiles``)."""
    return min(max(int(np.ceil(q * count)), 1), count) - 1


def draw_quantile(ordered: Floats, q: float, rng: Rng) -> Floats:
    """Of independent values, given in ascending order.

    The share of a resample's values below its own quantile is Beta(q (n + 1), (1 - q) (n + 1)): the order statistic of n
    uniform ranks, with q's own place between them (Harrell and Davis 1982). Resampling one by one gives the same but for a rank
    less, which matters where only a few values lie beyond q: its interval then covers the truth in 87 of 100 cases, not 95.
    """
    count = ordered.size
    below = rng.beta(q * (count + 1), (1 - q) * (count + 1), DRAWS)
    drawn: Floats = ordered[np.minimum((below * count).astype(np.int64), count - 1)]
    return drawn


def draw_share(hits: int, count: int, rng: Rng) -> Floats:
    """Of ``hits`` in ``count`` (Jeffreys: Beta(hits + 1/2, misses + 1/2)); none of 100 is not known to be exactly none."""
    return rng.beta(hits + 0.5, count - hits + 0.5, DRAWS)


def draw_ratio(tops: Floats, bottoms: Floats, rng: Rng) -> Floats:
    """Of a sum over a sum, such as events per second, from blocks of time."""
    weights = _weights(tops.size, DRAWS, rng)
    ratio = float(tops.sum() / bottoms.sum())
    return _widen((weights @ tops) / (weights @ bottoms), ratio, tops.size)


def pool(blocks: Sequence[Hdr]) -> tuple[Floats, Floats]:
    """The values (ns) that occur in any of the blocks, ascending, and how many of each block are no greater."""
    total = Hdr()
    for block in blocks:
        total.add(block)
    filled = np.flatnonzero(total.counts)
    values, _ = total.buckets()
    return values.astype(np.float64), np.cumsum([block.counts[filled] for block in blocks], axis=1, dtype=np.float64)


def draw_pooled_quantile(values: Floats, up_to: Floats, q: float, rng: Rng) -> Floats:
    """Of all values of all blocks together, the blocks drawn again: what came in one block may depend on each other.

    The quantile is searched for in all draws at once: a dozen sums over the blocks instead of one for every value.
    """
    blocks = up_to.shape[0]
    drawn = _pooled_quantiles(values, up_to, q, _weights(blocks, DRAWS, rng))
    return _widen(drawn, float(_pooled_quantiles(values, up_to, q, np.ones((1, blocks)))[0]), blocks)


def _pooled_quantiles(values: Floats, up_to: Floats, q: float, weights: Floats) -> Floats:
    """The nearest-rank quantile where each block counts so often, one row of weights a quantile."""
    ranks = np.maximum(np.ceil(q * (weights @ up_to[:, -1]) - 1e-6), 1)
    low = np.zeros(len(weights), dtype=np.int64)
    high = np.full(len(weights), values.size - 1)
    while np.any(low < high):
        middle = (low + high) // 2
        reached = np.einsum("db,bd->d", weights, up_to[:, middle]) >= ranks
        low, high = np.where(reached, low, middle + 1), np.where(reached, middle, high)
    found: Floats = values[low]
    return found


def _weights(blocks: int, draws: int, rng: Rng) -> Floats:
    """How often each block is drawn, one row a draw."""
    return rng.multinomial(blocks, np.full(blocks, 1 / blocks), draws).astype(np.float64)


def _widen(drawn: Floats, centre: float, blocks: int) -> Floats:
    """Resampling n blocks spreads sqrt((n - 1) / n) too little; with tens of blocks it shows."""
    widened: Floats = centre + (drawn - centre) * np.sqrt(blocks / (blocks - 1))
    return widened

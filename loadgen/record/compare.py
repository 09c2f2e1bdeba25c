"""Two runs of the same load compared, figure by figure: the difference, and how far chance alone could have moved it.

- p50, p90 and p99 of a metric: over streams, from their own exact values; the streams are drawn again.
- ITL, whose gaps are pooled: over all gaps, from the histogram of each second; the seconds are drawn again, since the streams
  of one second have their slowness in common. A run of fewer than ``MIN_BLOCKS`` such seconds is compared by its streams' own
  p50 and p99 instead (the median stream's), and the figure says so.
- error_rate and goodput: over streams (Jeffreys). tokens_per_s: over the seconds of the measured phases.

An interval holds the true difference in 95 of 100 comparisons. Whether a difference fails a gate is asked more strictly: all
gated figures together may raise a false alarm in 5 of 100 comparisons of equal runs, however many they are.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Final, Literal

import numpy as np

from loadgen.clock import NS_PER_MS
from loadgen.model import Metric, Outcome, StreamRecord
from loadgen.record.bootstrap import (
    Floats,
    Rng,
    draw_pooled_quantile,
    draw_quantile,
    draw_ratio,
    draw_share,
    pool,
    rank_of,
)
from loadgen.record.hdr import Hdr
from loadgen.record.metrics import METRICS
from loadgen.record.results import NOT_THE_TARGETS, values_of
from loadgen.record.slo import meets_all
from loadgen.workload.slo import SloRule

CONFIDENCE: Final = 0.95
QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
# With fewer values beyond a quantile its interval would rest on the two or three largest of them.
MIN_BEYOND: Final = 5
MIN_BLOCKS: Final = 10
MOST_BLOCKS: Final = 120
MIN_SECONDS: Final = 5
# What a gate is about; the other metrics are parts of these or come before the first token, and help to explain them.
GATED: Final = frozenset({Metric.TTFT, Metric.ITL, Metric.TPOT, Metric.E2E})
RATES: Final = ("error_rate", "goodput", "tokens_per_s")
_GATED_FIGURES: Final = len(GATED) * len(QUANTILES) + len(RATES)
_FALSE_ALARM: Final = (1 - CONFIDENCE) / _GATED_FIGURES
# A difference of so many standard errors is found in 4 of 5 comparisons: its own two-sided bound and the power's.
_SEEN: Final = NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / 2) + NormalDist().inv_cdf(0.8)

Unit = Literal["ms", "share", "per_s"]
By = Literal["streams", "seconds", "median stream"]


@dataclass(slots=True, kw_only=True)
class Sample:
    """What of one run is compared: measured streams only.

    ``itl`` are the histograms of gaps of consecutive stretches of time, ``second_*`` output events (or tokens) and lengths of
    the seconds of measured phases.
    """

    values: dict[Metric, Floats]  # ms, ascending
    own_itl: dict[str, Floats]  # "p50" and "p99" of each stream, ms, ascending
    itl: list[Hdr]
    judged: int
    failed: int
    good: int
    second_events: Floats = field(default_factory=lambda: np.zeros(0))
    second_lengths: Floats = field(default_factory=lambda: np.zeros(0))
    unit: str = "events"  # of second_events: tokens where the server counted them


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure of two runs. ``missing``: why there is no difference to tell; all numbers but the counts are None then.

    ``could_have_seen``: a true difference of this size would be found in 4 of 5 such comparisons.
    """

    name: str  # "ttft p50", "error_rate"
    metric: Metric | None = None
    unit: Unit
    by: By
    counts: tuple[int, int]
    gated: bool
    higher_is_worse: bool = True
    base: float | None = None
    other: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    could_have_seen: float | None = None
    regression: bool = False
    missing: str = ""

    @property
    def differs(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high

    @property
    def relative(self) -> float | None:
        """The difference as a share of the base."""
        return self.difference / self.base if self.difference is not None and self.base else None


def build_sample(
    records: Iterable[StreamRecord],
    *,
    rules: Sequence[SloRule],
    itl: Sequence[Hdr] = (),
    seconds: Sequence[tuple[float, float]] = (),
    unit: str = "events",
) -> Sample:
    """From a journal; ``rules`` are those that goodput is about, ``seconds`` events (or tokens) and length of each."""
    measured = [record for record in records if record.measured]
    values: dict[Metric, list[int]] = {}
    for record in measured:
        for metric, value in values_of(record).items():
            values.setdefault(metric, []).append(value)
    judged = [record for record in measured if record.outcome not in NOT_THE_TARGETS]
    table = np.array(seconds, dtype=np.float64).reshape(-1, 2)
    return Sample(
        values={metric: _ordered(found) for metric, found in values.items()},
        own_itl={
            "p50": _ordered([record.itl_p50_ns for record in measured if record.itl_p50_ns is not None]),
            "p99": _ordered([record.itl_p99_ns for record in measured if record.itl_p99_ns is not None]),
        },
        itl=list(itl),
        judged=len(judged),
        failed=sum(record.outcome is not Outcome.COMPLETED for record in judged),
        good=sum(meets_all(rules, record) for record in judged),
        second_events=table[:, 0],
        second_lengths=table[:, 1],
        unit=unit,
    )


def compare(base: Sample, other: Sample, *, threshold: float, seed: int = 0) -> list[Figure]:
    """Every figure that at least one of the two has, in the order of the metrics. The same seed gives the same intervals.

    A gated figure is a regression when it is surely worse by more than ``threshold``, a share of the base's value; for
    error_rate, where a share of next to nothing says nothing, when it is surely higher.
    """
    figures: list[Figure] = []
    for place, metric in enumerate(METRICS):
        for at, (statistic, q) in enumerate(QUANTILES.items()):
            rng = np.random.default_rng((seed, place, at))
            if metric is Metric.ITL:
                figure = _itl(base, other, statistic, q, threshold, rng)
            else:
                figure = _over_streams(base, other, metric, statistic, q, threshold, rng)
            if figure is not None:
                figures.append(figure)
    rng = np.random.default_rng((seed, len(METRICS)))
    figures.append(_share("error_rate", base.failed, other.failed, base, other, 0.0, rng))
    figures.append(_share("goodput", base.good, other.good, base, other, threshold, rng))
    figures.append(_rate(base, other, threshold, rng))
    return figures


def _over_streams(
    base: Sample, other: Sample, metric: Metric, statistic: str, q: float, threshold: float, rng: Rng
) -> Figure | None:
    pair = base.values.get(metric, np.zeros(0)), other.values.get(metric, np.zeros(0))
    if not any(values.size for values in pair):
        return None
    return _quantile(f"{metric} {statistic}", metric, pair, q, "streams", threshold, rng)


def _quantile(name: str, metric: Metric, pair: tuple[Floats, Floats], q: float, by: By, threshold: float, rng: Rng) -> Figure:
    """Of values of streams."""
    figure = _start(name, metric, by, (pair[0].size, pair[1].size))
    if missing := _too_few(figure, q, "streams"):
        return missing
    points = [float(values[rank_of(q, values.size)]) for values in pair]
    return _finish(figure, points, [draw_quantile(values, q, rng) for values in pair], threshold)


def _itl(base: Sample, other: Sample, statistic: str, q: float, threshold: float, rng: Rng) -> Figure | None:
    name = f"itl {statistic}"
    if min(len(base.itl), len(other.itl)) >= MIN_BLOCKS:
        counts = sum(hdr.count for hdr in base.itl), sum(hdr.count for hdr in other.itl)
        figure = _start(name, Metric.ITL, "seconds", counts)
        if missing := _too_few(figure, q, "gaps"):
            return missing
        pooled = [pool(sample.itl) for sample in (base, other)]
        draws = [draw_pooled_quantile(values / NS_PER_MS, up_to, q, rng) for values, up_to in pooled]
        return _finish(figure, [_pooled_ms(base.itl, q), _pooled_ms(other.itl, q)], draws, threshold)
    own, others = base.own_itl.get(statistic), other.own_itl.get(statistic)
    if own is None or others is None or not (own.size or others.size):
        return None  # p90: no stream keeps its own
    return _quantile(name, Metric.ITL, (own, others), 0.5, "median stream", threshold, rng)


def _pooled_ms(blocks: Sequence[Hdr], q: float) -> float:
    total = Hdr()
    for block in blocks:
        total.add(block)
    return total.percentile(q) / NS_PER_MS


def _share(name: str, hits: int, other_hits: int, base: Sample, other: Sample, threshold: float, rng: Rng) -> Figure:
    counts = base.judged, other.judged
    figure = _start(name, None, "streams", counts, unit="share", higher_is_worse=name == "error_rate")
    if not min(counts):
        return replace(figure, missing="no stream ended by the target's doing")
    points = [hits / base.judged, other_hits / other.judged]
    return _finish(figure, points, [draw_share(hits, counts[0], rng), draw_share(other_hits, counts[1], rng)], threshold)


def _rate(base: Sample, other: Sample, threshold: float, rng: Rng) -> Figure:
    samples = base, other
    counts = base.second_events.size, other.second_events.size
    unit = base.unit if base.unit == other.unit else "tokens"
    figure = _start(f"{unit}_per_s", None, "seconds", counts, unit="per_s", higher_is_worse=False)
    if base.unit != other.unit:
        return replace(figure, missing="the server counted its tokens in one of the runs only")
    if min(counts) < MIN_SECONDS:
        return replace(figure, missing=f"too few seconds ({min(counts)}; it takes {MIN_SECONDS})")
    points = [float(sample.second_events.sum() / sample.second_lengths.sum()) for sample in samples]
    draws = [draw_ratio(sample.second_events, sample.second_lengths, rng) for sample in samples]
    return _finish(figure, points, draws, threshold)


def _start(
    name: str, metric: Metric | None, by: By, counts: tuple[int, int], *, unit: Unit = "ms", higher_is_worse: bool = True
) -> Figure:
    """A figure without its numbers."""
    gated = metric is None or metric in GATED
    return Figure(
        name=name, metric=metric, unit=unit, by=by, counts=counts, gated=gated, higher_is_worse=higher_is_worse
    )  # fmt: skip


def _too_few(figure: Figure, q: float, what: str) -> Figure | None:
    """The figure, if one of the runs has too few values for this quantile."""
    fewest, needed = min(figure.counts), int(np.ceil(MIN_BEYOND / min(q, 1 - q) - 1e-9))
    return replace(figure, missing=f"too few {what} ({fewest:,}; it takes {needed:,})") if fewest < needed else None


def _finish(figure: Figure, points: Sequence[float], draws: Sequence[Floats], threshold: float) -> Figure:
    base, other = points
    tail = (1 - CONFIDENCE) / 2
    low, high = (float(bound) for bound in np.quantile(draws[1] - draws[0], (tail, 1 - tail)))
    return replace(
        figure,
        base=base,
        other=other,
        difference=other - base,
        low=min(low, other - base),
        high=max(high, other - base),
        could_have_seen=(high - low) / (2 * NormalDist().inv_cdf(1 - tail)) * _SEEN,
        regression=figure.gated and _surely_worse(draws, threshold, higher=figure.higher_is_worse),
    )


def _surely_worse(draws: Sequence[Floats], threshold: float, *, higher: bool) -> bool:
    base, other = draws
    worse_by = other - base * (1 + threshold) if higher else base * (1 - threshold) - other
    return float(np.quantile(worse_by, _FALSE_ALARM)) > 0


def _ordered(values_ns: Sequence[int]) -> Floats:
    ordered: Floats = np.sort(np.array(values_ns, dtype=np.float64)) / NS_PER_MS
    return ordered

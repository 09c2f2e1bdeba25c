"""Comparisons against known truth: what was shifted by so much, and what was not shifted at all."""

from typing import Any

import numpy as np
import pytest

from loadgen.model import Metric, Outcome
from loadgen.record.compare import Figure, Sample, build_sample, compare
from loadgen.record.hdr import Hdr
from loadgen.workload.slo import parse_slo
from tests.support.records import completed, failed

SHIFT_MS = 8.0
TRIALS = 100


def sample(**fields: Any) -> Sample:
    defaults: dict[str, Any] = {"values": {}, "own_itl": {}, "itl": [], "judged": 0, "failed": 0, "good": 0}
    return Sample(**(defaults | fields))


def of_streams(rng: np.random.Generator, count: int, shift: float = 0) -> Sample:
    """TTFTs as servers have them: a long tail to the right."""
    return sample(values={Metric.TTFT: np.sort(200 * np.exp(rng.normal(0, 0.3, count)) + shift)})


def of_gaps(rng: np.random.Generator, blocks: int, shift: float = 0) -> Sample:
    """Gaps that have their second's slowness in common."""
    found = []
    for _ in range(blocks):
        hdr = Hdr()
        level = rng.normal(20e6, 1e6)
        hdr.record_many((rng.gamma(4, 1e6, 400) + level + shift * 1e6).astype(np.int64))
        found.append(hdr)
    return sample(itl=found)


def figure_of(base: Sample, other: Sample, name: str, threshold: float = 0.05, seed: int = 0) -> Figure:
    (found,) = [figure for figure in compare(base, other, threshold=threshold, seed=seed) if figure.name == name]
    return found


def covered(figure: Figure, truth: float) -> bool:
    assert figure.low is not None
    assert figure.high is not None
    return figure.low <= truth <= figure.high


@pytest.mark.slow
@pytest.mark.parametrize(("count", "names"), [(100, ("ttft p50", "ttft p90")), (1_000, ("ttft p50", "ttft p90", "ttft p99"))])
def test_the_interval_covers_a_true_shift_in_95_of_100_trials(count: int, names: tuple[str, ...]) -> None:
    hits = dict.fromkeys(names, 0)
    for trial in range(TRIALS):
        rng = np.random.default_rng(trial)
        figures = compare(of_streams(rng, count), of_streams(rng, count, SHIFT_MS), threshold=0.05, seed=trial)
        for figure in figures:
            if figure.name in hits:
                hits[figure.name] += covered(figure, SHIFT_MS)
    assert all(90 <= hit <= 100 for hit in hits.values()), hits
    assert sum(hits.values()) < TRIALS * len(names), "an interval that always covers is too wide"


@pytest.mark.slow
def test_pooled_gaps_of_seconds_too() -> None:
    hits = {"itl p50": 0, "itl p90": 0, "itl p99": 0}
    trials = 60
    for trial in range(trials):
        rng = np.random.default_rng(trial)
        for figure in compare(of_gaps(rng, 30), of_gaps(rng, 30, 0.5), threshold=0.05, seed=trial):
            if figure.name in hits:
                assert figure.by == "seconds"
                hits[figure.name] += covered(figure, 0.5)
    assert all(0.87 * trials <= hit for hit in hits.values()), hits
    assert sum(hits.values()) < 3 * trials, hits


@pytest.mark.slow
def test_equal_distributions_are_called_no_difference_and_never_a_regression() -> None:
    differing = regressions = total = 0
    for trial in range(TRIALS):
        rng = np.random.default_rng(1_000 + trial)
        for figure in compare(of_streams(rng, 500), of_streams(rng, 500), threshold=0.0, seed=trial):
            if not figure.missing:
                total += 1
                differing += figure.differs
                regressions += figure.regression
    assert differing / total < 0.08
    assert regressions <= 3, "at a threshold of nothing a gate may still cry wolf in 5 of 100 comparisons only"


@pytest.mark.slow
def test_what_it_could_have_seen_is_seen_in_four_of_five_trials() -> None:
    rng = np.random.default_rng(0)
    size = figure_of(of_streams(rng, 800), of_streams(rng, 800), "ttft p50").could_have_seen
    assert size is not None
    found = 0
    for trial in range(TRIALS):
        rng = np.random.default_rng(2_000 + trial)
        found += figure_of(of_streams(rng, 800), of_streams(rng, 800, size), "ttft p50").differs
    assert 65 <= found <= 95


def test_a_regression_is_worse_by_more_than_the_threshold_beyond_doubt() -> None:
    rng = np.random.default_rng(0)
    base = sample(values={Metric.TTFT: np.sort(rng.normal(200, 4, 2_000))})

    def times(factor: float) -> Sample:
        return sample(values={Metric.TTFT: np.sort(rng.normal(200 * factor, 4, 2_000))})

    assert figure_of(base, times(1.06), "ttft p50").regression
    assert not figure_of(base, times(1.04), "ttft p50").regression
    assert figure_of(base, times(1.04), "ttft p50").differs
    assert figure_of(base, times(1.04), "ttft p50", threshold=0.03).regression
    assert not figure_of(base, times(0.5), "ttft p50").regression  # faster is no regression
    few = sample(values={Metric.TTFT: np.sort(rng.normal(212, 60, 40))})  # 6 % more, perhaps
    assert not figure_of(base, few, "ttft p50").regression


def test_metrics_that_explain_do_not_gate() -> None:
    base, other = (sample(values={Metric.CONNECT: np.sort(np.random.default_rng(0).normal(m, 0.1, 500))}) for m in (1, 3))
    figure = figure_of(base, other, "connect p50")
    assert (figure.differs, figure.gated, figure.regression) == (True, False, False)


def test_rates_of_streams() -> None:
    base = sample(judged=1_000, failed=0, good=990)
    figures = {f.name: f for f in compare(base, sample(judged=1_000, failed=20, good=900), threshold=0.05)}
    errors, good = figures["error_rate"], figures["goodput"]
    assert errors.difference == 0.02
    assert covered(errors, 0.02)
    assert errors.regression  # whatever share of nothing that is
    assert good.difference == pytest.approx(-0.09)
    assert good.regression
    same = {f.name: f for f in compare(base, sample(judged=1_000, failed=1, good=989), threshold=0.05)}
    assert not same["error_rate"].differs
    assert not same["error_rate"].regression
    assert same["error_rate"].could_have_seen == pytest.approx(0.004, abs=0.002)
    assert compare(base, sample(), threshold=0.05)[0].missing == "no stream ended by the target's doing"


def test_tokens_per_second_of_seconds() -> None:
    rng = np.random.default_rng(0)

    def at(rate: float, unit: str = "tokens") -> Sample:
        lengths = rng.uniform(0.95, 1.05, 30)
        return sample(second_events=rng.poisson(rate * lengths).astype(float), second_lengths=lengths, unit=unit)

    figure = figure_of(at(1_000), at(900), "tokens_per_s")
    assert covered(figure, -100)
    assert figure.regression
    assert not figure_of(at(1_000), at(1_100), "tokens_per_s").regression
    assert "in one of the runs only" in figure_of(at(1_000), at(1_000, "events"), "tokens_per_s").missing
    assert "too few seconds (0; " in figure_of(at(1_000), sample(unit="tokens"), "tokens_per_s").missing


def test_too_few_values_are_told_not_guessed_from() -> None:
    rng = np.random.default_rng(0)
    figures = {f.name: f for f in compare(of_streams(rng, 499), of_streams(rng, 900), threshold=0.05)}
    assert figures["ttft p99"].missing == "too few streams (499; it takes 500)"
    assert figures["ttft p99"].difference is None
    assert not figures["ttft p90"].missing
    assert not any(name.startswith("tls") for name in figures)  # neither has one


def test_a_short_run_is_compared_by_what_its_streams_kept_of_their_gaps() -> None:
    rng = np.random.default_rng(0)

    def short(shift: float) -> Sample:
        own = {name: np.sort(rng.normal(level + shift, 0.5, 60)) for name, level in (("p50", 20), ("p99", 25))}
        return sample(own_itl=own, itl=of_gaps(rng, 9).itl)

    figures = {f.name: f for f in compare(short(0), short(2), threshold=0.05)}
    assert {name for name in figures if name.startswith("itl")} == {"itl p50", "itl p99"}
    for name in ("itl p50", "itl p99"):
        assert figures[name].by == "median stream"
        assert covered(figures[name], 2)
        assert figures[name].regression


def test_the_same_seed_gives_the_same_intervals() -> None:
    rng = np.random.default_rng(0)
    pair = of_streams(rng, 300), of_streams(rng, 300)
    assert compare(*pair, threshold=0.05) == compare(*pair, threshold=0.05)
    assert compare(*pair, threshold=0.05) != compare(*pair, threshold=0.05, seed=1)
    # One more metric moves no other figure.
    more = [sample(values={**side.values, Metric.CONNECT: side.values[Metric.TTFT]}) for side in pair]
    assert figure_of(*pair, "ttft p50") == figure_of(more[0], more[1], "ttft p50")


def test_a_sample_is_of_measured_streams_and_counts_as_the_summary_does() -> None:
    rules = [parse_slo("ttft p99 < 300ms")]
    records = [
        completed(0),
        completed(1, ttft_ms=400),  # not good
        completed(2, ttft_ms=5_000, measured=False),
        failed(3, Outcome.RESET),
        failed(4, Outcome.CUT),
    ]
    found = build_sample(records, rules=rules, seconds=[(100, 1.0), (90, 0.9)])
    assert found.values[Metric.TTFT].tolist() == [250, 400]
    assert found.values[Metric.TPOT].tolist() == [20, 20]
    assert (found.judged, found.failed, found.good) == (3, 1, 1)
    assert found.own_itl["p99"].tolist() == [20, 20]
    assert found.second_lengths.tolist() == [1.0, 0.9]


def test_identical_constant_values_are_no_difference() -> None:
    base, other = (build_sample([completed(i) for i in range(60)], rules=[]) for _ in range(2))
    figure = figure_of(base, other, "e2e p50")
    assert (figure.difference, figure.low, figure.high, figure.differs) == (0, 0, 0, False)
    slower = build_sample([completed(i, ttft_ms=251) for i in range(60)], rules=[])
    assert figure_of(base, slower, "ttft p50").difference == 1
    assert figure_of(base, slower, "ttft p50").differs

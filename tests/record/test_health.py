"""When the generator may be believed, and what it says when not."""

import gc

import pytest

from loadgen.model import Metric
from loadgen.record.health import GeneratorHealth, judge
from loadgen.record.results import Results
from tests.support.records import ms

EXACT, BOUNDED, USER = [1000, 0, 0], [900, 100, 0], [0, 0, 1000]


def results_with(quality: list[int] = EXACT, *, itl_ms: float = 20, ttft_ms: float = 100) -> Results:
    results = Results(quality=list(quality))
    results.metric(Metric.ITL).record_many([ms(itl_ms)] * 100)
    results.metric(Metric.TTFT).record_many([ms(ttft_ms)] * 100)
    return results


def health_with(*, lag_ms: float = 0.05, late_ms: float = 0.1, mean: float = 100.0) -> GeneratorHealth:
    health = GeneratorHealth(
        concurrency_asked=100,
        concurrency_mean_asked=100.0,
        concurrency_mean=mean,
        concurrency_max=100,
        wall_s=10.0,
        cpu_s=2.5,
    )
    health.read_lag.record_many([ms(lag_ms)] * 100)
    health.lateness.record_many([ms(late_ms)] * 100)
    return health


def reasons(health: GeneratorHealth, results: Results) -> list[str]:
    return judge(health, results)[0]


def test_a_calm_generator_is_valid_and_has_nothing_to_say() -> None:
    assert judge(health_with(), results_with()) == ([], [])


def test_a_late_loop_with_sound_kernel_stamps_stays_valid_and_says_so() -> None:
    found, notes = judge(health_with(lag_ms=30), results_with())
    assert not found
    assert len(notes) == 1
    assert "kernel" in notes[0]
    assert "30.0 ms" in notes[0]


@pytest.mark.parametrize(("lag_ms", "valid"), [(1.9, True), (2.1, False)])
def test_with_our_own_stamps_lag_above_a_tenth_of_the_gap_is_invalid(lag_ms: float, valid: bool) -> None:
    assert (not reasons(health_with(lag_ms=lag_ms), results_with(USER, itl_ms=20))) is valid


@pytest.mark.parametrize(
    ("quality", "lag_ms", "valid"),
    [
        ([940, 60, 0], 5.1, False),
        ([940, 60, 0], 4.9, True),  # bursts of the other side: a finding, not a fault
        ([960, 40, 0], 5.1, True),
    ],
)
def test_bounded_stamps_are_invalid_only_if_we_were_late(quality: list[int], lag_ms: float, valid: bool) -> None:
    assert (not reasons(health_with(lag_ms=lag_ms), results_with(quality))) is valid


def test_a_hiccup_is_no_verdict_on_the_bursts_of_the_other_side() -> None:
    health = health_with(lag_ms=0.1)
    health.read_lag.record_many([ms(40)] * (health.read_lag.count // 25))
    assert not reasons(health, results_with([800, 200, 0]))
    health.read_lag.record_many([ms(40)] * (health.read_lag.count // 25))
    assert reasons(health, results_with([800, 200, 0]))


@pytest.mark.parametrize(
    ("late_ms", "ttft_ms", "valid"), [(9.9, 100, True), (10.1, 100, False), (45, 1000, True), (51, 1000, False)]
)
def test_late_starts_are_invalid_above_10_ms_or_5_percent_of_ttft(late_ms: float, ttft_ms: float, valid: bool) -> None:
    assert (not reasons(health_with(late_ms=late_ms), results_with(ttft_ms=ttft_ms))) is valid


@pytest.mark.parametrize(("mean", "valid"), [(95.1, True), (94.9, False)])
def test_missed_concurrency_is_invalid(mean: float, valid: bool) -> None:
    found = reasons(health_with(mean=mean), results_with())
    assert (not found) is valid
    assert valid or ("94.9" in found[0] and "processes" in found[0])


def test_each_reason_is_told() -> None:
    assert len(reasons(health_with(lag_ms=8, late_ms=200, mean=10), results_with(BOUNDED))) == 3


def test_a_stepped_clock_is_noted() -> None:
    health = health_with()
    health.clock_steps = 2
    assert any("clock" in note for note in judge(health, results_with())[1])


def test_nothing_measured_is_no_reason_of_ours() -> None:
    assert reasons(GeneratorHealth(), Results()) == []


def test_the_block_has_all_keys_of_the_contract() -> None:
    block = health_with(lag_ms=8).summary(results_with(BOUNDED))
    assert block["valid"] is False
    assert block["stamps"] == "kernel"
    assert block["stamp_quality"] == {"exact": 0.9, "bounded": 0.1, "user": 0.0}
    assert block["read_lag"]["p99_ms"] == pytest.approx(8)
    assert block["lateness"]["p50_ms"] == pytest.approx(0.1)
    assert block["cpu_share"] == 0.25
    assert block["processes"] == 1
    assert {"reasons", "merged_reads_share"} <= block.keys()


def test_the_block_names_our_own_stamps() -> None:
    assert health_with().summary(results_with(USER))["stamps"] == "user"


def test_gc_pauses_are_seen_only_while_watching() -> None:
    health = GeneratorHealth()
    before = list(gc.callbacks)
    with health.watching_gc():
        gc.collect()
        seen = health.gc_pauses.count
    gc.collect()
    assert seen >= 1
    assert health.gc_pauses.count == seen
    assert gc.callbacks == before

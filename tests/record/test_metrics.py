"""What each metric is taken from, and of which streams."""

import pytest

from loadgen.model import Metric, Outcome, StreamRecord, Usage
from loadgen.record.metrics import METRICS, QUANTILES, tokens_of
from tests.support.records import completed, failed, ms


def value_of(metric: Metric, record: StreamRecord) -> int | None:
    take = METRICS[metric].take
    assert take is not None
    return take(record)


def test_every_metric_is_in_the_table_with_words() -> None:
    assert list(METRICS) == list(Metric)
    assert all(kind.meaning for kind in METRICS.values())


@pytest.mark.parametrize(
    ("metric", "expected_ms"),
    [
        (Metric.TTFT, 250),
        (Metric.SERVICE_TTFT, 245),
        (Metric.FIRST_EVENT, 240),
        (Metric.FIRST_ANSWER, 250),
        (Metric.HEADERS, 30),
        (Metric.CONNECT, 1),
        (Metric.TLS, 2),
        (Metric.TPOT, 20),
        (Metric.E2E, 451),
        (Metric.QUEUE, 5),
        (Metric.STALL, 20),
    ],
)
def test_values_of_a_stream_that_went_well(metric: Metric, expected_ms: int) -> None:
    assert value_of(metric, completed()) == ms(expected_ms)


def test_itl_is_pooled_and_not_taken_from_records() -> None:
    assert METRICS[Metric.ITL].take is None


@pytest.mark.parametrize("outcome", [o for o in Outcome if o is not Outcome.COMPLETED])
def test_ttft_counts_whatever_the_end_but_whole_stream_times_do_not(outcome: Outcome) -> None:
    record = completed(outcome=outcome)
    assert value_of(Metric.TTFT, record) == ms(250)
    assert value_of(Metric.SERVICE_TTFT, record) == ms(245)
    assert value_of(Metric.STALL, record) == ms(20)
    assert value_of(Metric.E2E, record) is None
    assert value_of(Metric.TPOT, record) is None


def test_stamps_that_were_never_reached_give_no_value() -> None:
    record = failed()
    assert all(kind.take is None or kind.take(record) is None for kind in METRICS.values())


def test_a_reused_connection_has_neither_connect_nor_tls() -> None:
    record = completed(reused=True, connect_start_ns=None, connect_ns=None, tls_ns=None)
    assert value_of(Metric.CONNECT, record) is None
    assert value_of(Metric.TLS, record) is None


def test_tokens_are_the_servers_count_else_output_events() -> None:
    assert tokens_of(completed(usage=Usage(completion_tokens=40))) == 40
    assert tokens_of(completed(tokens=9, usage=Usage(prompt_tokens=3))) == 9
    assert tokens_of(completed(tokens=9, usage=None)) == 9


def test_tpot_divides_by_tokens_not_by_events() -> None:
    """A server that packs two tokens into an event is not twice as slow."""
    record = completed(tokens=11, gap_ms=20, usage=Usage(completion_tokens=21))
    assert value_of(Metric.TPOT, record) == ms(10)
    assert value_of(Metric.TPOT, completed(tokens=11, gap_ms=20, usage=None)) == ms(20)


def test_one_token_has_no_pace() -> None:
    assert value_of(Metric.TPOT, completed(tokens=1)) is None


def test_quantile_names_say_their_number() -> None:
    assert QUANTILES == {
        "p50_ms": 0.5, "p90_ms": 0.9, "p95_ms": 0.95, "p99_ms": 0.99, "p999_ms": 0.999,
    }  # fmt: skip

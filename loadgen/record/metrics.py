"""The metrics: what each one means, and how it is taken from a finished stream. One table, one line a metric.

TTFT, first events and headers count for every stream that reached them, whatever its end: a stream that timed out after its
first token did deliver that token, and leaving it out would flatter. E2E and TPOT count for completed streams only: the
length of a broken stream says nothing about the length of a whole one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from loadgen.model import Metric, Outcome, StreamRecord

QUANTILES: Final = {"p50_ms": 0.5, "p90_ms": 0.9, "p95_ms": 0.95, "p99_ms": 0.99, "p999_ms": 0.999}


@dataclass(frozen=True, slots=True)
class MetricKind:
    """``take`` gives ns or None; None for ITL, which is pooled over all gaps and taken as they arrive."""

    meaning: str
    take: Callable[[StreamRecord], int | None] | None


def _between(begin: str, end: str) -> Callable[[StreamRecord], int | None]:
    """The time from one stamp of a record to another; None when either is missing."""

    def take(record: StreamRecord) -> int | None:
        first, last = getattr(record, begin), getattr(record, end)
        return None if first is None or last is None else max(last - first, 0)

    return take


def _e2e(record: StreamRecord) -> int | None:
    return record.end_ns - record.intended_ns if record.outcome is Outcome.COMPLETED else None


def tokens_of(record: StreamRecord) -> int:
    """Output tokens: the server's count where it gave one, else output events."""
    usage = record.usage
    if usage is not None and usage.completion_tokens is not None:
        return usage.completion_tokens
    return record.output_events


def _tpot(record: StreamRecord) -> int | None:
    tokens = tokens_of(record)
    if record.outcome is not Outcome.COMPLETED or tokens < 2:
        return None
    if record.first_token_ns is None or record.last_token_ns is None or record.output_events < 2:
        return None
    return (record.last_token_ns - record.first_token_ns) // (tokens - 1)


METRICS: Final[dict[Metric, MetricKind]] = {
    Metric.TTFT: MetricKind("intended start to first token", _between("intended_ns", "first_token_ns")),
    Metric.SERVICE_TTFT: MetricKind("request sent to first token", _between("sent_ns", "first_token_ns")),
    Metric.FIRST_EVENT: MetricKind("intended start to first event of any kind", _between("intended_ns", "first_event_ns")),
    Metric.FIRST_ANSWER: MetricKind("intended start to first answer text", _between("intended_ns", "first_answer_ns")),
    Metric.HEADERS: MetricKind("intended start to response head", _between("intended_ns", "head_ns")),
    Metric.CONNECT: MetricKind("TCP connect", _between("connect_start_ns", "connect_ns")),
    Metric.TLS: MetricKind("TLS handshake", _between("connect_ns", "tls_ns")),
    Metric.ITL: MetricKind("gap between output events, all streams pooled", None),
    Metric.TPOT: MetricKind("time per output token of a stream", _tpot),
    Metric.E2E: MetricKind("intended start to end, completed streams", _e2e),
    Metric.QUEUE: MetricKind("intended start to request sent", _between("intended_ns", "sent_ns")),
    Metric.STALL: MetricKind("longest gap of a stream", lambda record: record.stall_ns),
    Metric.ABORT_TO_SERVER_STOP: MetricKind("abort to server free", lambda _: None),
}

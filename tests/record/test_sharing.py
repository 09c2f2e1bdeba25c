"""Connections and backends: what each carried, and when a balancer pins connections."""

from loadgen.record.results import MAX_CONNECTIONS, OTHER_CONNECTIONS, Results
from loadgen.record.sharing import describe_backends, describe_connections
from tests.support.records import completed


def results_of(*pairs: tuple[int, str], split: int = 1) -> Results:
    """Streams by connection and backend, gathered in so many parts."""
    parts = [Results() for _ in range(split)]
    for n, (connection, backend) in enumerate(pairs):
        parts[n % split].add(completed(n, connection=connection, backend=backend, tokens=3), good=True)
    total = Results()
    for part in parts:
        total.merge(part)
    return total


def test_what_connections_carried() -> None:
    told = describe_connections(results_of((0, ""), (0, ""), (4, ""), split=2))
    assert (told["count"], told["streams_max"], told["streams_min"]) == (2, 2, 1)
    assert (told["events_max"], told["events_min"]) == (6, 3)
    assert describe_connections(Results())["count"] == 0


def test_nobody_said_who_served() -> None:
    assert describe_backends(results_of((0, ""), (1, ""))) is None


def test_a_balancer_of_connections_is_told() -> None:
    told = describe_backends(results_of(*[(0, "a")] * 6, *[(1, "b")] * 3, *[(2, "a")] * 3, split=3))
    assert told is not None
    assert (told["pinned"], told["busiest"], told["busiest_share"], told["busiest_share_per_connection"]) == (
        True,
        "a",
        0.75,
        1.0,
    )
    assert told["finding"].startswith("each of the 3 connections that carried several streams went to one backend only, of 2")
    assert told["streams"] == {"a": 9, "b": 3}


def test_a_balancer_of_requests_is_no_finding() -> None:
    told = describe_backends(results_of(*[(n % 2, backend) for n in range(10) for backend in "ab"]))
    assert told is not None
    assert (told["pinned"], told["finding"], told["busiest_share"]) == (False, None, 0.5)


def test_one_stream_a_connection_pins_nothing() -> None:
    told = describe_backends(results_of((0, "a"), (1, "b"), (2, "a"), (3, "a"), (4, "a"), (5, "a")))
    assert told is not None
    assert told["pinned"] is False
    assert told["finding"] == "a served 83% of the streams, of 2 backends"
    assert told["busiest_share_per_connection"] is None


def test_a_connection_per_stream_does_not_fill_the_memory() -> None:
    results = results_of(*[(n, "a") for n in range(2 * MAX_CONNECTIONS)], split=4)
    assert len(results.connections) <= MAX_CONNECTIONS + 1
    assert len(results.pairs) <= MAX_CONNECTIONS + 1
    assert results.connections[OTHER_CONNECTIONS].streams >= MAX_CONNECTIONS
    assert sum(carried.streams for carried in results.connections.values()) == 2 * MAX_CONNECTIONS

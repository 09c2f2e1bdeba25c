"""How streams shared connections and backends: blocks of the summary.

An L4 balancer in front of HTTP/2 decides once a connection: all of its streams go to one backend. That is told when every
connection that carried several streams kept to one backend although the run saw more than one.
"""

from collections import Counter, defaultdict
from typing import Any

from loadgen.record.results import OTHER_CONNECTIONS, Results


def describe_connections(results: Results) -> dict[str, Any]:
    """``count`` connections carried streams; the busiest and the idlest of them, in streams and output events."""
    carried = list(results.connections.values())
    streams = [c.streams for c in carried]
    events = [c.events for c in carried]
    return {
        "count": len(carried),
        "streams_max": max(streams, default=0),
        "streams_min": min(streams, default=0),
        "events_max": max(events, default=0),
        "events_min": min(events, default=0),
        "bytes": sum(c.bytes_in for c in carried),
    }


def describe_backends(results: Results) -> dict[str, Any] | None:
    """Who served the streams, by the header that ``target.backend_header`` names; None where nobody said."""
    served = results.backends
    if not served:
        return None
    total = served.total()
    by_connection: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for (connection, backend), count in results.pairs.items():
        by_connection[connection][backend] += count
    shared = [b for connection, b in by_connection.items() if b.total() > 1 and connection != OTHER_CONNECTIONS]
    pinned = bool(shared) and len(served) > 1 and all(len(backends) == 1 for backends in shared)
    busiest, most = served.most_common(1)[0]
    return {
        "streams": dict(served.most_common()),
        "busiest": busiest,
        "busiest_share": most / total,
        "busiest_share_per_connection": _mean_share(shared),
        "pinned": pinned,
        "finding": _finding(len(served), len(shared), busiest, most / total, pinned=pinned),
    }


def _mean_share(shared: list[Counter[str]]) -> float | None:
    """Of a connection's streams, the share of the backend that served most of them; over all that carried several."""
    streams = sum(backends.total() for backends in shared)
    return sum(max(backends.values()) for backends in shared) / streams if streams else None


def _finding(backends: int, shared: int, busiest: str, share: float, *, pinned: bool) -> str | None:
    if pinned:
        return (
            f"each of the {shared} connections that carried several streams went to one backend only, of {backends}: "
            f"a balancer that works on connections stands in front; {busiest} served {share:.0%} of the streams"
        )
    if backends > 1 and share > 1.5 / backends:
        return f"{busiest} served {share:.0%} of the streams, of {backends} backends"
    return None

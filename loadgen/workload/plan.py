"""The plan: a workload after all checks, as the engine reads it. Immutable, complete, in inside units (ns, bytes).

Nothing here knows YAML or pydantic; ``workload.loader`` builds a plan, tests may build one by hand.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from random import Random
from typing import TYPE_CHECKING, Any, Final, Protocol

from loadgen.workload.sim_script import SimScript
from loadgen.workload.slo import SloRule

if TYPE_CHECKING:
    from loadgen.workload.custom import CustomSpec


class PhaseKind(StrEnum):
    WARMUP = "warmup"
    HOLD = "hold"
    RAMP = "ramp"


class Mix(StrEnum):
    """Which request a stream makes."""

    RANDOM = "random"  # by weight, seeded
    IN_TURN = "in-turn"  # by the stream's number: each kind as often as its weight, in order


class WhenFull(StrEnum):
    """What a stream does that finds the limit full."""

    QUEUE = "queue"
    DROP = "drop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The part of a plan that one of ``count`` generator processes carries. The parts of any number add up to it exactly."""

    index: int = 0
    count: int = 1

    def of(self, total: int) -> int:
        return (total + self.count - 1 - self.index) // self.count


WHOLE: Final = Share()
LEVEL_RISE_NS: Final = 2_000_000  # a stream: paced starts, with some air


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One stretch of the load: so many streams open, moving linearly from one number to another.

    The two are equal in a hold and a warmup. They are those of the whole plan; ``share`` is what of them is this process's.
    """

    index: int
    kind: PhaseKind
    duration_ns: int
    streams_from: int
    streams_to: int
    share: Share = WHOLE

    @property
    def measured(self) -> bool:
        return self.kind is not PhaseKind.WARMUP

    def streams_at(self, into_ns: int) -> int:
        """Streams wanted ``into_ns`` after the phase began. A ramp reaches its last value at its end, not before."""
        if self.level:
            return self.share.of(self.streams_to)
        into_ns = min(max(into_ns, 0), self.duration_ns)
        return self.share.of(self.streams_from + (self.streams_to - self.streams_from) * into_ns // self.duration_ns)

    @property
    def level(self) -> bool:
        return self.streams_from == self.streams_to


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where streams go. ``path`` includes the query; ``headers`` are the user's, secrets resolved.

    ``url`` is for people: credentials in its query are masked.
    """

    url: str
    scheme: str  # http | https
    host: str  # as in the URL, without brackets
    port: int
    path: str
    dialect: str
    headers: tuple[tuple[str, str], ...] = ()
    model: str | None = None  # None: the request names none; "auto": ask GET /v1/models before the run
    unix_path: str | None = None
    backend_header: str | None = None  # the response header that names who served a stream, in lower case

    @property
    def authority(self) -> str:
        """The value of the Host header: the port only where it is not the scheme's own (RFC 9110, 7.2)."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        default = 443 if self.scheme == "https" else 80
        return host if self.port == default else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    verify: bool = True
    ca: str | None = None  # path of a PEM file
    server_name: str | None = None  # SNI and certificate name, if not the URL's host


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """HTTP/2 flow control: how many bytes the peer may send ahead, in bytes."""

    stream: int = 1 << 20
    connection: int = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Transport:
    """How streams share connections.

    ``connections``, a number: at most so many, kept alive; streams wait for a place on one. None: with ``as_needed`` as
    many as there must be, kept alive; without it a fresh one for each stream, closed after it.
    """

    http: str = "1.1"  # "1.1" | "2"
    connections: int | None = None
    as_needed: bool = False
    streams_per_connection: int = 1  # always 1 for HTTP/1.1
    windows: Windows = field(default_factory=Windows)
    tls: Tls = field(default_factory=Tls)
    read_spacing_ns: int = 0  # what is ready to be read may wait this long, so that more is read at once


class Prompt(Protocol):
    """A source of prompts. Each call gives one; ``rng`` makes the choice repeatable."""

    def pick(self, rng: Random) -> list[dict[str, Any]]:
        """Messages in OpenAI's form: ``[{"role": "user", "content": "..."}]``."""
        ...


class Length(Protocol):
    """A distribution of whole numbers, for ``max_tokens``."""

    def pick(self, rng: Random) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestKind:
    """One entry of the weighted mix."""

    index: int
    weight: float
    prompt: Prompt
    max_tokens: Length | None = None
    body: Mapping[str, Any] = field(default_factory=dict)  # merged over the dialect's own body, last word


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    streams: int
    when_full: WhenFull = WhenFull.QUEUE


class AbortAfter(StrEnum):
    """What a stream that is to be left waits for."""

    TOKENS = "tokens"  # so many output events
    TIME = "time"  # since its request was sent
    HEADERS = "headers"  # the response head
    SENT = "sent"  # the request is out: during prefill, mostly


class AbortBy(StrEnum):
    """How a stream is left. On HTTP/2 both are RST_STREAM CANCEL, for the connection is others', too."""

    CLOSE = "close"  # FIN
    RESET = "reset"  # RST


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortPolicy:
    """So large a ``share`` of the streams is left; ``amount`` is tokens or ns, 0 where nothing is counted."""

    share: float
    after: AbortAfter
    amount: int = 0
    by: AbortBy = AbortBy.CLOSE


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long a stream may take; None: no such timeout.

    ``first_token`` and ``total`` count from the moment the stream may use a connection, ``idle`` from the last event that
    is not a heartbeat: time spent waiting for the limit or for the pool is never held against the target.
    """

    connect_ns: int = 5_000_000_000
    first_token_ns: int | None = None
    idle_ns: int | None = None
    total_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """Find the greatest level from ``lowest`` to ``highest`` streams at which every SLO holds; each is held so long."""

    lowest: int
    highest: int
    hold_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    name: str
    seed: int
    target: Target | None  # None: start the simulated server of ``sim`` and fill the target in
    sim: SimScript | None
    dialect: str
    custom: "CustomSpec | None" = None  # of the dialect custom
    transport: Transport
    requests: tuple[RequestKind, ...]
    phases: tuple[Phase, ...]
    limit: Limit | None
    drain_ns: int
    timeouts: Timeouts
    failure_pause_ns: int  # closed loop: a slot whose stream failed before its first event waits this long
    slo: tuple[SloRule, ...]
    mix: Mix = Mix.RANDOM
    aborts: tuple[AbortPolicy, ...] = ()
    capacity: Capacity | None = None  # its last phase stands for the greatest level then; see ``level``
    variant: str = ""
    first_stream: int = 0  # number of its first stream: levels of one run count on
    secrets: frozenset[str] = frozenset()  # to be masked in whatever the target says
    share: Share = WHOLE

    def part(self, index: int, count: int) -> "Plan":
        """What process ``index`` of ``count`` does: its share of the streams at every moment, of the limit, and of the pool."""
        share = Share(index=index, count=count)
        limit, pool = self.limit, self.transport.connections
        return replace(
            self,
            share=share,
            phases=tuple(replace(phase, share=share) for phase in self.phases),
            limit=None if limit is None else replace(limit, streams=share.of(limit.streams)),
            transport=self.transport if pool is None else replace(self.transport, connections=share.of(pool)),
        )

    def request_of(self, stream: int, rng: Random) -> RequestKind:
        """The request that stream ``stream`` makes."""
        if self.mix is Mix.RANDOM:
            return rng.choices(self.requests, [kind.weight for kind in self.requests])[0]
        at = (stream - self.first_stream) % sum(int(kind.weight) for kind in self.requests)
        for kind in self.requests:
            at -= int(kind.weight)
            if at < 0:
                return kind
        raise AssertionError("the weights of a turn add up to its length")

    def level(self, streams: int, *, first_stream: int) -> "Plan":
        """One level of the capacity search: a warm-up that settles, as long as a quarter of the hold, and the hold."""
        assert self.capacity is not None
        hold_ns = self.capacity.hold_ns
        parts = ((PhaseKind.WARMUP, hold_ns // 4 + streams * LEVEL_RISE_NS), (PhaseKind.HOLD, hold_ns))
        phases = tuple(
            Phase(index=i, kind=kind, duration_ns=duration_ns, streams_from=streams, streams_to=streams)
            for i, (kind, duration_ns) in enumerate(parts)
        )
        return replace(self, phases=phases, capacity=None, first_stream=first_stream)

    @property
    def load_ns(self) -> int:
        """Length of all phases together, without the drain."""
        return sum(p.duration_ns for p in self.phases)

    @property
    def max_streams(self) -> int:
        """The most streams that may be open at once in this process."""
        asked = self.share.of(max(max(p.streams_from, p.streams_to) for p in self.phases))
        return asked if self.limit is None else min(asked, self.limit.streams)

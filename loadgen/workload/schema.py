"""The workload: a whole file, validated. It becomes the engine's plan, and masked a part of the manifest."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Literal, Self

from pydantic import Field, PrivateAttr, field_validator, model_validator

from loadgen.errors import Problem
from loadgen.workload.address import parse_url
from loadgen.workload.advice import find_warnings
from loadgen.workload.fields import Count, Name, Rule, Seed, VariantName, several
from loadgen.workload.lengths import Fixed, Uniform
from loadgen.workload.masking import credentials_of, mask_named, mask_url, mask_values
from loadgen.workload.plan import Limit, Mix, PhaseKind, Plan, RequestKind, Target, Timeouts
from loadgen.workload.sections import (
    AbortSpec,
    LimitSpec,
    PhaseSpec,
    RequestSpec,
    Section,
    TargetSpec,
    TimeoutsSpec,
    TransportSpec,
)  # fmt: skip
from loadgen.workload.sim_script import SimScript
from loadgen.workload.units import Duration

DEFAULT_MAX_TOKENS: Final = Fixed(128)
"""An answer long enough for hundreds of ITL values a second, short enough that slots turn over within a phase."""


VARIANT_KEYS: Final = ("target", "transport", "requests", "timeouts", "aborts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a workload came from. ``line_of`` gives the line of a path; ``secrets`` must not be shown."""

    source: str = "<python>"
    secrets: frozenset[str] = frozenset()
    line_of: Callable[[tuple[str | int, ...]], int | None] | None = None


class Workload(Section):
    """What ``loadgen.load(path)`` gives. Durations are ns; relative file names were resolved against the file's folder.

    Validation takes ``context={"folder": Path, "origin": Origin}``; the loader gives both.
    """

    loadgen: Literal[1] = Field(description="version of the format")
    name: Name = "workload"
    seed: Seed = 0
    target: TargetSpec
    transport: TransportSpec = TransportSpec()
    requests: tuple[RequestSpec, ...] = Field(default=(RequestSpec(),), min_length=1)
    mix: Mix = Field(default=Mix.RANDOM, description="random by weight, or in-turn: each as often as its weight, in order")
    load: tuple[PhaseSpec, ...] = Field(min_length=1)
    limit: LimitSpec | None = None
    drain: Duration = Field(default=30_000_000_000, description="open streams may end by themselves this long after the load")
    timeouts: TimeoutsSpec = TimeoutsSpec()
    failure_pause: Duration = Field(default=250_000_000, description="a slot whose stream failed before its first event waits")
    aborts: tuple[AbortSpec, ...] = Field(default=(), description="which streams are left, and when")
    slo: tuple[Rule, ...] = ()
    variants: dict[VariantName, dict[str, Any]] = Field(
        default={}, description="name: what is different there (target, transport, requests, timeouts, aborts)"
    )
    rounds: Count = Field(default=1, description="how often the variants take turns")

    _origin: Origin = PrivateAttr(default_factory=Origin)
    _made: dict[str, "Workload"] = PrivateAttr(default_factory=dict)

    def model_post_init(self, context: Any, /) -> None:
        self._origin = (context or {}).get("origin") or Origin()

    @field_validator("load")
    @classmethod
    def _measures_something(cls, load: tuple[PhaseSpec, ...]) -> tuple[PhaseSpec, ...]:
        if load and all(phase.kind is PhaseKind.WARMUP for phase in load):
            raise ValueError("has warm-up only, so nothing would be measured: add a phase such as {hold: 60s, streams: 50}")
        return load

    @field_validator("variants")
    @classmethod
    def _differ_in_what_may_differ(cls, variants: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        for name, changes in variants.items():
            if other := changes.keys() - VARIANT_KEYS:
                allowed = ", ".join(VARIANT_KEYS)
                raise ValueError(
                    f"{name} changes {', '.join(sorted(other))}: variants may differ in {allowed}, and get the same load"
                )
        return variants

    @model_validator(mode="after")
    def _turns_are_whole(self) -> Self:
        if self.mix is Mix.IN_TURN and any(request.weight != int(request.weight) for request in self.requests):
            raise several("Workload", [(("mix",), "in-turn needs whole weights: so many streams of each in a turn", None)])
        return self

    @model_validator(mode="after")
    def _variants_have_rounds(self) -> Self:
        if self.rounds > 1 and not self.variants:
            raise several("Workload", [(("rounds",), "goes with variants, which take turns", None)])
        if self.variants and self.load[-1].capacity is not None:
            raise several("Workload", [(("variants",), "goes with phases of a fixed load, not with a capacity search", None)])
        return self

    @model_validator(mode="after")
    def _capacity_stands_alone(self) -> Self:
        for index, phase in enumerate(self.load):
            if phase.capacity is None:
                continue
            place = ("load", index, "capacity")
            if len(self.load) > 1:
                raise several("Workload", [(place, "must be the only phase: each of its levels warms up by itself", None)])
            if not self.slo:
                raise several("Workload", [(place, 'needs slo, such as ["ttft p99 < 2s"]: capacity is where one breaks', None)])
            if self.limit is not None and self.limit.streams < phase.capacity.highest:
                message = (
                    f"searches up to {phase.capacity.highest} streams, but limit.streams lets {self.limit.streams} be open"
                )
                raise several("Workload", [(place, message, None)])
        return self

    @field_validator("requests")
    @classmethod
    def _asks_something(cls, requests: tuple[RequestSpec, ...]) -> tuple[RequestSpec, ...]:
        if requests and not any(request.weight for request in requests):
            raise ValueError("has weights of 0 only: give at least one entry a weight above 0")
        return requests

    @field_validator("aborts")
    @classmethod
    def _leaves_no_more_than_all(cls, aborts: tuple[AbortSpec, ...]) -> tuple[AbortSpec, ...]:
        if (total := sum(abort.share for abort in aborts)) > 1 + 1e-9:
            raise ValueError(f"has shares of {total:.0%} together: a stream is left once, so they must not exceed 100%")
        return aborts

    @model_validator(mode="after")
    def _sections_agree(self) -> Self:
        if self.target.sim is not None and self.transport.unix is not None:
            message = "goes with target.url: the simulated server listens on a TCP port of its own"
            raise several("Workload", [(("transport", "unix"), message, None)])
        return self

    @property
    def source(self) -> str:
        """The file it came from, as it was named."""
        return self._origin.source

    @cached_property
    def warnings(self) -> tuple[Problem, ...]:
        """What is allowed and probably not meant."""
        line_of = self._origin.line_of
        return tuple(
            Problem(path=".".join(map(str, path)), message=message, line=None if line_of is None else line_of(path))
            for path, message in find_warnings(self)
        )

    @property
    def masked(self) -> dict[str, Any]:
        """The workload with all defaults, in the form of a file, secrets masked: safe to show and to store."""
        data = self.model_dump(mode="json", context={"units": True})
        target = data["target"]
        target["headers"] = mask_named(target["headers"])
        if "url" in target:
            target["url"] = mask_url(target["url"])
        if "custom" in target:
            target["custom"]["request"]["body"] = mask_named(target["custom"]["request"]["body"])
        for written, request in zip(data["requests"], self.requests, strict=True):
            length = self.max_tokens(request)
            written["max_tokens"] = None if length is None else length.written()
            written["body"] = mask_named(written["body"])
        masked: dict[str, Any] = mask_values(data, self._origin.secrets)
        made = {name: variant.masked for name, variant in self._made.items()}
        masked["variants"] = {
            name: {key: told[key] for key in VARIANT_KEYS if told[key] != masked[key]} for name, told in made.items()
        }
        return masked

    def max_tokens(self, request: RequestSpec) -> Fixed | Uniform | None:
        """What a request asks for. Plain SSE has no such thing; null says that the request shall name none."""
        if "max_tokens" in request.model_fields_set or self.target.dialect == "plain-sse":
            return request.max_tokens
        return DEFAULT_MAX_TOKENS

    def plans(self) -> dict[str, Plan]:
        """What the engine follows, one plan a variant; under "" where there are none."""
        if not self._made:
            return {"": self.to_plan()}
        return {name: replace(made.to_plan(), variant=name) for name, made in self._made.items()}

    def to_plan(self) -> Plan:
        """What the engine follows, variants left aside."""
        timeouts = self.timeouts
        return Plan(
            name=self.name,
            seed=self.seed,
            target=self._build_target(),
            sim=self._build_sim(),
            dialect=self.target.dialect,
            custom=self.target.custom,
            transport=self.transport.to_transport(),
            mix=self.mix,
            requests=tuple(self._build_request(index, request) for index, request in enumerate(self.requests)),
            phases=tuple(phase.to_phase(index) for index, phase in enumerate(self.load)),
            limit=None if self.limit is None else Limit(streams=self.limit.streams, when_full=self.limit.when_full),
            drain_ns=self.drain,
            timeouts=Timeouts(
                connect_ns=timeouts.connect,
                first_token_ns=timeouts.first_token,
                idle_ns=timeouts.idle,
                total_ns=timeouts.total,
            ),
            failure_pause_ns=self.failure_pause,
            slo=self.slo,
            capacity=None if self.load[-1].capacity is None else self.load[-1].capacity.to_capacity(),
            aborts=tuple(abort.to_policy() for abort in self.aborts),
            secrets=self._origin.secrets | credentials_of(self.target.headers),
        )

    def _build_target(self) -> Target | None:
        if self.target.url is None:
            return None
        address = parse_url(self.target.url)
        return Target(
            url=mask_url(self.target.url),
            scheme=address.scheme,
            host=address.host,
            port=address.port,
            path=address.path,
            dialect=self.target.dialect,
            headers=tuple(self.target.headers.items()),
            model=self.target.model,
            unix_path=self.transport.unix,
            backend_header=self.target.backend_header,
        )

    def _build_sim(self) -> SimScript | None:
        """A simulated server without a seed of its own takes that of the run."""
        sim = self.target.sim
        return sim if sim is None or sim.seed is not None else sim.model_copy(update={"seed": self.seed})

    def _build_request(self, index: int, request: RequestSpec) -> RequestKind:
        return RequestKind(
            index=index,
            weight=request.weight,
            prompt=request.prompt.build(),
            max_tokens=self.max_tokens(request),
            body=request.body,
        )

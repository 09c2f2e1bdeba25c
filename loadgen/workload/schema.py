"""The workload file's schema: what keys there are, what they may hold, and how they become a plan.

Pydantic says what is wrong with a value; `loader` says where in the file. The format is a contract (docs/workload.md).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import SplitResult, urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from loadgen.errors import Problem
from loadgen.wire.http1_request import build_request
from loadgen.workload.lengths import Fixed, Uniform
from loadgen.workload.plan import (
    Length,
    Limit,
    Phase,
    PhaseKind,
    Plan,
    Prompt,
    RequestKind,
    Target,
    Timeouts,
    Tls,
    Transport,
    WhenFull,
)  # fmt: skip
from loadgen.workload.prompts import FilePrompt, SyntheticPrompt, TextPrompt
from loadgen.workload.sim_script import SimScript
from loadgen.workload.slo import parse_slo
from loadgen.workload.units import Duration

DIALECTS: Final = ("openai-chat", "plain-sse")  # checked against the dialect table by a test
DEFAULT_PROMPT: Final = "Say hello."
DEFAULT_MAX_TOKENS: Final = 128
# Framing is ours: these would contradict what the transport sends.
RESERVED_HEADERS: Final = frozenset({"content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer"})

StreamCount = Annotated[int, Field(ge=1, strict=True)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


def _http_version(value: object) -> object:
    """``http: 1.1`` without quotes is a YAML float; everybody means the version."""
    text = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    if text in {"2", "3", "grpc", "2.0", "3.0"}:
        raise ValueError(f"this version of loadgen cannot do HTTP/{text} yet; it speaks 1.1")
    return text


def _length(value: object) -> Length:
    match value:
        case bool():
            pass
        case int() if value >= 1:
            return Fixed(value)
        case {"uniform": [int(low), int(high)]} if len(value) == 1 and 1 <= low <= high:
            return Uniform(low, high)
        case Fixed() | Uniform():
            return value
    raise ValueError(f"must be a whole number of at least 1, or {{uniform: [from, to]}}, got {value!r}")


def _streams(value: object) -> int | tuple[int, int]:
    match value:
        case bool():
            pass
        case int() if value >= 1:
            return value
        case [bool(), _] | [_, bool()]:
            pass
        case [int(first), int(last)] if first >= 0 and last >= 0 and max(first, last) >= 1:
            return first, last
        case int():
            raise ValueError(f"must be at least 1, got {value}")
    raise ValueError(f"must be a whole number of streams, or [from, to] in a ramp, got {value!r}")


def _connections(value: object) -> int | None:
    match value:
        case "per-stream" | None:
            return None
        case bool():
            pass
        case int() if value >= 1:
            return value
    raise ValueError(f"must be per-stream or a number of at least 1, got {value!r}")


def _rule(text: str) -> str:
    parse_slo(text)
    return text


LengthField = Annotated[Any, BeforeValidator(_length)]
RuleField = Annotated[str, Field(strict=True), AfterValidator(_rule)]


class TargetSpec(_Model):
    url: str | None = Field(None, strict=True)
    sim: SimScript | None = None
    dialect: Literal[DIALECTS] = "openai-chat"  # type: ignore[valid-type]
    headers: dict[str, str] = {}
    model: str | None = Field(None, strict=True, min_length=1)

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str | None) -> str | None:
        if url is not None:
            split_url(url)
        return url

    @field_validator("headers", mode="before")
    @classmethod
    def _check_headers(cls, headers: Any) -> Any:
        if not isinstance(headers, dict):
            raise ValueError(f"must be a mapping of names to values, got {headers!r}")  # noqa: TRY004 - pydantic wants it
        for name, value in headers.items():
            if not isinstance(value, str):
                raise ValueError(f"the value of {name} must be a string: put it in quotes")  # noqa: TRY004
            if str(name).lower() in RESERVED_HEADERS:
                raise ValueError(f"{name} is set by loadgen itself")
            build_request("GET", "/", [(str(name), value)])
        return headers

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if (self.url is None) == (self.sim is None):
            raise ValueError("give either url (a real endpoint) or sim (the simulated server)")
        if self.sim is not None and self.model == "auto":
            raise ValueError("model: auto asks a real endpoint; the simulated server takes any name")
        return self


class TlsSpec(_Model):
    verify: bool = Field(True, strict=True)
    ca: Path | None = None
    server_name: str | None = None

    @field_validator("ca")
    @classmethod
    def _exists(cls, path: Path | None, info: ValidationInfo) -> Path | None:
        return None if path is None else _existing_file(path, info)


class TransportSpec(_Model):
    http: Annotated[Literal["1.1"], BeforeValidator(_http_version)] = "1.1"
    connections: Annotated[int | None, BeforeValidator(_connections)] = None
    tls: TlsSpec = TlsSpec()
    unix: Path | None = None


class PromptSpec(_Model):
    """Exactly one of the keys; a plain string is ``text``."""

    text: str | None = Field(None, strict=True)
    file: Path | None = None
    characters: LengthField | None = None
    _source: Prompt = PrivateAttr()

    @model_validator(mode="before")
    @classmethod
    def _sugar(cls, data: Any) -> Any:
        return {"text": data} if isinstance(data, str) else data

    @field_validator("file")
    @classmethod
    def _exists(cls, path: Path | None, info: ValidationInfo) -> Path | None:
        return None if path is None else _existing_file(path, info)

    @model_validator(mode="after")
    def _build(self) -> Self:
        given = [key for key in ("text", "file", "characters") if getattr(self, key) is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of text, file or characters")
        if self.text is not None:
            self._source = TextPrompt(self.text)
        elif self.file is not None:
            self._source = FilePrompt(self.file)
        else:
            self._source = SyntheticPrompt(self.characters)
        return self

    @property
    def source(self) -> Prompt:
        return self._source


class RequestSpec(_Model):
    weight: float = Field(1.0, gt=0, strict=True)
    prompt: PromptSpec = PromptSpec(text=DEFAULT_PROMPT)
    max_tokens: LengthField | None = None
    body: dict[str, Any] = {}


class PhaseSpec(_Model):
    """One of warmup, hold or ramp, with its number of streams."""

    warmup: Duration | None = Field(None, gt=0)
    hold: Duration | None = Field(None, gt=0)
    ramp: Duration | None = Field(None, gt=0)
    streams: Annotated[Any, BeforeValidator(_streams)]

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if len(self._kinds()) != 1:
            raise ValueError("must have exactly one of warmup, hold or ramp, with its duration")
        if (self.ramp is not None) != isinstance(self.streams, tuple):
            raise ValueError("a ramp takes streams: [from, to], warmup and hold one number")
        return self

    def _kinds(self) -> list[PhaseKind]:
        return [kind for kind in PhaseKind if getattr(self, kind) is not None]

    def to_phase(self, index: int) -> Phase:
        (kind,) = self._kinds()
        first, last = self.streams if isinstance(self.streams, tuple) else (self.streams, self.streams)
        return Phase(index=index, kind=kind, duration_ns=getattr(self, kind), streams_from=first, streams_to=last)


class LimitSpec(_Model):
    streams: StreamCount
    when_full: WhenFull = WhenFull.QUEUE


class TimeoutsSpec(_Model):
    """No total by default: a long answer is no failure, and a total is what proxies get wrong (docs/workload.md)."""

    connect: Duration = Field(5_000_000_000, gt=0)
    first_token: Duration | None = Field(120_000_000_000, gt=0)
    idle: Duration | None = Field(120_000_000_000, gt=0)
    total: Duration | None = Field(None, gt=0)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.total is not None:
            for name in ("first_token", "idle"):
                given = getattr(self, name)
                if name in self.model_fields_set and given is not None and given > self.total:
                    raise ValueError(f"{name} is longer than total, so it could never fire")
        return self


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a workload came from; ``lines`` gives the line of a dotted path."""

    source: str
    masked: dict[str, Any]
    lines: dict[str, int]


class Workload(_Model):
    """A whole workload file. What `loadgen.load` returns."""

    loadgen: Literal[1]
    name: str = Field("workload", strict=True, min_length=1)
    seed: int = Field(0, strict=True)
    target: TargetSpec
    transport: TransportSpec = TransportSpec()
    requests: tuple[RequestSpec, ...] = Field((RequestSpec(),), min_length=1)
    load: tuple[PhaseSpec, ...] = Field(min_length=1)
    limit: LimitSpec | None = None
    drain: Duration = Field(30_000_000_000, description="open streams may end by themselves this long after the load")
    timeouts: TimeoutsSpec = TimeoutsSpec()
    failure_pause: Duration = Field(250_000_000, description="a slot pauses this long after a stream that was refused")
    slo: tuple[RuleField, ...] = ()
    _origin: Origin = PrivateAttr(default_factory=lambda: Origin("<python>", {}, {}))

    @model_validator(mode="after")
    def _measures_something(self) -> Self:
        if all(phase.warmup is not None for phase in self.load):
            raise ValueError("load has warm-up phases only: nothing would be measured; add a hold or a ramp")
        return self

    @property
    def source(self) -> str:
        """The file it came from."""
        return self._origin.source

    @property
    def masked(self) -> dict[str, Any]:
        """The resolved file, secrets masked: safe to write and to show."""
        return self._origin.masked

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """Things that are allowed and probably not meant."""
        found = []
        limit = self.limit.streams if self.limit is not None else None
        for index, phase in enumerate(self.load):
            streams = phase.streams if isinstance(phase.streams, int) else max(phase.streams)
            if limit is not None and streams > limit:
                text = f"asks for {streams} streams, limit.streams lets {limit} be open; the rest will queue or drop"
                path = f"load.{index}.streams"
                found.append(Problem(path=path, message=text, line=self._origin.lines.get(path)))
        if not any(phase.warmup is not None for phase in self.load):
            text = "no warmup: the first streams meet cold caches and are measured"
            found.append(Problem(path="load", message=text, line=self._origin.lines.get("load")))
        return tuple(found)

    def to_plan(self) -> Plan:
        """The plan that the engine follows."""
        spec = self.target
        transport = self.transport
        default_length = Fixed(DEFAULT_MAX_TOKENS) if spec.dialect != "plain-sse" else None
        return Plan(
            name=self.name,
            seed=self.seed,
            target=None if spec.url is None else _target(spec, transport),
            sim=spec.sim,
            dialect=spec.dialect,
            transport=Transport(
                http=transport.http,
                connections=transport.connections,
                tls=Tls(
                    verify=transport.tls.verify,
                    ca=str(transport.tls.ca) if transport.tls.ca else None,
                    server_name=transport.tls.server_name,
                ),
            ),
            requests=tuple(
                RequestKind(
                    index=index, weight=request.weight, prompt=request.prompt.source,
                    max_tokens=request.max_tokens or default_length, body=request.body,
                )
                for index, request in enumerate(self.requests)
            ),
            phases=tuple(phase.to_phase(index) for index, phase in enumerate(self.load)),
            limit=None if self.limit is None else Limit(streams=self.limit.streams, when_full=self.limit.when_full),
            drain_ns=self.drain,
            timeouts=Timeouts(
                connect_ns=self.timeouts.connect, first_token_ns=self.timeouts.first_token,
                idle_ns=self.timeouts.idle, total_ns=self.timeouts.total,
            ),
            failure_pause_ns=self.failure_pause,
            slo=tuple(parse_slo(rule) for rule in self.slo),
        )  # fmt: skip


def split_url(url: str) -> SplitResult:
    """The parts of a target URL. Raises ValueError with the way out for everything that is no plain http(s) URL."""
    if any(ord(c) <= 0x20 or ord(c) >= 0x7F for c in url):
        raise ValueError(f"must be a URL of visible ASCII characters (percent-encode the rest), got {url!r}")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"is no URL: {error}") from None
    if parts.scheme not in {"http", "https"}:
        raise ValueError(f"must begin with http:// or https://, got {url!r}")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not carry a user or password: send them in target.headers (Authorization)")
    if not parts.hostname:
        raise ValueError(f"has no host: {url!r}")
    if port == 0:
        raise ValueError(f"has port 0: {url!r}")
    if parts.fragment:
        raise ValueError(f"has a fragment (#{parts.fragment}), which is never sent")
    return parts


def _target(spec: TargetSpec, transport: TransportSpec) -> Target:
    assert spec.url is not None
    parts = split_url(spec.url)
    return Target(
        url=spec.url,
        scheme=parts.scheme,
        host=parts.hostname or "",
        port=parts.port or (443 if parts.scheme == "https" else 80),
        path=(parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
        dialect=spec.dialect,
        headers=tuple(spec.headers.items()),
        model=spec.model,
        unix_path=str(transport.unix) if transport.unix else None,
    )


def _existing_file(path: Path, info: ValidationInfo) -> Path:
    """The path, taken relative to the workload's folder. Raises ValueError when there is no such file."""
    folder: Path = (info.context or {}).get("folder", Path())
    found = path if path.is_absolute() else folder / path
    if not found.is_file():
        raise ValueError(f"no such file: {found}")
    return found

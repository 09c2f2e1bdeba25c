"""The sections of a workload file, one model each. Checks that need two keys of one section stand here too."""

from typing import Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)  # fmt: skip

from loadgen.workload.custom import CustomSpec
from loadgen.workload.fields import (
    Body,
    CaFile,
    Connections,
    ConnectionWindow,
    Count,
    Flag,
    HeaderName,
    Headers,
    HttpVersion,
    Positive,
    PromptFileField,
    Text,
    UnixSocket,
    Url,
    Weight,
    Window,
    describe,
    several,
)  # fmt: skip
from loadgen.workload.lengths import LengthField
from loadgen.workload.plan import (
    AbortAfter,
    AbortBy,
    AbortPolicy,
    Capacity,
    Phase,
    PhaseKind,
    Prompt,
    Tls,
    Transport,
    WhenFull,
    Windows,
)
from loadgen.workload.prompts import CharactersPrompt, TextPrompt
from loadgen.workload.sim_script import SimScript
from loadgen.workload.units import Duration, Share, write_duration

_HTTP2_ONLY: Final = ("streams_per_connection", "windows")
DEFAULT_PROMPT: Final = "Say hello."
STREAMS_PER_CONNECTION: Final = 100  # what most servers allow: nginx 128, haproxy, apache and hypercorn 100, caddy 250

DialectName = Literal[  # the keys of dialect.DIALECTS, and custom; a test compares
    "openai-chat", "openai-completions", "openai-responses", "anthropic-messages", "azure", "gemini", "llamacpp", "mistral",
    "ollama", "ollama-generate", "plain-sse", "tgi", "triton", "custom",
]  # fmt: skip


class Section(BaseModel):
    """Frozen, unknown keys refused; pydantic's own messages never show what was given (it may be a credential)."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, hide_input_in_errors=True)


class _Choice(Section):
    """A section of which some keys exclude each other: those that are not given are left out of dumps."""

    @model_serializer(mode="wrap")
    def _without_nulls(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in handler(self).items() if value is not None}

    def _given(self, *names: str) -> list[str]:
        return [name for name in names if getattr(self, name) is not None]


class TargetSpec(_Choice):
    url: Url | None = Field(default=None, repr=False)
    sim: SimScript | None = None
    dialect: DialectName = "openai-chat"
    custom: CustomSpec | None = Field(default=None, description="an API of your own, in JSON pointers; with dialect: custom")
    headers: Headers = Field(default={}, repr=False)
    model: Text | None = Field(default=None, description="auto: the first one that GET /v1/models names")
    backend_header: HeaderName | None = Field(default=None, description="response header that names who served a stream")

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        match self._given("url", "sim"):
            case []:
                raise ValueError("needs url (where streams go) or sim (the simulated server)")
            case [_, _]:
                raise ValueError("takes url or sim, not both; to override one, --set target.sim=null")
        return self

    @model_validator(mode="after")
    def _custom_fits(self) -> Self:
        wrong = ""
        if self.dialect == "custom":
            if self.custom is None:
                wrong = "is missing: say where an event has its text, such as custom: {text: /output, finish: /done}"
            elif self.sim is not None:
                wrong = "goes with target.url: the simulated server speaks the dialects that have a name"
        elif self.custom is not None:
            wrong = f"goes with dialect: custom, and the dialect is {self.dialect}"
        if wrong:
            raise several("TargetSpec", [(("custom",), wrong, None)])
        return self


class TlsSpec(Section):
    verify: Flag = True
    ca: CaFile | None = None
    server_name: Text | None = Field(default=None, description="SNI and name in the certificate, if not the URL's host")


class WindowsSpec(Section):
    """What the peer may send ahead, HTTP/2. Defaults that never hold a token stream back, and bound what a peer can pile up."""

    stream: Window = 1 << 20
    connection: ConnectionWindow = 16 << 20


class TransportSpec(Section):
    http: HttpVersion = "1.1"
    connections: Connections = Field(
        default="per-stream", description="per-stream, as-needed (kept alive), or a pool of so many; HTTP/2: as-needed"
    )
    streams_per_connection: Count | None = Field(default=None, description="HTTP/2 only; 100 unless the peer wants fewer")
    windows: WindowsSpec = WindowsSpec()
    tls: TlsSpec = TlsSpec()
    read_spacing: Duration = Field(
        default=0, le=10_000_000, description="what arrived may wait so long to be read with more: saves CPU, stamps stay true"
    )
    unix: UnixSocket | None = Field(default=None, description="a unix socket to connect to instead of the URL's host and port")

    @model_validator(mode="after")
    def _keys_fit_version(self) -> Self:
        given = self.model_fields_set
        problems: list[tuple[tuple[str | int, ...], str, Any]] = []
        if self.http == "1.1":
            problems = [
                ((key,), 'goes with http: "2"', None) for key in _HTTP2_ONLY if key in given and getattr(self, key) is not None
            ]
        else:
            if self.read_spacing:
                message = "goes with http: 1.1: streams of an HTTP/2 connection share a receive queue, to be read at once"
                problems.append((("read_spacing",), message, None))
            if "connections" not in given:
                object.__setattr__(self, "connections", "as-needed")  # frozen from here on
            if self.connections == "per-stream":
                if (self.streams_per_connection or 1) > 1:
                    message = "goes with connections: as-needed or a number, not with per-stream"
                    problems.append((("streams_per_connection",), message, None))
            elif self.streams_per_connection is None:
                object.__setattr__(self, "streams_per_connection", STREAMS_PER_CONNECTION)
        if problems:
            raise several("TransportSpec", problems)
        return self

    @model_serializer(mode="wrap")
    def _what_fits_version(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        return data if self.http != "1.1" else {k: v for k, v in data.items() if k not in _HTTP2_ONLY}

    def to_transport(self) -> Transport:
        return Transport(
            http=self.http,
            connections=self.connections if isinstance(self.connections, int) else None,
            as_needed=self.connections == "as-needed",
            streams_per_connection=self.streams_per_connection or 1,
            windows=Windows(stream=self.windows.stream, connection=self.windows.connection),
            read_spacing_ns=self.read_spacing,
            tls=Tls(verify=self.tls.verify, ca=self.tls.ca, server_name=self.tls.server_name),
        )


class PromptSpec(_Choice):
    """``prompt: "..."`` is short for ``{text: "..."}``."""

    text: Text | None = None
    file: PromptFileField | None = None
    characters: LengthField | None = None

    @model_validator(mode="before")
    @classmethod
    def _expand_text(cls, data: Any) -> Any:
        return {"text": data} if isinstance(data, str) else data

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if len(given := self._given("text", "file", "characters")) != 1:
            raise ValueError(f"must have exactly one of text, file, characters, got {' and '.join(given) or 'none'}")
        return self

    def build(self) -> Prompt:
        if self.file is not None:
            return self.file
        return TextPrompt(self.text or "") if self.characters is None else CharactersPrompt(self.characters)


class RequestSpec(Section):
    weight: Weight = 1.0
    prompt: PromptSpec = PromptSpec(text=DEFAULT_PROMPT)
    max_tokens: LengthField | None = Field(default=None, description="null: the request names none; left out: 128")
    body: Body = Field(default={}, description="merged over what the dialect sends, and has the last word")


class CapacitySpec(Section):
    """``{from: 10, to: 5000, hold: 20s}``."""

    lowest: Count = Field(default=1, alias="from")
    highest: Count = Field(alias="to")
    hold: Positive = 20_000_000_000

    @model_validator(mode="after")
    def _rises(self) -> Self:
        if self.lowest > self.highest:
            raise ValueError(f"must have from at most to, got from {self.lowest} to {self.highest}")
        return self

    @model_serializer(mode="wrap")
    def _with_names_of_the_file(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data = handler(self)
        return {"from": data["lowest"], "to": data["highest"], "hold": data["hold"]}

    def to_capacity(self) -> Capacity:
        return Capacity(lowest=self.lowest, highest=self.highest, hold_ns=self.hold)


class PhaseSpec(_Choice):
    """Exactly one of warmup, hold, ramp with its duration. ``streams`` is one number, in a ramp ``[from, to]``.

    Or ``capacity``, which has its streams in itself.
    """

    warmup: Positive | None = None
    hold: Positive | None = None
    ramp: Positive | None = None
    capacity: CapacitySpec | None = None
    streams: Any  # after the kinds: its check looks at them

    @model_validator(mode="before")
    @classmethod
    def _capacity_has_its_own(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("capacity"), dict):
            if "streams" in data:
                raise ValueError("takes capacity or streams, not both: the search chooses the streams, from and to bound it")
            return {**data, "streams": data["capacity"].get("to", 1)}
        return data

    @field_validator("streams", mode="plain")
    @classmethod
    def _read_streams(cls, value: Any, info: ValidationInfo) -> int | tuple[int, int]:
        given = {kind for kind in PhaseKind if info.data.get(kind) is not None}
        is_ramp, is_other = given == {PhaseKind.RAMP}, bool(given) and PhaseKind.RAMP not in given
        if isinstance(value, list | tuple):
            if is_other:
                raise ValueError("must be one number; [from, to] is for a ramp")
            if len(value) != 2 or not all(map(_is_whole, value)):
                raise ValueError("must be two whole numbers [from, to], such as [1, 400]")
            first, last = value
            if first < 0 or last < 1:
                raise ValueError(f"must be [from, to] with from at least 0 and to at least 1, got [{first}, {last}]")
            return first, last
        if not _is_whole(value):
            raise ValueError(f"must be a whole number, got {describe(value)}")
        if is_ramp:
            raise ValueError(f"must be [from, to] in a ramp, such as [1, {max(value, 1)}], got {value}")
        if value < 1:
            raise ValueError(f"must be at least 1, got {value}")
        return int(value)

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if len(given := self._given(*PhaseKind, "capacity")) != 1:
            raise ValueError(f"must have exactly one of warmup, hold, ramp, capacity, got {' and '.join(given) or 'none'}")
        return self

    @model_serializer(mode="wrap")
    def _as_written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        unset = {"streams"} if self.capacity is not None else set()
        return {key: value for key, value in handler(self).items() if value is not None and key not in unset}

    @property
    def kind(self) -> PhaseKind:
        if self.capacity is not None:
            return PhaseKind.HOLD
        return PhaseKind(self._given(*PhaseKind)[0])

    def to_phase(self, index: int) -> Phase:
        first, last = self.streams if isinstance(self.streams, tuple) else (self.streams, self.streams)
        kind = self.kind
        duration_ns = self.capacity.hold if self.capacity is not None else getattr(self, kind)
        return Phase(index=index, kind=kind, duration_ns=duration_ns, streams_from=first, streams_to=last)


class LimitSpec(Section):
    streams: Count
    when_full: WhenFull = WhenFull.QUEUE


class AfterSpec(_Choice):
    """``after: headers`` and ``after: sent`` are words; the others carry how much."""

    tokens: Count | None = None
    time: Positive | None = None
    headers: Literal[True] | None = None
    sent: Literal[True] | None = None

    @model_validator(mode="before")
    @classmethod
    def _expand_word(cls, data: Any) -> Any:
        if isinstance(data, str):
            if data not in {AbortAfter.HEADERS, AbortAfter.SENT}:
                raise ValueError(f"must be headers, sent, {{tokens: 20}} or {{time: 300ms}}, got {describe(data)}")
            return {data: True}
        return data

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if len(given := self._given(*AbortAfter)) != 1:
            raise ValueError(f"must have exactly one of tokens, time, headers, sent, got {' and '.join(given) or 'none'}")
        return self


class AbortSpec(Section):
    share: Share = Field(gt=0, description="of all streams")
    after: AfterSpec
    by: AbortBy = AbortBy.CLOSE

    def to_policy(self) -> AbortPolicy:
        after = self.after
        (kind,) = after._given(*AbortAfter)  # noqa: SLF001 - a section of ours
        amount = getattr(after, kind)
        return AbortPolicy(share=self.share, after=AbortAfter(kind), amount=0 if amount is True else amount, by=self.by)


class TimeoutsSpec(Section):
    """``null`` switches a timeout off.

    None is set for the total by default: a stream that is long but alive is no failure, and cutting it would take the
    slowest values out of every percentile. ``first_token`` and ``idle`` find the dead ones: two minutes let a loaded
    server be slow, and still end the streams of one that hangs.
    """

    total: Positive | None = None  # first: the checks of the others look at it
    connect: Positive = 5_000_000_000
    first_token: Positive | None = 120_000_000_000
    idle: Positive | None = 120_000_000_000

    @field_validator("first_token", "idle")
    @classmethod
    def _within_total(cls, value: int | None, info: ValidationInfo) -> int | None:
        total = info.data.get("total")
        if value is not None and total is not None and value > total:
            raise ValueError(f"must not be longer than total ({write_duration(total)}), got {write_duration(value)}")
        return value


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)

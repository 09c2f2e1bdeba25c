"""What the simulated inference server does: the `sim:` part of a workload, and the file of `loadgen serve --script`.

Durations are ns once loaded. ``sim.schedule`` and ``sim.scheduler`` say what the values mean token by token.
"""

from enum import StrEnum
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from loadgen.workload.units import Duration, Share

Count = Annotated[int, Field(ge=1, strict=True)]
CountOrNone = Annotated[int, Field(ge=0, strict=True)]
Switch = Annotated[bool, Field(strict=True)]


class Pace(StrEnum):
    """``own``: each stream has an absolute schedule of its own. ``batched``: one decode step for all, as engines do it."""

    OWN = "own"
    BATCHED = "batched"


class FaultKind(StrEnum):
    """What goes wrong with a share of the streams."""

    ERROR_OBJECT = "error_object"  # data: {"error": ...}, then [DONE], as vLLM does
    ERROR_EVENT = "error_event"  # event: error
    CUT_IN_CHUNK = "cut_in_chunk"  # the connection closes inside a chunk
    CUT_CLEAN = "cut_clean"  # the body ends well-framed, without finish or end mark
    NO_DONE = "no_done"  # everything but the end mark
    STALL = "stall"  # nothing more ever comes
    RESET = "reset"  # RST
    STATUS = "status"  # an error status instead of a stream
    HTML = "html"  # 200 with an HTML page instead of a stream


UNTIMED_FAULTS: Final = frozenset({FaultKind.NO_DONE, FaultKind.STATUS, FaultKind.HTML})  # their moment is given


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Prefill(_Model):
    base: Duration = Field(200_000_000, description="time from admission to the first token, whatever the prompt")
    per_token: Duration = Field(0, description="and this for each prompt token; a token is 4 characters, rounded up")


class Decode(_Model):
    step: Duration = Field(20_000_000, description="one event for every decoding stream takes this long", gt=0)
    per_stream: Duration = Field(0, description="and this much longer for each decoding stream (batched pace only)")


class Kv(_Model):
    blocks: Count = Field(8_192, description="KV-cache blocks there are")
    block_tokens: Count = Field(16, description="tokens one block holds")


class Fault(_Model):
    share: Share = Field(description="this share of the streams, drawn by the seed")
    kind: FaultKind = Field(description="what goes wrong")
    after: CountOrNone = Field(0, description="tokens before it happens; streams that end earlier end well")
    status: int = Field(503, ge=400, le=599, strict=True, description="for kind: status")

    @model_validator(mode="after")
    def _keys_fit_kind(self) -> Self:
        if self.kind in UNTIMED_FAULTS and self.after:
            raise ValueError(f"after does not go with kind {self.kind}, which has its own moment")
        if self.kind is not FaultKind.STATUS and self.status != Fault.model_fields["status"].default:
            raise ValueError(f"status goes with kind status only, not with {self.kind}")
        return self


class SimScript(_Model):
    """A simulated engine and how it answers. ``ttft`` and ``itl`` are None once loaded: they became the long forms."""

    ttft: Duration | None = Field(
        None, exclude=True, description="short for prefill.base, and for pace: own unless a pace is given"
    )
    itl: Duration | None = Field(
        None, exclude=True, gt=0, description="short for decode.step, and for pace: own unless a pace is given"
    )
    prefill: Prefill = Field(Prefill(), description="from admission to the first token")
    decode: Decode = Field(Decode(), description="between two tokens")
    pace: Pace = Field(Pace.BATCHED, description="batched (one decode step for all) or own (each stream for itself)")
    jitter: Share = Field(0.0, description="prefill and gaps vary by up to this share, seeded")
    tokens_per_event: Count = Field(1, description="tokens in one event, made in one step (speculative decoding)")
    max_batch: Count = Field(256, description="streams that run at once; more wait")
    queue: CountOrNone = Field(1_024, description="streams that may wait; more are answered 429")
    reject_above: Count | None = Field(None, description="answer 429 above this many streams, waiting ones included")
    kv: Kv = Field(Kv(), description="the cache; a stream holds blocks for prompt and max_tokens until it ends")
    role_first: Duration | None = Field(
        None, description="send the role-only chunk this long after arrival; null: together with the first token"
    )
    reasoning: CountOrNone = Field(0, description="the first so many tokens come as reasoning, where the API has it")
    usage: Literal["asked", True, False] = Field(
        "asked", description="send usage: asked (as the API does; of OpenAI's by stream_options), true or false"
    )
    done: Switch = Field(True, description="send the end mark, such as [DONE]")
    stamps: Switch = Field(True, description="each chunk says when it was sent (CLOCK_MONOTONIC and wall clock, ns)")
    heartbeat: Duration | None = Field(None, gt=0, description="send a comment (or ping event) after so long a silence")
    max_concurrent_streams: Count = Field(250, description="HTTP/2: streams that a client may have open on one connection")
    keep_alive: Switch = Field(True, description="false: close the connection after each answer")
    faults: tuple[Fault, ...] = Field((), description="what goes wrong, and how often")
    seed: Annotated[int, Field(strict=True)] | None = Field(None, description="null: the seed of the run, or 0")

    @model_validator(mode="after")
    def _expand_shorthand(self) -> Self:
        """Done after validation, so that a bad ``ttft`` is reported as ``ttft``."""
        expanded: dict[str, object] = {}
        for short, long in (("ttft", "prefill"), ("itl", "decode")):
            if getattr(self, short) is not None and long in self.model_fields_set:
                raise ValueError(f"give {short} or {long}, not both")
        if self.ttft is not None:
            expanded |= {"ttft": None, "prefill": Prefill.model_construct(base=self.ttft)}
        if self.itl is not None:
            expanded |= {"itl": None, "decode": Decode.model_construct(step=self.itl)}
        if expanded and "pace" not in self.model_fields_set:
            expanded["pace"] = Pace.OWN
        for name, value in expanded.items():
            object.__setattr__(self, name, value)  # frozen from here on
        return self

    @model_validator(mode="after")
    def _shares_fit(self) -> Self:
        if sum(fault.share for fault in self.faults) > 1 + 1e-9:
            raise ValueError("the shares of all faults together must not exceed 100%")
        return self

    def to_json(self) -> str:
        """For the child process; ``from_json`` gives an equal script."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What ``to_json`` wrote: durations are ns there already, so this bypasses the units."""
        return cls.model_validate_json(text, context={"ns": True})

"""What the simulated inference server does: the `sim:` part of a workload, and the file of `loadgen serve --script`."""

from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from loadgen.workload.units import Duration, Share

Count = Annotated[int, Field(ge=1, strict=True)]


class Pace(StrEnum):
    """``own``: each stream has an absolute schedule of its own. ``batched``: one decode step for all, as engines do it."""

    OWN = "own"
    BATCHED = "batched"


class FaultKind(StrEnum):
    """What goes wrong with a share of the streams, after so many tokens (``status`` and ``html`` before any)."""

    ERROR_OBJECT = "error_object"  # data: {"error": ...}, then [DONE], as vLLM does
    ERROR_EVENT = "error_event"  # event: error
    CUT_IN_CHUNK = "cut_in_chunk"  # the connection closes inside a chunk
    CUT_CLEAN = "cut_clean"  # the body ends well-framed, without finish or end mark
    NO_DONE = "no_done"  # everything but the end mark
    STALL = "stall"  # nothing more ever comes
    RESET = "reset"  # RST
    STATUS = "status"  # an error status instead of a stream
    HTML = "html"  # 200 with an HTML page


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Prefill(_Model):
    base: Duration = Field(200_000_000, description="time from admission to the first token, whatever the prompt")
    per_token: Duration = Field(0, description="and this for each prompt token (a token is 4 characters)")


class Decode(_Model):
    step: Duration = Field(20_000_000, description="one token for every running stream takes this long", gt=0)
    per_stream: Duration = Field(0, description="and this much longer for each running stream (batched pace only)")


class Kv(_Model):
    blocks: Count = Field(65_536, description="KV-cache blocks there are")
    block_tokens: Count = Field(16, description="tokens one block holds")


class Fault(_Model):
    share: Share = Field(description="this share of the streams")
    kind: FaultKind
    after: int = Field(0, ge=0, strict=True, description="tokens before it happens")
    status: int = Field(500, ge=400, le=599, strict=True, description="for kind: status")


class SimScript(_Model):
    """A simulated engine. All durations in ns once loaded."""

    ttft: Duration | None = Field(None, description="shorthand: prefill.base, with pace own")
    itl: Duration | None = Field(None, description="shorthand: decode.step, with pace own", gt=0)
    prefill: Prefill = Prefill()
    decode: Decode = Decode()
    pace: Pace = Field(Pace.BATCHED, description="batched (one decode step for all) or own (each stream for itself)")
    jitter: Share = Field(0.0, description="prefill and gaps vary by up to this share, seeded")
    tokens_per_event: Count = Field(1, description="tokens in one SSE event")
    max_batch: Count = Field(1024, description="streams that run at once; more wait")
    queue: int = Field(1024, ge=0, strict=True, description="streams that may wait; more are answered 429")
    reject_above: Count | None = Field(None, description="answer 429 above this many streams, waiting ones included")
    kv: Kv = Kv()
    role_first: Duration | None = Field(None, description="send the role-only chunk this long after arrival")
    reasoning: int = Field(0, ge=0, strict=True, description="the first so many tokens are reasoning")
    heartbeat: Duration | None = Field(None, description="send a comment this often while nothing else is sent", gt=0)
    stamps: bool = Field(True, description="each chunk says when it was sent (CLOCK_MONOTONIC and wall clock, ns)")
    faults: tuple[Fault, ...] = ()
    seed: int = Field(0, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _expand_shorthand(cls, data: Any) -> Any:
        """``ttft`` and ``itl`` are the short way to say a constant schedule."""
        if not isinstance(data, dict) or not {"ttft", "itl"} & data.keys():
            return data
        both = {"ttft": "prefill", "itl": "decode"}
        for short, long in both.items():
            if data.get(short) is not None and data.get(long) is not None:
                raise ValueError(f"give {short} or {long}, not both")
        expanded = dict(data)
        if (ttft := data.get("ttft")) is not None:
            expanded["prefill"] = {"base": ttft}
        if (itl := data.get("itl")) is not None:
            expanded["decode"] = {"step": itl}
        expanded.setdefault("pace", Pace.OWN)
        return expanded

    @model_validator(mode="after")
    def _shares_fit(self) -> Self:
        if sum(fault.share for fault in self.faults) > 1 + 1e-9:
            raise ValueError("the shares of all faults together must not exceed 100%")
        return self

    def to_json(self) -> str:
        """For the child process; ``from_json`` gives the same script."""
        return self.model_dump_json(exclude={"ttft", "itl"})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Durations are already ns here, so this bypasses the units."""
        return cls.model_validate_json(text, context={"ns": True})

"""OpenAI chat completions on the wire: requests checked, and the two kinds of answers, events and one JSON."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from loadgen.sim.http import Framing
from loadgen.sim.reply import DONE, FAULT_MESSAGE, PING, build_error, build_stream_fault
from loadgen.sim.scheduler import Job
from loadgen.workload.sim_script import FaultKind, SimScript

DEFAULT_MODEL: Final = "loadgen-sim"
DEFAULT_MAX_TOKENS: Final = 128
CHARACTERS_PER_TOKEN: Final = 4  # the usual estimate for English; the server has no tokenizer
_WORDS: Final = (
    b" the", b" stream", b" of", b" small", b" tokens", b" flows", b" down", b" a", b" wire", b" and", b" nobody", b" waits",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    model: str
    prompt_tokens: int
    max_tokens: int
    stream: bool
    include_usage: bool


def parse_chat(body: bytes) -> ChatRequest:
    """Raises ValueError with a sentence for the 400."""
    try:
        data = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"the body is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise ValueError("the body must be a JSON object")  # noqa: TRY004 - one kind of error for one kind of answer
    messages = data.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(m, dict) for m in messages):
        raise ValueError("messages must be a list of objects that is not empty")
    if data.get("n") not in (None, 1):  # no set: what came may not be hashable
        raise ValueError("n must be 1")
    options = data.get("stream_options")
    return ChatRequest(
        model=str(data.get("model") or DEFAULT_MODEL),
        prompt_tokens=count_prompt_tokens(messages),
        max_tokens=_max_tokens(data),
        stream=data.get("stream") is True,
        include_usage=isinstance(options, dict) and options.get("include_usage") is True,
    )


def count_prompt_tokens(messages: list[dict[str, Any]]) -> int:
    """Characters of all contents / 4, rounded up, at least 1."""
    return max(1, -(-sum(map(_count_characters, messages)) // CHARACTERS_PER_TOKEN))


class ChatEvents:
    """Server-sent events of one answer. What is the same in all of them is built once: a token costs about 2 us."""

    def __init__(self, job: Job, asked: ChatRequest, framing: Framing, script: SimScript) -> None:
        fault = job.fault
        self.close = framing.close
        self._framing = framing
        self._script = script
        self._prompt_tokens = job.prompt_tokens
        self._usage = asked.include_usage if script.usage == "asked" else script.usage
        self._done = script.done and (fault is None or fault.kind is not FaultKind.NO_DONE)
        self._head = b"data: " + _encode_head(job.number, "chat.completion.chunk", asked.model)

    def head(self) -> bytes:
        return self._framing.stream_head()

    def role(self) -> bytes:
        return self._chunk(b'{"role":"assistant","content":""}', b"null", b"")

    def token(self, first: int, tokens: int, mono_ns: int, wall_ns: int) -> bytes:
        field = b"reasoning_content" if first < self._script.reasoning else b"content"
        sim = b',"sim":{"n":%d,"mono_ns":%d,"wall_ns":%d}' % (first, mono_ns, wall_ns) if self._script.stamps else b""
        return self._chunk(b'{"%s":"%s"}' % (field, _text(first, tokens)), b"null", sim)

    def finish(self, tokens: int) -> bytes:
        end = self._chunk(b"{}", b'"length"', b"")
        if self._usage:
            usage = msgspec.json.encode(_usage(self._prompt_tokens, tokens))
            end += self._framing.frame(self._head + b',"choices":[],"usage":' + usage + b"}\n\n")
        if self._done:
            end += self._framing.frame(DONE)
        return end + self._framing.last

    def fault(self, kind: FaultKind) -> bytes:
        return build_stream_fault(kind, self._framing)

    def ping(self) -> bytes:
        return self._framing.frame(PING)

    def _chunk(self, delta: bytes, finish: bytes, sim: bytes) -> bytes:
        return self._framing.frame(
            b'%s,"choices":[{"index":0,"delta":%s,"finish_reason":%s}]%s}\n\n' % (self._head, delta, finish, sim)
        )


class ChatJson:
    """The answer to a request that did not ask for a stream: everything at the end. A fault is a 500, or no answer."""

    def __init__(self, job: Job, asked: ChatRequest, framing: Framing) -> None:
        self.close = framing.close
        self._framing = framing
        self._prompt_tokens = job.prompt_tokens
        self._head = _encode_head(job.number, "chat.completion", asked.model)

    def head(self) -> bytes:
        return b""

    def role(self) -> bytes:
        return b""

    def token(self, first: int, tokens: int, mono_ns: int, wall_ns: int) -> bytes:
        del first, tokens, mono_ns, wall_ns
        return b""

    def finish(self, tokens: int) -> bytes:
        message = {"role": "assistant", "content": _text(0, tokens).decode("ascii")}
        rest = {
            "choices": [{"index": 0, "message": message, "finish_reason": "length"}],
            "usage": _usage(self._prompt_tokens, tokens),
        }
        return self._framing.message(200, self._head + b"," + msgspec.json.encode(rest)[1:])

    def fault(self, kind: FaultKind) -> bytes:
        if kind in {FaultKind.ERROR_EVENT, FaultKind.ERROR_OBJECT}:
            return self._framing.message(500, build_error(FAULT_MESSAGE, "server_error", 500))
        self.close = True
        return b""

    def ping(self) -> bytes:
        return b""


def build_models() -> bytes:
    """The body of GET /v1/models."""
    return msgspec.json.encode({
        "object": "list", "data": [{"id": DEFAULT_MODEL, "object": "model", "created": 0, "owned_by": "loadgen"}],
    })  # fmt: skip


def build_id(number: int) -> str:
    """The ``id`` of stream ``number``, as clients see it."""
    return f"chatcmpl-sim-{number}"


def _encode_head(number: int, kind: str, model: str) -> bytes:
    """The beginning of an object, without its closing brace."""
    head: Mapping[str, Any] = {"id": build_id(number), "object": kind, "created": int(time.time()), "model": model}
    return msgspec.json.encode(head)[:-1]


def _text(first: int, tokens: int) -> bytes:
    if tokens == 1:
        return _WORDS[first % len(_WORDS)]
    return b"".join(_WORDS[n % len(_WORDS)] for n in range(first, first + tokens))


def _usage(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }


def _max_tokens(data: dict[str, Any]) -> int:
    for key in ("max_completion_tokens", "max_tokens"):
        value = data.get(key)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{key} must be a whole number of at least 1, got {value!r}")
        return value
    return DEFAULT_MAX_TOKENS


def _count_characters(message: dict[str, Any]) -> int:
    content = message.get("content")
    if isinstance(content, list):
        return sum(len(str(part.get("text", ""))) for part in content if isinstance(part, dict))
    return len(str(content or ""))

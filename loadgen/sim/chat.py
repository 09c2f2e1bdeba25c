"""OpenAI chat completions on the wire: requests checked, and the two kinds of answers, events and one JSON.

Azure's and Mistral's answers differ in a few chunks. Other APIs: apis.py.
"""

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
class GenerateRequest:
    """What any API's request comes down to."""

    model: str
    prompt_tokens: int
    max_tokens: int
    stream: bool
    include_usage: bool


def parse_chat(body: bytes) -> GenerateRequest:
    """Raises ValueError with a sentence for the 400."""
    data = decode_object(body)
    messages = read_messages(data, "messages")
    if data.get("n") not in (None, 1):  # no set: what came may not be hashable
        raise ValueError("n must be 1")
    return GenerateRequest(
        model=str(data.get("model") or DEFAULT_MODEL),
        prompt_tokens=count_prompt_tokens(messages),
        max_tokens=read_max_tokens(data, "max_completion_tokens", "max_tokens"),
        stream=data.get("stream") is True,
        include_usage=asks_usage(data),
    )


def decode_object(body: bytes) -> dict[str, Any]:
    try:
        data = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"the body is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise ValueError("the body must be a JSON object")  # noqa: TRY004 - one kind of error for one kind of answer
    return data


def read_messages(data: dict[str, Any], key: str) -> list[dict[str, Any]]:
    messages = data.get(key)
    if not isinstance(messages, list) or not messages or not all(isinstance(m, dict) for m in messages):
        raise ValueError(f"{key} must be a list of objects that is not empty")
    return messages


def read_max_tokens(data: dict[str, Any], *keys: str) -> int:
    """The first of the keys that is there; a dot leads into an object."""
    for key in keys:
        value: Any = data
        for part in key.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{key} must be a whole number of at least 1, got {value!r}")
        return value
    return DEFAULT_MAX_TOKENS


def asks_usage(data: dict[str, Any]) -> bool:
    options = data.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


def count_prompt_tokens(messages: list[dict[str, Any]]) -> int:
    """Characters of all contents / 4, rounded up, at least 1."""
    return characters_to_tokens(sum(map(_count_characters, messages)))


def characters_to_tokens(characters: int) -> int:
    return max(1, -(-characters // CHARACTERS_PER_TOKEN))


class ChatEvents:
    """Server-sent events of one answer. What is the same in all of them is built once: a token costs about 2 us."""

    def __init__(self, job: Job, asked: GenerateRequest, framing: Framing, script: SimScript) -> None:
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
        sim = b',"sim":{"n":%d,"mono_ns":%d,"wall_ns":%d}' % (first, mono_ns, wall_ns) if self._script.stamps else b""
        return self._chunk(self._delta(make_text(first, tokens), first < self._script.reasoning), b"null", sim)

    def finish(self, tokens: int) -> bytes:
        end = self._finish_chunks(tokens)
        if self._done:
            end += self._framing.frame(DONE)
        return end + self._framing.last

    def fault(self, kind: FaultKind) -> bytes:
        return build_stream_fault(kind, self._framing)

    def ping(self) -> bytes:
        return self._framing.frame(PING)

    def _delta(self, text: bytes, thought: bool) -> bytes:  # noqa: FBT001 - hot path
        return b'{"%s":"%s"}' % (b"reasoning_content" if thought else b"content", text)

    def _finish_chunks(self, tokens: int) -> bytes:
        end = self._chunk(b"{}", b'"length"', b"")
        if self._usage:
            end += self._framing.frame(b'%s,"choices":[],"usage":%s}\n\n' % (self._head, self._encode_usage(tokens)))
        return end

    def _encode_usage(self, tokens: int) -> bytes:
        return msgspec.json.encode(build_usage(self._prompt_tokens, tokens, self._script.reasoning))

    def _chunk(self, delta: bytes, finish: bytes, sim: bytes) -> bytes:
        return self._framing.frame(
            b'%s,"choices":[{"index":0,"delta":%s,"finish_reason":%s}]%s}\n\n' % (self._head, delta, finish, sim)
        )


class AzureEvents(ChatEvents):
    """With the results of its filters: of the prompt before anything else, of the answer after the finish."""

    def role(self) -> bytes:
        prelude = b'data: {"id":"","object":"","model":"","choices":[],"prompt_filter_results":[{"prompt_index":0}]}\n\n'
        return self._framing.frame(prelude) + super().role()

    def _finish_chunks(self, tokens: int) -> bytes:
        late = b'data: {"id":"","choices":[{"index":0,"finish_reason":null,"content_filter_offsets":{"end_offset":1}}]}\n\n'
        return super()._finish_chunks(tokens) + self._framing.frame(late)


class MistralEvents(ChatEvents):
    """Thinking as a typed part of the content; usage on the finish chunk, unasked."""

    def _delta(self, text: bytes, thought: bool) -> bytes:  # noqa: FBT001 - hot path
        if not thought:
            return b'{"content":"%s"}' % text
        return b'{"content":[{"type":"thinking","thinking":[{"type":"text","text":"%s"}]}]}' % text

    def _finish_chunks(self, tokens: int) -> bytes:
        usage = b"" if self._script.usage is False else b',"usage":' + self._encode_usage(tokens)
        return self._chunk(b'{"content":""}', b'"length"', usage)


class ChatJson:
    """The answer to a request that did not ask for a stream: everything at the end. A fault is a 500, or no answer."""

    def __init__(self, job: Job, asked: GenerateRequest, framing: Framing, script: SimScript) -> None:
        self.close = framing.close
        self._framing = framing
        self._reasoning = script.reasoning
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
        message = {"role": "assistant", "content": make_text(0, tokens).decode("ascii")}
        rest = {
            "choices": [{"index": 0, "message": message, "finish_reason": "length"}],
            "usage": build_usage(self._prompt_tokens, tokens, self._reasoning),
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


def make_text(first: int, tokens: int) -> bytes:
    """The text of tokens number ``first`` and up; it needs no escapes in JSON."""
    if tokens == 1:
        return _WORDS[first % len(_WORDS)]
    return b"".join(_WORDS[n % len(_WORDS)] for n in range(first, first + tokens))


def build_usage(prompt_tokens: int, completion_tokens: int, reasoning: int = 0) -> dict[str, Any]:
    """``reasoning``: how many of the first tokens are; told only by engines that reason."""
    usage: dict[str, Any] = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }
    if reasoning:
        usage["completion_tokens_details"] = {"reasoning_tokens": min(reasoning, completion_tokens)}
    return usage


def _count_characters(message: dict[str, Any]) -> int:
    content = message.get("content")
    if isinstance(content, list):
        return sum(len(str(part.get("text", ""))) for part in content if isinstance(part, dict))
    return len(str(content or ""))

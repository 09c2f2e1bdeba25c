"""OpenAI chat completions on the wire, as the simulated server writes them: requests checked, chunks built once a stream."""

from dataclasses import dataclass
from typing import Any, Final

import msgspec

DEFAULT_MODEL: Final = "loadgen-sim"
DEFAULT_MAX_TOKENS: Final = 128
CHARACTERS_PER_TOKEN: Final = 4  # the usual estimate for English; the server has no tokenizer
_WORDS: Final = ("the", "stream", "of", "small", "tokens", "flows", "down", "a", "wire", "and", "nobody", "waits")


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
    except msgspec.DecodeError as error:
        raise ValueError(f"the body is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise TypeError("the body must be a JSON object")
    messages = data.get("messages")
    if not isinstance(messages, list) or not messages:
        raise ValueError("messages must be a list that is not empty")
    if data.get("n", 1) != 1:
        raise ValueError("n must be 1")
    max_tokens = data.get("max_completion_tokens", data.get("max_tokens", DEFAULT_MAX_TOKENS))
    if not isinstance(max_tokens, int) or isinstance(max_tokens, bool) or max_tokens < 1:
        raise ValueError(f"max_tokens must be a whole number of at least 1, got {max_tokens!r}")
    options = data.get("stream_options") or {}
    return ChatRequest(
        model=str(data.get("model") or DEFAULT_MODEL),
        prompt_tokens=max(1, -(-sum(map(_characters, messages)) // CHARACTERS_PER_TOKEN)),
        max_tokens=max_tokens,
        stream=data.get("stream") is True,
        include_usage=isinstance(options, dict) and options.get("include_usage") is True,
    )


class ChunkWriter:
    """SSE events of one chat stream, as HTTP chunks ready to send."""

    def __init__(self, number: int, model: str, created_s: int) -> None:
        self._number = number
        head = {"id": f"chatcmpl-sim-{number}", "object": "chat.completion.chunk", "created": created_s, "model": model}
        self._head = msgspec.json.encode(head)[:-1]

    def role(self) -> bytes:
        return self._chunk(b'{"role":"assistant","content":""}', b"null", b"")

    def token(self, first: int, tokens: int, field: str, stamps: tuple[int, int] | None) -> bytes:
        """Tokens number ``first`` and up in one event; ``stamps``: when it is sent, (monotonic, wall) ns."""
        text = " ".join(_WORDS[(first + i) % len(_WORDS)] for i in range(tokens))
        sim = b"" if stamps is None else b',"sim":{"i":%d,"mono_ns":%d,"wall_ns":%d}' % (first, *stamps)
        return self._chunk(b'{"%s":" %s"}' % (field.encode(), text.encode()), b"null", sim)

    def finish(self, reason: str) -> bytes:
        return self._chunk(b"{}", b'"%s"' % reason.encode(), b"")

    def usage(self, prompt_tokens: int, completion_tokens: int) -> bytes:
        usage = msgspec.json.encode(usage_of(prompt_tokens, completion_tokens))
        return sse_chunk(b"data: " + self._head + b',"choices":[],"usage":' + usage + b"}\n\n")

    def _chunk(self, delta: bytes, finish: bytes, extra: bytes) -> bytes:
        choice = b',"choices":[{"index":0,"delta":%s,"finish_reason":%s}]' % (delta, finish)
        return sse_chunk(b"data: " + self._head + choice + extra + b"}\n\n")


DONE: Final = b"e\r\ndata: [DONE]\n\n\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"
PING: Final = b"8\r\n: ping\n\n\r\n"


def sse_chunk(event: bytes) -> bytes:
    """One event as one HTTP chunk."""
    return b"%x\r\n%s\r\n" % (len(event), event)


def usage_of(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }


def error_body(message: str, kind: str, code: int) -> bytes:
    """An error as OpenAI-compatible servers word it."""
    return msgspec.json.encode({"error": {"message": message, "type": kind, "param": None, "code": code}})


def completion(number: int, model: str, created_s: int, prompt_tokens: int, tokens: int) -> bytes:
    """The whole answer of a request that did not ask for a stream."""
    text = " ".join(_WORDS[i % len(_WORDS)] for i in range(tokens))
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "length"}
    return msgspec.json.encode({
        "id": f"chatcmpl-sim-{number}", "object": "chat.completion", "created": created_s, "model": model,
        "choices": [choice], "usage": usage_of(prompt_tokens, tokens),
    })  # fmt: skip


def _characters(message: Any) -> int:
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list):
        return sum(len(str(part.get("text", ""))) for part in content if isinstance(part, dict))
    return len(str(content or ""))

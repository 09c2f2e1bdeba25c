"""Gemini's ``:streamGenerateContent?alt=sse``: candidates with parts, usage with every event, no names and no end mark.

The model is named by the URL. Without ``alt=sse`` the answer is one JSON array in pieces, which is no event stream.
"""

from random import Random
from typing import Any, Final

import msgspec

from loadgen.dialect.base import Events, HttpRequest
from loadgen.dialect.shared import (
    ANSWER,
    ANSWER_USAGE,
    BAD_JSON,
    EMPTY,
    NONE,
    REASONING,
    SSE,
    ChoicesReader,
    add_counts,
    build_post,
    message_text,
    read_count,
    split_system,
)  # fmt: skip
from loadgen.model import EventClass, Usage
from loadgen.wire.sse import SseEvent
from loadgen.workload.plan import RequestKind

_ROLES: Final = {"assistant": "model"}  # the others are the user's


class _Part(msgspec.Struct, rename="camel"):
    text: Any = None
    thought: Any = None
    function_call: Any = None


class _Content(msgspec.Struct):
    parts: list[_Part] | None = None


class _Candidate(msgspec.Struct, rename="camel"):
    index: int = 0
    content: _Content | None = None
    finish_reason: Any = None


class _Feedback(msgspec.Struct, rename="camel"):
    block_reason: Any = None


class _Chunk(msgspec.Struct, rename="camel"):
    candidates: list[_Candidate] | None = None
    usage_metadata: msgspec.Raw = msgspec.Raw()  # in every event, wanted once: decoded when it is asked for
    prompt_feedback: _Feedback | None = None
    error: Any = None


_NO_USAGE: Final = frozenset({b"", b"null"})
_DECODE: Final = msgspec.json.Decoder(_Chunk).decode


class Gemini:
    name = "gemini"
    content_type = SSE
    events: Events = "sse"
    text_keys: tuple[bytes, ...] = ()  # more than the text differs from event to event

    def build_request(self, kind: RequestKind, rng: Random, model: str | None) -> HttpRequest:
        del model  # a part of the URL
        system, messages = split_system(kind.prompt.pick(rng))
        body: dict[str, Any] = {
            "contents": [
                {"role": _ROLES.get(str(message.get("role")), "user"), "parts": [{"text": message_text(message)}]}
                for message in messages
            ]
        }
        if system:
            body["systemInstruction"] = {"parts": [{"text": system}]}
        if kind.max_tokens is not None:
            body["generationConfig"] = {"maxOutputTokens": kind.max_tokens.pick(rng)}
        return build_post(body, kind.body)

    def reader(self, choices: int = 1) -> "GeminiReader":
        return GeminiReader(choices)


class GeminiReader(ChoicesReader):
    __slots__ = ()

    def __init__(self, choices: int = 1) -> None:
        super().__init__(_DECODE, choices)

    def classify(self, event: SseEvent) -> EventClass:
        try:
            chunk: _Chunk = self._decode(event.data)
        except BAD_JSON as error:
            return self._not_json(event, str(error))
        if chunk.error or event.type == "error":
            return self._provider_error(chunk.error or event.data)
        classes = NONE
        if chunk.candidates:
            for candidate in chunk.candidates:
                got = self._read_candidate(candidate)
                classes = got if classes is NONE else classes | got
        elif chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason:
            classes = self._provider_error(f"the prompt was blocked: {chunk.prompt_feedback.block_reason}")
        if bytes(chunk.usage_metadata) not in _NO_USAGE:
            self._counts = chunk.usage_metadata
            classes = ANSWER_USAGE if classes is ANSWER else classes | EventClass.USAGE
        return self._no_output(event) if classes is NONE else classes

    def _read_candidate(self, candidate: _Candidate) -> EventClass:
        classes = NONE
        content = candidate.content
        if content is not None and content.parts:
            for part in content.parts:
                got = _classify_part(part)
                if got is not EMPTY:
                    self._output(candidate.index)
                classes = got if classes is NONE else classes | got
        if candidate.finish_reason is not None:
            self._finish(candidate.index, str(candidate.finish_reason))
            classes |= EventClass.FINISH
        return classes

    @staticmethod
    def _read_usage(counts: msgspec.Raw) -> Usage | None:
        """Thoughts are not among ``candidatesTokenCount``: the completion is the sum, as everywhere else."""
        try:
            usage = msgspec.json.decode(counts)
        except BAD_JSON:
            return None
        thoughts = read_count(usage, "thoughtsTokenCount")
        return Usage(
            prompt_tokens=read_count(usage, "promptTokenCount"),
            completion_tokens=add_counts(read_count(usage, "candidatesTokenCount"), thoughts),
            cached_tokens=read_count(usage, "cachedContentTokenCount"),
            reasoning_tokens=thoughts,
        )


def _classify_part(part: _Part) -> EventClass:
    if part.text and isinstance(part.text, str):
        return REASONING if part.thought is True else ANSWER
    return EventClass.TOOL if part.function_call else EMPTY

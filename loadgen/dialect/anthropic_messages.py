"""Anthropic's messages: blocks by index, cumulative usage, pings at any point. Also of vLLM, llama.cpp, Ollama, LiteLLM."""

from random import Random
from typing import Any, Final

import msgspec

from loadgen.dialect.base import Events, HttpRequest
from loadgen.dialect.shared import (
    ANSWER,
    BAD_JSON,
    EMPTY,
    REASONING,
    SSE,
    JsonReader,
    add_counts,
    build_post,
    read_count,
    split_system,
    text_keys,
)  # fmt: skip
from loadgen.model import EventClass, Usage
from loadgen.wire.sse import SseEvent
from loadgen.workload.plan import RequestKind

API_VERSION: Final = ("anthropic-version", "2023-06-01")  # the API answers 400 without one; a header of the user's replaces it


class _Delta(msgspec.Struct):
    """Of content_block_delta, and with ``stop_reason`` of message_delta."""

    type: Any = None
    text: Any = None
    thinking: Any = None
    partial_json: Any = None
    stop_reason: Any = None


class _Message(msgspec.Struct):
    usage: Any = None


class _Block(msgspec.Struct):
    name: Any = None


class _Event(msgspec.Struct):
    type: str = ""
    delta: _Delta | None = None
    message: _Message | None = None
    content_block: _Block | None = None
    usage: Any = None
    error: Any = None


_DECODE: Final = msgspec.json.Decoder(_Event).decode


class AnthropicMessages:
    name = "anthropic-messages"
    content_type = SSE
    events: Events = "sse"
    text_keys: tuple[bytes, ...] = text_keys("text", "thinking")

    def build_request(self, kind: RequestKind, rng: Random, model: str | None) -> HttpRequest:
        """System messages go where this API has them. It refuses requests without ``max_tokens``."""
        body: dict[str, Any] = {} if model is None else {"model": model}
        system, messages = split_system(kind.prompt.pick(rng))
        if system:
            body["system"] = system
        body |= {"messages": messages, "stream": True}
        if kind.max_tokens is not None:
            body["max_tokens"] = kind.max_tokens.pick(rng)
        return build_post(body, kind.body, API_VERSION)

    def reader(self, choices: int = 1) -> "AnthropicMessagesReader":
        del choices  # this API has one
        return AnthropicMessagesReader()


class AnthropicMessagesReader(JsonReader):
    _END_MARK = "message_stop"

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(_DECODE)

    def classify(self, event: SseEvent) -> EventClass:
        try:
            said: _Event = self._decode(event.data)
        except BAD_JSON as error:
            return self._not_json(event, str(error))
        delta = said.delta
        if said.type == "content_block_delta" and delta is not None:
            classes = _classify_delta(delta)
            if classes is not EMPTY and classes is not EventClass.META:
                self._got_output = True
            return classes
        return self._read_other(said.type or event.type, said, event)

    def _read_other(self, kind: str, said: _Event, event: SseEvent) -> EventClass:
        match kind:
            case "message_start":
                return EventClass.PRELUDE | self._take_usage(said.message.usage if said.message else None)
            case "content_block_start":
                if said.content_block is None or not said.content_block.name:
                    return EventClass.PRELUDE
                self._got_output = True
                return EventClass.TOOL  # the tool's name was generated
            case "content_block_stop":
                return EventClass.FINISH
            case "message_delta":
                if said.delta is not None and said.delta.stop_reason is not None:
                    self._finished = True
                    self.finish_reason = str(said.delta.stop_reason)
                return EventClass.FINISH | self._take_usage(said.usage)
            case "message_stop":
                self.ended = True
                return EventClass.FINISH | EventClass.END
            case "ping":
                return EventClass.HEARTBEAT
            case "error":
                return self._provider_error(said.error or event.data)
        return self._provider_error(said.error) if said.error else EventClass.META

    def _take_usage(self, usage: Any) -> EventClass:
        """Counts are cumulative, and an event has only some of them: each last one holds."""
        if not usage or not isinstance(usage, dict):
            return EventClass.NONE
        known = {key: value for key, value in usage.items() if value is not None}
        self._counts = known if self._counts is None else self._counts | known
        return EventClass.USAGE

    @staticmethod
    def _read_usage(counts: Any) -> Usage:
        """Cached tokens are not among ``input_tokens``: the prompt is the sum, as everywhere else."""
        cached = read_count(counts, "cache_read_input_tokens")
        return Usage(
            prompt_tokens=add_counts(
                read_count(counts, "input_tokens"), cached, read_count(counts, "cache_creation_input_tokens")
            ),
            completion_tokens=read_count(counts, "output_tokens"),
            cached_tokens=cached,
            reasoning_tokens=read_count(counts, "output_tokens_details", "thinking_tokens"),
        )


def _classify_delta(delta: _Delta) -> EventClass:
    match delta.type:
        case "text_delta":
            return ANSWER if delta.text else EMPTY
        case "thinking_delta":
            return REASONING if delta.thinking else EMPTY
        case "input_json_delta":
            return EventClass.TOOL if delta.partial_json else EMPTY
    return EventClass.META  # signatures and citations are no text

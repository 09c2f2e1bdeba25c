"""Triton's ``generate_stream``: ``text_output`` event by event. Nothing says that it is over but the end of the body.

TensorRT-LLM's backend takes its inputs and vLLM's its sampling parameters beside ``text_input``: Triton passes keys that are
no tensor of the model on as parameters.
"""

from random import Random
from typing import Any, Final

import msgspec

from loadgen.dialect.base import Events, HttpRequest
from loadgen.dialect.shared import ANSWER, BAD_JSON, EMPTY, SSE, JsonReader, build_post, prompt_text, text_keys
from loadgen.model import EventClass
from loadgen.wire.sse import SseEvent
from loadgen.workload.plan import RequestKind


class _Event(msgspec.Struct):
    text_output: Any = None
    error: Any = None


_DECODE: Final = msgspec.json.Decoder(_Event).decode


class Triton:
    name = "triton"
    content_type = SSE
    events: Events = "sse"
    text_keys: tuple[bytes, ...] = text_keys("text_output")

    def build_request(self, kind: RequestKind, rng: Random, model: str | None) -> HttpRequest:
        del model  # a part of the URL
        body: dict[str, Any] = {"text_input": prompt_text(kind.prompt.pick(rng)), "stream": True}
        if kind.max_tokens is not None:
            body["max_tokens"] = kind.max_tokens.pick(rng)
        return build_post(body, kind.body)

    def reader(self, choices: int = 1) -> "TritonReader":
        del choices  # this API has one
        return TritonReader()


class TritonReader(JsonReader):
    """A stream with output that ended cleanly is a success: this API tells neither a finish nor counts."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(_DECODE)

    def classify(self, event: SseEvent) -> EventClass:
        try:
            said: _Event = self._decode(event.data)
        except BAD_JSON as error:
            return self._not_json(event, str(error))
        if said.error or event.type == "error":
            return self._provider_error(said.error or event.data)
        if said.text_output is None:
            return self._no_output(event)
        if not said.text_output:
            return EMPTY
        self._got_output = self._finished = True
        return ANSWER

    def _lacking_finish(self) -> str:
        return "any output"

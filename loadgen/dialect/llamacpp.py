"""llama.cpp's own ``/completion``: text until ``stop: true``, which brings counts and timings; no end mark."""

from random import Random
from typing import Any, Final

import msgspec

from loadgen.dialect.base import Events, HttpRequest
from loadgen.dialect.shared import ANSWER, BAD_JSON, EMPTY, SSE, JsonReader, build_post, prompt_text, read_count
from loadgen.model import EventClass, Usage
from loadgen.wire.sse import SseEvent
from loadgen.workload.plan import RequestKind


class _Event(msgspec.Struct):
    content: Any = None
    stop: Any = None
    stop_type: Any = None
    tokens_predicted: Any = None
    tokens_evaluated: Any = None
    timings: Any = None
    prompt_progress: Any = None
    error: Any = None


_DECODE: Final = msgspec.json.Decoder(_Event).decode


class LlamaCpp:
    name = "llamacpp"
    content_type = SSE
    events: Events = "sse"
    text_keys: tuple[bytes, ...] = ()  # more than the text differs from event to event

    def build_request(self, kind: RequestKind, rng: Random, model: str | None) -> HttpRequest:
        """``model`` matters to a router in front of several servers; one server ignores it."""
        body: dict[str, Any] = {} if model is None else {"model": model}
        body |= {"prompt": prompt_text(kind.prompt.pick(rng)), "stream": True}
        if kind.max_tokens is not None:
            body["n_predict"] = kind.max_tokens.pick(rng)
        return build_post(body, kind.body)

    def reader(self, choices: int = 1) -> "LlamaCppReader":
        del choices  # this API has one
        return LlamaCppReader()


class LlamaCppReader(JsonReader):
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
        text = said.content
        if text and isinstance(text, str):
            classes = ANSWER
            self._got_output = True
        elif text is None or said.prompt_progress is not None:
            classes = EventClass.NONE
        else:
            classes = EMPTY
        if said.stop is not True:
            return self._no_output(event) if classes is EventClass.NONE else classes
        self._finished = True
        self.finish_reason = str(said.stop_type or "")
        self._counts = said
        end = EventClass.FINISH | EventClass.USAGE
        return end | ANSWER if classes is ANSWER else end

    @staticmethod
    def _read_usage(counts: _Event) -> Usage:
        """``tokens_evaluated`` is the whole prompt, ``timings.cache_n`` what of it came from the cache."""
        said = {"prompt": counts.tokens_evaluated, "completion": counts.tokens_predicted, "timings": counts.timings}
        return Usage(
            prompt_tokens=read_count(said, "prompt"),
            completion_tokens=read_count(said, "completion"),
            cached_tokens=read_count(said, "timings", "cache_n"),
        )

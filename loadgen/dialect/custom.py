"""An API that the workload describes: JSON pointers say where an event has its text, finish, usage and error.

Events are decoded whole: a Struct that was made of the pointers, and that must take values of any kind, took longer. An event
costs two to three times one of ``openai-chat``.
"""

from collections.abc import Mapping
from random import Random
from typing import Any, Final

import msgspec

from loadgen.dialect.base import Events, HttpRequest
from loadgen.dialect.shared import (
    ANSWER,
    ANSWER_USAGE,
    BAD_JSON,
    EMPTY,
    NDJSON,
    NONE,
    REASONING,
    SSE,
    JsonReader,
    build_post,
    prompt_text,
    read_openai_usage,
    text_keys,
)  # fmt: skip
from loadgen.model import EventClass, Usage
from loadgen.wire.sse import SseEvent
from loadgen.workload.custom import CustomSpec
from loadgen.workload.plan import RequestKind
from loadgen.workload.pointer import Pointer, parse_index

_CONTENT_TYPES: Final[Mapping[Events, str]] = {"sse": SSE, "ndjson": NDJSON}
_DECODE: Final = msgspec.json.Decoder().decode
_BOTH: Final = ANSWER | REASONING
_NO_FINISH: Final = ("", False, None)

_Steps = tuple[tuple[str, int | None], ...]  # down a document: the key in an object, and what it is as an index in a list


class Custom:
    name = "custom"

    def __init__(self, spec: CustomSpec) -> None:
        self.events: Events = spec.events
        self.text_keys = _text_keys(spec)
        self.content_type = (spec.content_type or _CONTENT_TYPES[spec.events]).lower()
        self._request = spec.request
        self._places = _Places(spec)

    def build_request(self, kind: RequestKind, rng: Random, model: str | None) -> HttpRequest:
        messages = kind.prompt.pick(rng)
        body = self._request.fill(
            prompt=prompt_text(messages),
            messages=messages,
            model=model,
            max_tokens=None if kind.max_tokens is None else kind.max_tokens.pick(rng),
        )
        if not body and not kind.body:
            return HttpRequest(method="GET", headers=(("Accept", self.content_type),), body=b"")
        return build_post(body, kind.body, accept=self.content_type)

    def reader(self, choices: int = 1) -> "CustomReader":
        del choices  # pointers lead to one
        return CustomReader(self._places)


class _Places:
    """Where a spec's values are, made ready once for all streams."""

    def __init__(self, spec: CustomSpec) -> None:
        self.text = _split(spec.text)
        self.error = _split(spec.error)
        self.reasoning = None if spec.reasoning is None else _split(spec.reasoning)
        self.finish = None if spec.finish is None else _split(spec.finish)
        self.usage = None if spec.usage is None else _split(spec.usage)
        self.end = spec.end


class CustomReader(JsonReader):
    __slots__ = ("_at",)

    def __init__(self, places: _Places) -> None:
        super().__init__(_DECODE)
        self._at = places

    def classify(self, event: SseEvent) -> EventClass:
        at = self._at
        if at.end is not None and event.data.strip() == at.end:
            self.ended = True
            return EventClass.END
        try:
            said = self._decode(event.data)
        except BAD_JSON as error:
            return self._not_json(event, str(error), "JSON" if at.end is None else f"JSON or {at.end}")
        if (wrong := _find(said, at.error)) or event.type == "error":
            return self._provider_error(wrong or event.data)
        classes = _classify_texts(_find(said, at.text), None if at.reasoning is None else _find(said, at.reasoning))
        if classes is not NONE and classes is not EMPTY:
            self._got_output = True
            if at.finish is None:
                self._finished = True
        if at.finish is not None and (reason := _find(said, at.finish)) not in _NO_FINISH:
            self._finished = True
            self.finish_reason = "" if reason is True else str(reason)
            classes |= EventClass.FINISH
        if at.usage is not None and (usage := _find(said, at.usage)):
            self._counts = usage
            classes = ANSWER_USAGE if classes is ANSWER else classes | EventClass.USAGE
        return self._no_output(event) if classes is NONE else classes

    def missing(self) -> str:
        lacks = [] if self._finished else ["any output" if self._at.finish is None else "a finish reason"]
        if self._at.end is not None and not self.ended:
            lacks.append(f"the end mark {self._at.end}")
        return " and ".join(lacks)

    @staticmethod
    def _read_usage(counts: Any) -> Usage | None:
        whole = isinstance(counts, int) and not isinstance(counts, bool)
        return Usage(completion_tokens=counts) if whole else read_openai_usage(counts)


def _classify_texts(text: Any, thought: Any) -> EventClass:
    """Text need not be text: a list of tokens or a token's number is output as well."""
    if text and text is not True:
        return _BOTH if thought else ANSWER
    if thought and thought is not True:
        return REASONING
    return EMPTY if text == "" or thought == "" else NONE


def _text_keys(spec: CustomSpec) -> tuple[bytes, ...]:
    """Of text and reasoning, wherever else members of that name stand.

    With a finish, usage or error in it an event does not repeat, and what no pointer leads to changes nothing. Only an end
    mark that is JSON itself may differ in nothing but such a text.
    """
    if spec.end is not None and '"' in spec.end:
        return ()
    parts = [pointer.parts for pointer in (spec.text, spec.reasoning) if pointer is not None]
    return text_keys(*{part[-1]: None for part in parts if part})


def _split(pointer: Pointer) -> _Steps:
    return tuple((part, parse_index(part)) for part in pointer.parts)


def _find(node: Any, steps: _Steps) -> Any:
    """The value at a pointer, or None: as ``Pointer.find``, three times as fast."""
    for key, index in steps:
        if type(node) is dict:
            node = node.get(key)
        elif type(node) is list and index is not None and index < len(node):
            node = node[index]
        else:
            return None
    return node

"""OpenAI's responses: named events with a running number; a terminal event ends the stream, there is no ``[DONE]``.

An incomplete response is one that reached its token limit or a content filter: how a load test's streams usually end, so it is
a finish with a reason, and no error unless it brings one.
"""

from random import Random
from typing import Any, Final

import msgspec

from loadgen.dialect.base import Events, HttpRequest
from loadgen.dialect.shared import ANSWER, BAD_JSON, EMPTY, REASONING, SSE, JsonReader, build_post
from loadgen.model import EventClass
from loadgen.wire.sse import SseEvent
from loadgen.workload.plan import RequestKind

_DELTAS: Final = {
    "response.output_text.delta": ANSWER,
    "response.refusal.delta": ANSWER,
    "response.reasoning_text.delta": REASONING,
    "response.reasoning_summary_text.delta": REASONING,  # a summary of the tokens, and all of them that is shown
    "response.function_call_arguments.delta": EventClass.TOOL,
    "response.custom_tool_call_input.delta": EventClass.TOOL,
    "response.mcp_call_arguments.delta": EventClass.TOOL,
}
_PRELUDES: Final = frozenset({
    "response.created", "response.queued", "response.in_progress", "response.output_item.added", "response.content_part.added",
})  # fmt: skip
_TERMINALS: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})


class _Response(msgspec.Struct):
    """Without ``output``, which holds the whole answer once more."""

    status: Any = None
    usage: Any = None
    error: Any = None
    incomplete_details: Any = None


class _Event(msgspec.Struct):
    type: str = ""
    delta: Any = None
    sequence_number: Any = None
    response: _Response | None = None
    error: Any = None
    code: Any = None
    message: Any = None


_DECODE: Final = msgspec.json.Decoder(_Event).decode


class OpenAiResponses:
    name = "openai-responses"
    content_type = SSE
    events: Events = "sse"
    text_keys: tuple[bytes, ...] = ()  # more than the text differs from event to event

    def build_request(self, kind: RequestKind, rng: Random, model: str | None) -> HttpRequest:
        body: dict[str, Any] = {} if model is None else {"model": model}
        body |= {"input": kind.prompt.pick(rng), "stream": True}
        if kind.max_tokens is not None:
            body["max_output_tokens"] = kind.max_tokens.pick(rng)
        return build_post(body, kind.body)

    def reader(self, choices: int = 1) -> "OpenAiResponsesReader":
        del choices  # this API has one
        return OpenAiResponsesReader()


class OpenAiResponsesReader(JsonReader):
    _END_MARK = "response.completed"

    __slots__ = ("_number",)

    def __init__(self) -> None:
        super().__init__(_DECODE)
        self._number: int | None = None

    def classify(self, event: SseEvent) -> EventClass:
        try:
            said: _Event = self._decode(event.data)
        except BAD_JSON as error:
            return self._not_json(event, str(error))
        kind = said.type or event.type
        classes = _DELTAS.get(kind)
        if classes is None:
            classes = self._read_other(kind, said, event)
        elif said.delta:
            self._got_output = True
        else:
            classes = EMPTY
        number = said.sequence_number
        if number is not None:
            # llama.cpp sends none, early vLLM always the same: only a jump forward says that something is lost.
            last, self._number = self._number, number if isinstance(number, int) else None
            if last is not None and self._number is not None and number > last + 1:
                classes |= self._protocol_error(f"sequence_number jumped from {last} to {number}: events between are missing")
        return classes

    def _read_other(self, kind: str, said: _Event, event: SseEvent) -> EventClass:
        if kind in _TERMINALS:
            return self._read_terminal(kind, said.response or _Response())
        if kind == "error" or said.error:
            return self._provider_error(said.error or {"message": said.message or event.data, "code": said.code})
        if kind in _PRELUDES:
            return EventClass.PRELUDE
        if kind.startswith("response.") and kind.endswith(".done"):
            return EventClass.FINISH
        return EventClass.HEARTBEAT if kind == "ping" else EventClass.META

    def _read_terminal(self, kind: str, response: _Response) -> EventClass:
        classes = EventClass.FINISH | EventClass.END
        self._finished = self.ended = True
        details = response.incomplete_details
        reason = details.get("reason") if isinstance(details, dict) else None
        self.finish_reason = str(reason or response.status or kind.removeprefix("response."))
        if response.usage:
            self._counts = response.usage
            classes |= EventClass.USAGE
        if response.error or kind == "response.failed":
            classes |= self._provider_error(response.error or "the response failed")
        return classes

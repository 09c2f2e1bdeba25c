"""Answers of the simulated APIs, event by event. OpenAI's chat completions: chat.py.

Text of the first ``reasoning`` tokens comes as reasoning where an API has such a thing, and as text elsewhere.
"""

from typing import Any, ClassVar, Final

import msgspec

from loadgen.sim.chat import DEFAULT_MODEL, GenerateRequest, build_id, build_usage, make_text
from loadgen.sim.http import Framing
from loadgen.sim.reply import DONE, FAULT_MESSAGE, PING, FaultWords, build_error, build_stream_fault
from loadgen.sim.scheduler import Job
from loadgen.workload.sim_script import FaultKind, SimScript


def _fault(error: bytes, *, begun: bytes) -> FaultWords:
    """``error``: one event as this API sends it. Where its events have no names it is sent with one for ERROR_EVENT."""
    named = error if error.startswith((b"event:", b"{")) else b"event: error\n" + error
    return FaultWords(error=error, named=named, begun=begun)


def _named(kind: str, **more: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), msgspec.json.encode({"type": kind, **more}))


_PING: Final = _named("ping")


class Events:
    """What is the same with all of them. A subclass says how a token looks (``_token``) and how the answer ends."""

    CONTENT_TYPE: ClassVar[str] = "text/event-stream; charset=utf-8"
    FAULT: ClassVar[FaultWords | None] = None

    def __init__(self, job: Job, asked: GenerateRequest, framing: Framing, script: SimScript) -> None:
        self.close = framing.close
        self._framing = framing
        self._id = build_id(job.number)
        self._model = asked.model
        self._prompt_tokens = job.prompt_tokens
        self._max_tokens = job.max_tokens
        self._reasoning = script.reasoning
        self._stamps = script.stamps
        self._usage = asked.include_usage if script.usage == "asked" else script.usage
        self._done = script.done and (job.fault is None or job.fault.kind is not FaultKind.NO_DONE)

    def head(self) -> bytes:
        return self._framing.stream_head(self.CONTENT_TYPE)

    def role(self) -> bytes:
        return b""

    def token(self, first: int, tokens: int, mono_ns: int, wall_ns: int) -> bytes:
        sim = b',"sim":{"n":%d,"mono_ns":%d,"wall_ns":%d}' % (first, mono_ns, wall_ns) if self._stamps else b""
        return self._framing.frame(self._token(first, tokens, sim))

    def finish(self, tokens: int) -> bytes:
        end = self._finish(tokens)
        return (self._framing.frame(end) if end else b"") + self._framing.last

    def fault(self, kind: FaultKind) -> bytes:
        return build_stream_fault(kind, self._framing, self.FAULT)

    def ping(self) -> bytes:
        return self._framing.frame(PING)

    def _token(self, first: int, tokens: int, sim: bytes) -> bytes:
        """The event of some tokens; ``sim``, a further key, goes before its last brace."""
        raise NotImplementedError

    def _finish(self, tokens: int) -> bytes:
        """What comes after the last token."""
        del tokens
        return b""

    def _is_last(self, first: int, tokens: int) -> bool:
        return first + tokens >= self._max_tokens

    def _reasoned(self, tokens: int) -> int:
        return min(self._reasoning, tokens)


class CompletionEvents(Events):
    """As vLLM: no role, the finish in the chunk of the last text."""

    def __init__(self, job: Job, asked: GenerateRequest, framing: Framing, script: SimScript) -> None:
        super().__init__(job, asked, framing, script)
        head = {"id": self._id, "object": "text_completion", "created": 0, "model": self._model}
        self._head = b"data: " + msgspec.json.encode(head)[:-1]

    def _token(self, first: int, tokens: int, sim: bytes) -> bytes:
        reason = b'"length"' if self._is_last(first, tokens) else b"null"
        return b'%s,"choices":[{"index":0,"text":"%s","finish_reason":%s}]%s}\n\n' % (
            self._head, make_text(first, tokens), reason, sim,
        )  # fmt: skip

    def _finish(self, tokens: int) -> bytes:
        usage = msgspec.json.encode(build_usage(self._prompt_tokens, tokens))
        counted = b'%s,"choices":[],"usage":%s}\n\n' % (self._head, usage) if self._usage else b""
        return counted + (DONE if self._done else b"")


class ResponsesEvents(Events):
    """As OpenAI: every event is named and numbered, and the limit of tokens leaves the response incomplete."""

    FAULT = _fault(
        b'event: error\ndata: {"type":"error","code":"server_error","message":"%s","param":null}\n\n' % FAULT_MESSAGE.encode(),
        begun=b"event: response.output_te",
    )

    def __init__(self, job: Job, asked: GenerateRequest, framing: Framing, script: SimScript) -> None:
        super().__init__(job, asked, framing, script)
        self._number = 0
        self._response: dict[str, Any] = {"id": self._id, "object": "response", "model": self._model}

    def role(self) -> bytes:
        response = self._response | {"status": "in_progress", "output": []}
        item = {"id": "msg_0", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
        return self._framing.frame(
            self._event("response.created", response=response)
            + self._event("response.in_progress", response=response)
            + self._event("response.output_item.added", output_index=0, item=item)
            + self._event("response.content_part.added", item_id="msg_0", part={"type": "output_text", "text": ""})
        )

    def _token(self, first: int, tokens: int, sim: bytes) -> bytes:
        kind = b"response.reasoning_text.delta" if first < self._reasoning else b"response.output_text.delta"
        self._number += 1
        return (
            b'event: %s\ndata: {"type":"%s","sequence_number":%d,"item_id":"msg_0","output_index":0,"content_index":0,'
            b'"delta":"%s"%s}\n\n' % (kind, kind, self._number - 1, make_text(first, tokens), sim)
        )

    def _finish(self, tokens: int) -> bytes:
        reasoned = self._reasoned(tokens)
        text = make_text(reasoned, tokens - reasoned).decode()
        part = {"type": "output_text", "text": text}
        response = self._response | {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
        if self._usage:
            response["usage"] = {
                "input_tokens": self._prompt_tokens, "output_tokens": tokens, "total_tokens": self._prompt_tokens + tokens,
                "output_tokens_details": {"reasoning_tokens": reasoned},
            }  # fmt: skip
        return (
            self._event("response.output_text.done", item_id="msg_0", text=text)
            + self._event("response.content_part.done", item_id="msg_0", part=part)
            + self._event("response.output_item.done", output_index=0, item={"id": "msg_0", "content": [part]})
            + (self._event("response.incomplete", response=response) if self._done else b"")
        )

    def _event(self, kind: str, **more: Any) -> bytes:
        data = {"type": kind, "sequence_number": self._number, **more}
        self._number += 1
        return b"event: %s\ndata: %s\n\n" % (kind.encode(), msgspec.json.encode(data))


class MessagesEvents(Events):
    """As Anthropic: a block of thinking, if any, then one of text."""

    FAULT = _fault(
        b'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"%s"}}\n\n' % FAULT_MESSAGE.encode(),
        begun=b"event: content_bl",
    )

    def __init__(self, job: Job, asked: GenerateRequest, framing: Framing, script: SimScript) -> None:
        super().__init__(job, asked, framing, script)
        self._block = -1
        self._thinks = False

    def role(self) -> bytes:
        message: dict[str, Any] = {
            "id": self._id, "type": "message", "role": "assistant", "content": [], "model": self._model, "stop_reason": None,
            "usage": {"input_tokens": self._prompt_tokens, "output_tokens": 1},
        }  # fmt: skip
        return self._framing.frame(_named("message_start", message=message) + self._begin_block(self._reasoning > 0) + _PING)

    def ping(self) -> bytes:
        return self._framing.frame(_PING)

    def _token(self, first: int, tokens: int, sim: bytes) -> bytes:
        thinks = first < self._reasoning
        begin = b"" if thinks is self._thinks else self._end_block() + self._begin_block(thinks)
        delta = b'{"type":"thinking_delta","thinking":"%s"}' if thinks else b'{"type":"text_delta","text":"%s"}'
        return begin + b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":%s%s}\n\n' % (
            self._block, delta % make_text(first, tokens), sim,
        )  # fmt: skip

    def _finish(self, tokens: int) -> bytes:
        usage = {"usage": {"output_tokens": tokens, "output_tokens_details": {"thinking_tokens": self._reasoned(tokens)}}}
        delta = {"stop_reason": "max_tokens", "stop_sequence": None}
        return (
            self._end_block()
            + _named("message_delta", delta=delta, **(usage if self._usage else {}))
            + (_named("message_stop") if self._done else b"")
        )

    def _begin_block(self, thinks: bool) -> bytes:  # noqa: FBT001 - hot path
        self._block += 1
        self._thinks = thinks
        block = {"type": "thinking", "thinking": "", "signature": ""} if thinks else {"type": "text", "text": ""}
        return _named("content_block_start", index=self._block, content_block=block)

    def _end_block(self) -> bytes:
        return _named("content_block_stop", index=self._block)


class OllamaEvents(Events):
    """One JSON object a line; no heartbeats."""

    CONTENT_TYPE = "application/x-ndjson"
    FAULT = _fault(b'{"error":"%s"}\n' % FAULT_MESSAGE.encode(), begun=b'{"model":"')
    CHAT: ClassVar[bool] = True

    def __init__(self, job: Job, asked: GenerateRequest, framing: Framing, script: SimScript) -> None:
        super().__init__(job, asked, framing, script)
        self._head = msgspec.json.encode({"model": self._model, "created_at": "2026-12-01T00:00:00Z"})[:-1]

    def ping(self) -> bytes:
        return b""

    def _token(self, first: int, tokens: int, sim: bytes) -> bytes:
        text = make_text(first, tokens)
        thinks = first < self._reasoning
        if self.CHAT:
            said = b'"content":"","thinking":"%s"' if thinks else b'"content":"%s"'
            return b'%s,"message":{"role":"assistant",%s},"done":false%s}\n' % (self._head, said % text, sim)
        said = b'"response":"","thinking":"%s"' if thinks else b'"response":"%s"'
        return b'%s,%s,"done":false%s}\n' % (self._head, said % text, sim)

    def _finish(self, tokens: int) -> bytes:
        if not self._done:
            return b""
        empty = b'"message":{"role":"assistant","content":""}' if self.CHAT else b'"response":""'
        counts = b',"prompt_eval_count":%d,"eval_count":%d' % (self._prompt_tokens, tokens) if self._usage else b""
        return b'%s,%s,"done":true,"done_reason":"length"%s}\n' % (self._head, empty, counts)


class OllamaGenerateEvents(OllamaEvents):
    CHAT = False


class TgiEvents(Events):
    """One event a token, several in a burst where one step made several; the last one has the details."""

    FAULT = _fault(b'data: {"error":"%s","error_type":"generation"}\n\n' % FAULT_MESSAGE.encode(), begun=b'data: {"index')

    def _token(self, first: int, tokens: int, sim: bytes) -> bytes:
        return b"".join(self._one(number, sim) for number in range(first, first + tokens))

    def _one(self, number: int, sim: bytes) -> bytes:
        whole, details = b"null", b"null"
        if self._is_last(number, 1):
            whole = b'"%s"' % make_text(0, number + 1)
            if self._usage:
                details = b'{"finish_reason":"length","generated_tokens":%d,"seed":null,"input_length":%d}' % (
                    number + 1, self._prompt_tokens,
                )  # fmt: skip
        return (
            b'data: {"index":%d,"token":{"id":%d,"text":"%s","logprob":-0.5,"special":false},"generated_text":%s,'
            b'"details":%s%s}\n\n' % (number + 1, number, make_text(number, 1), whole, details, sim)
        )


class GeminiEvents(Events):
    """Usage with every event, CRLF at every line's end."""

    FAULT = _fault(
        b'data: {"error":{"code":500,"message":"%s","status":"INTERNAL"}}\r\n\r\n' % FAULT_MESSAGE.encode(),
        begun=b'data: {"candida',
    )

    def __init__(self, job: Job, asked: GenerateRequest, framing: Framing, script: SimScript) -> None:
        super().__init__(job, asked, framing, script)
        self._tail = msgspec.json.encode({"modelVersion": self._model, "responseId": self._id})[1:-1]

    def _token(self, first: int, tokens: int, sim: bytes) -> bytes:
        thought = b',"thought":true' if first < self._reasoning else b""
        return self._chunk(make_text(first, tokens), thought, b"", first + tokens, sim)

    def _finish(self, tokens: int) -> bytes:
        return self._chunk(b"", b"", b',"finishReason":"MAX_TOKENS"', tokens, b"")

    def _chunk(self, text: bytes, thought: bytes, finish: bytes, tokens: int, sim: bytes) -> bytes:
        thoughts = self._reasoned(tokens)
        usage = (
            b'"usageMetadata":{"promptTokenCount":%d,"candidatesTokenCount":%d,"thoughtsTokenCount":%d,"totalTokenCount":%d},'
            % (self._prompt_tokens, tokens - thoughts, thoughts, self._prompt_tokens + tokens)
            if self._usage
            else b""
        )
        return (
            b'data: {"candidates":[{"content":{"parts":[{"text":"%s"%s}],"role":"model"}%s,"index":0}],%s%s%s}\r\n\r\n'
            % (text, thought, finish, usage, self._tail, sim)
        )  # fmt: skip


class LlamaCppEvents(Events):
    FAULT = _fault(b"data: %s\n\n" % build_error(FAULT_MESSAGE, "server_error", 500), begun=b'data: {"index')

    def _token(self, first: int, tokens: int, sim: bytes) -> bytes:
        ids = b",".join(b"%d" % number for number in range(first, first + tokens))
        counts = b'"tokens_predicted":%d,"tokens_evaluated":%d' % (first + tokens, self._prompt_tokens)
        return b'data: {"index":0,"content":"%s","tokens":[%s],"stop":false,%s%s}\n\n' % (
            make_text(first, tokens), ids, counts, sim,
        )  # fmt: skip

    def _finish(self, tokens: int) -> bytes:
        counts: dict[str, Any] = {"tokens_predicted": tokens, "tokens_evaluated": self._prompt_tokens} if self._usage else {}
        last = {"index": 0, "content": "", "tokens": [], "stop": True, "model": self._model, "stop_type": "limit", **counts}
        return b"data: %s\n\n" % msgspec.json.encode(last)


class TritonEvents(Events):
    """Nothing but text: no finish, no counts."""

    FAULT = _fault(b'data: {"error":"%s"}\n\n' % FAULT_MESSAGE.encode(), begun=b'data: {"model_')

    def _token(self, first: int, tokens: int, sim: bytes) -> bytes:
        return b'data: {"model_name":"%s","model_version":"1","text_output":"%s"%s}\n\n' % (
            DEFAULT_MODEL.encode(), make_text(first, tokens), sim,
        )  # fmt: skip

"""What counts as a prompt token, and chunks as JSON."""

from typing import Any

import msgspec
import pytest

from loadgen.dialect.openai_chat import OpenAiChat
from loadgen.model import EventClass, Usage
from loadgen.sim.chat import ChatEvents, build_id, count_prompt_tokens, parse_chat
from loadgen.sim.http import Framing
from loadgen.sim.scheduler import Scheduler
from loadgen.wire.sse import SseParser
from loadgen.workload.sim_script import SimScript

RAW = Framing(chunked=False, close=True)


@pytest.mark.parametrize(
    ("contents", "tokens"),
    [(["x" * 8], 2), (["x" * 9], 3), ([""], 1), (["xx", "xxx"], 2), ([None], 1), (["\u00e9" * 4], 1)],
)
def test_prompt_tokens_are_characters_by_four(contents: list[Any], tokens: int) -> None:
    assert count_prompt_tokens([{"role": "user", "content": content} for content in contents]) == tokens


def test_content_parts_count_as_their_text() -> None:
    parts = [{"type": "text", "text": "x" * 5}, {"type": "image_url", "image_url": {}}, "nonsense"]
    assert count_prompt_tokens([{"content": parts}]) == 2


def test_null_options_are_as_absent() -> None:
    body: dict[str, Any] = {"messages": [{}], "n": None, "max_tokens": None, "stream_options": None, "model": None}
    asked = parse_chat(msgspec.json.encode(body))
    assert (asked.model, asked.max_tokens, asked.stream, asked.include_usage) == ("loadgen-sim", 128, False, False)


def test_our_own_dialect_reads_it() -> None:
    script = SimScript.model_validate({"usage": True, "reasoning": 1, "tokens_per_event": 3})
    asked = parse_chat(b'{"messages":[{"content":"hello"}],"model":"a\\"b\\u2028"}')
    reply = ChatEvents(Scheduler(script).submit(2, 6, 0), asked, RAW, script)
    wire = reply.role() + reply.token(0, 3, 1, 2) + reply.token(3, 3, 3, 4) + reply.ping() + reply.finish(6)
    reader = OpenAiChat().reader()
    classes = [reader.classify(event) for event in SseParser().feed(wire)]
    assert classes == [
        EventClass.PRELUDE, EventClass.REASONING, EventClass.ANSWER, EventClass.FINISH, EventClass.USAGE, EventClass.END,
    ]  # fmt: skip
    assert reader.missing() == ""
    assert reader.usage == Usage(prompt_tokens=2, completion_tokens=6, reasoning_tokens=1)


def test_chunks_hold_what_they_say() -> None:
    script = SimScript()
    reply = ChatEvents(
        Scheduler(script).submit(1, 4, 0), parse_chat(b'{"messages":[{}]}'), Framing(chunked=True, close=False), script
    )
    size, _, rest = reply.token(0, 2, 11, 22).partition(b"\r\n")
    assert len(rest) == int(size, 16) + 2
    chunk = msgspec.json.decode(rest[6:-4])
    assert chunk["id"] == build_id(0)
    assert chunk["choices"] == [{"index": 0, "delta": {"content": " the stream"}, "finish_reason": None}]
    assert chunk["sim"] == {"n": 0, "mono_ns": 11, "wall_ns": 22}

"""Every dialect's promise about its text keys: taking events without parsing them leaves the same record."""

from collections.abc import Sequence
from dataclasses import asdict
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.dialect import DIALECTS, Dialect, HttpRequest, Reader, build_dialect
from loadgen.dialect.base import Events
from loadgen.engine.run import SIM_PATH
from loadgen.model import EventClass, StreamRecord
from loadgen.sim.apis import find_api
from loadgen.sim.http import Framing
from loadgen.sim.scheduler import Scheduler
from loadgen.wire.sse import SseEvent
from loadgen.workload.custom import CustomSpec
from loadgen.workload.plan import RequestKind
from loadgen.workload.sim_script import SimScript
from tests.support.fed import Fed
from tests.support.streams import event
from tests.support.virtual import chunk

TOKENS, REASONING = 12, 5
REPEATS = {"openai-chat", "openai-completions", "anthropic-messages", "azure", "mistral", "triton"}


class Parsed:
    """A dialect that promises nothing, so that each of its events is parsed."""

    text_keys: tuple[bytes, ...] = ()

    def __init__(self, dialect: Dialect) -> None:
        self.name = dialect.name
        self.content_type = dialect.content_type
        self.events: Events = dialect.events
        self._dialect = dialect

    def build_request(self, kind: RequestKind, rng: Random, model: str | None) -> HttpRequest:
        return self._dialect.build_request(kind, rng, model)

    def reader(self, choices: int = 1) -> Reader:
        return self._dialect.reader(choices)


def record_of(dialect: Dialect, reads: Sequence[bytes]) -> dict[str, Any]:
    fed = Fed(dialect)
    for n, read in enumerate(reads):
        fed.connection.feed(read, 1000 * n + 900, 1000 * n, kernel=True)
    fed.connection.eof(1000 * len(reads))
    record = StreamRecord(stream=0, phase=0, intended_ns=0, sent_ns=0)
    fed.exchange.fill(record)
    return asdict(record) | {"gaps": list(fed.gaps), "outputs": list(fed.exchange.timeline.outputs)}


def simulated(dialect: str) -> list[bytes]:
    """What the simulated server sends, a piece a write, without the stamps that make every event another one."""
    api = find_api(SIM_PATH[dialect].partition("?")[0])
    assert api is not None
    script = SimScript.model_validate({"stamps": False, "reasoning": REASONING, "usage": True})
    job = Scheduler(script).submit(3, TOKENS, 0)
    body = (
        b'{"messages":[{"content":"x"}],"prompt":"x","input":"x","inputs":"x","text_input":"x","contents":[{}],"stream":true}'
    )
    asked = api.parse(body)
    reply = api.build_reply(job, asked, Framing(chunked=True, close=False), script)
    begin = [reply.head(), reply.role()]
    return [*begin, *(reply.token(n, 1, 0, 0) for n in range(TOKENS)), reply.finish(TOKENS)]


SIMULATED = {name: simulated(name) for name in DIALECTS.keys() - {"plain-sse"}}


@pytest.mark.parametrize("name", sorted(SIMULATED))
def test_the_record_is_that_of_parsing_everything(name: str) -> None:
    dialect, reads = DIALECTS[name], [read for read in SIMULATED[name] if read]
    short, full = record_of(dialect, reads), record_of(Parsed(dialect), reads)
    assert short == full
    assert (short["outcome"], short["output_events"]) == ("completed", TOKENS)


@pytest.mark.parametrize("name", sorted(SIMULATED))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_order_and_damage_do_not_matter(name: str, data: st.DataObject) -> None:
    """Events left out, doubled, or joined in one read; with an error or a malformed one among them."""
    dialect = DIALECTS[name]
    head, *rest = [read for read in SIMULATED[name] if read]
    odd = [chunk(b'data: {"error":"boom"}\n\n'), chunk(b"data: {\n\n"), chunk(b'{"error":"boom"}\n'), chunk(b": c\n\n")]
    drawn = data.draw(st.lists(st.sampled_from([*rest, *odd]), max_size=30))
    joins = data.draw(st.lists(st.booleans(), min_size=len(drawn), max_size=len(drawn)))
    reads = [head]
    for piece, join in zip(drawn, joins, strict=True):
        reads = [*reads[:-1], reads[-1] + piece] if join else [*reads, piece]
    assert record_of(dialect, reads) == record_of(Parsed(dialect), reads)


class Counting:
    """A reader that counts the events that are parsed."""

    def __init__(self, reader: Reader) -> None:
        self.parsed = 0
        self._reader = reader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def classify(self, event: SseEvent) -> EventClass:
        self.parsed += 1
        return self._reader.classify(event)


@pytest.mark.parametrize("name", sorted(SIMULATED))
def test_dialects_whose_events_repeat_are_not_parsed_again(name: str) -> None:
    fed = Fed(DIALECTS[name])
    fed.exchange._reader = reader = Counting(fed.exchange._reader)
    for n, read in enumerate(read for read in SIMULATED[name] if read):
        fed.connection.feed(read, 1000 * n + 900, 1000 * n, kernel=True)
    assert len(fed.exchange.timeline.outputs) == TOKENS
    assert (reader.parsed < TOKENS) is (name in REPEATS)


@pytest.mark.parametrize(
    ("spec", "bodies"),
    [
        ({"text": "/out/text"}, ['{"text":"x","out":{"text":"%s"}}', '{"out":{"text":"a"},"text":"%s"}']),
        ({"text": "/a/text", "finish": "/b/text"}, ['{"b":{"text":"%s"},"a":{"text":"x"}}', '{"a":{"text":"%s"}}']),
        ({"text": "/a/text", "error": "/b/text"}, ['{"b":{"text":"%s"},"a":{"text":"x"}}', '{"a":{"text":"%s"}}']),
        ({"text": "/a/text", "usage": "/b/text"}, ['{"b":{"text":"%s"},"a":{"text":"x"}}', '{"a":{"text":"%s"}}']),
        ({"text": "/a/0", "reasoning": "/b/text"}, ['{"a":["%s"]}', '{"b":{"text":"%s"},"a":[""]}', '{"b":{"text":"x"}}']),
        ({"text": "/t", "end": '{"t":"bye"}'}, ['{"t":"%s"}', '{"t":"bye"}']),
        ({"text": "/a~1b"}, ['{"a/b":"%s"}', '{"a/b":""}']),
        ({"text": ""}, ['"%s"', "5"]),
    ],
)
@settings(deadline=None)
@given(data=st.data())
def test_custom_keeps_the_promise_too(spec: dict[str, Any], bodies: list[str], data: st.DataObject) -> None:
    dialect = build_dialect("custom", CustomSpec.model_validate(spec))
    bodies = [body % "tok" if "%s" in body else body for body in bodies for _ in range(3)] + [
        body % "" for body in bodies if "%s" in body
    ]
    drawn = data.draw(st.lists(st.sampled_from(bodies), max_size=15))
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    reads = [head, *(chunk(f"data: {event(body).data}\n\n".encode()) for body in drawn), b"0\r\n\r\n"]
    assert record_of(dialect, reads) == record_of(Parsed(dialect), reads)

"""Events taken without parsing: whatever is sent and however it is cut, the record is that of the full way."""

from collections.abc import Sequence
from copy import copy
from dataclasses import asdict
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.dialect import DIALECTS
from loadgen.dialect.openai_chat import OpenAiChat, OpenAiChatReader
from loadgen.model import EventClass, StreamRecord
from loadgen.wire.sse import SseEvent
from tests.support.fed import Fed
from tests.support.virtual import DONE, FINISH, HEAD, LAST, ROLE, chunk, event, text


class Receiver(Fed):
    """One exchange over one connection, and all that it leaves behind."""

    def left(self, reads: Sequence[bytes], *, kernel: bool = True) -> dict[str, object]:
        for n, read in enumerate(reads):
            self.connection.feed(read, 1000 * n + 900, 1000 * n, kernel=kernel)
        self.connection.eof(1000 * len(reads))
        record = StreamRecord(stream=0, phase=0, intended_ns=0, sent_ns=0)
        self.exchange.fill(record)
        outputs = list(self.exchange.timeline.outputs)
        return asdict(record) | {"gaps": list(self.gaps), "widths": list(self.widths), "outputs": outputs}


def both(reads: Sequence[bytes], *, kernel: bool = True) -> tuple[dict[str, object], dict[str, object]]:
    return Receiver(OpenAiChat()).left(reads, kernel=kernel), Receiver(OpenAiChat(text_keys=())).left(reads, kernel=kernel)


REASONING = event(b'{"choices":[{"index":0,"delta":{"reasoning_content":"hm","content":null}}]}')
USAGE = event(b'{"choices":[],"usage":{"completion_tokens":9}}')
ERROR = event(b'{"error":{"message":"no content":"x"}}')
TOKENS = [
    text(),
    text(b"ab"),
    text("\u2028 \u4e2d".encode()),
    text(b"\\n"),
    text(b'say \\"content\\":\\"y\\"'),
    text(b""),
    text(b"\xff"),
    text(b"the end", b'"stop"'),
    REASONING,
    ROLE,
    USAGE,
    FINISH,
    ERROR,
    DONE,
    chunk(b": ping\n\n"),
    chunk(b"data: [DONE]\r\n\r\n"),
    event(b'{"choices":[{"index":0,"delta":{"content": "spaced"}}]}'),
    event(b'{"choices":[{"delta":{"content":"other shape"}}]}'),
    event(b'{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}', b"\r\n"),
    chunk(b"id: 7\ndata: {}\n\n"),
    chunk(b"event: ping\ndata: {}\n\n"),
    b"00" + text(),
    b"0;x\r\n\r\n",
]


@given(st.lists(st.sampled_from([*TOKENS, *[text(b"token")] * 20]), max_size=40), st.data())
def test_the_record_is_that_of_parsing_everything(tokens: list[bytes], data: st.DataObject) -> None:
    whole = [HEAD, *tokens, LAST]
    wire = b"".join(whole)
    if data.draw(st.booleans()):  # as servers send: whole events, sometimes several in a read
        joins = data.draw(st.lists(st.booleans(), min_size=len(whole), max_size=len(whole)))
        reads = [b""]
        for piece, join in zip(whole, joins, strict=True):
            reads = [*reads[:-1], reads[-1] + piece] if join else [*reads, piece]
        reads = [read for read in reads if read]
    else:
        cuts = sorted({0, len(wire), *data.draw(st.lists(st.integers(0, len(wire)), max_size=12))})
        reads = [wire[a:b] for a, b in pairwise(cuts)]
    short, full = both(reads, kernel=data.draw(st.booleans()))
    assert short == full


@pytest.mark.parametrize("odd", TOKENS)
def test_every_odd_event_is_seen_among_repeats(odd: bytes) -> None:
    repeats = [text(b"tok"), text(b"ens"), text(b"a longer one")]
    short, full = both([HEAD, *repeats, odd, *repeats, odd, FINISH, DONE, LAST])
    assert short == full


class Counting:
    """OpenAI's, but it notes which events are parsed, and how often a shape to repeat is looked for."""

    def __init__(self) -> None:
        self.parsed: list[str] = []
        self.tries = 0
        self._real = OpenAiChat()
        self.name, self.content_type, self.events = self._real.name, self._real.content_type, self._real.events
        self.build_request = self._real.build_request

    @property
    def text_keys(self) -> tuple[bytes, ...]:
        self.tries += 1
        return self._real.text_keys

    def reader(self, choices: int = 1) -> OpenAiChatReader:
        parsed = self.parsed

        class Reader(OpenAiChatReader):
            def classify(self, event: SseEvent) -> EventClass:
                parsed.append(event.data)
                return super().classify(event)

        return Reader(choices)


def test_repeats_are_not_parsed() -> None:
    dialect = Counting()
    left = Receiver(dialect).left([HEAD, ROLE, *[text(b"%d" % n) for n in range(50)], text(b"x") * 3, FINISH, DONE, LAST])
    assert left["outcome"] == "completed"
    assert left["quality"] == [51, 2, 0]
    assert len(dialect.parsed) == 4  # role, first token, finish, end mark


def test_a_stream_that_repeats_nothing_is_left_alone() -> None:
    dialect = Counting()
    changing = [event(b'{"created":%d,"choices":[{"index":0,"delta":{"content":"x"}}]}' % n) for n in range(100)]
    assert Receiver(dialect).left([HEAD, *changing])["output_events"] == 100
    assert dialect.tries < 20


EVENT_OF: dict[str, bytes] = {
    "openai-chat": b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n',
    "openai-completions": b'data: {"id":"c","choices":[{"index":0,"text":"%s","finish_reason":null}]}\n\n',
    "anthropic-messages": b"event: content_block_delta\n"
    b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%s"}}\n\n',
    "triton": b'data: {"model_name":"m","model_version":"1","text_output":"%s"}\n\n',
    "azure": b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n',
    "mistral": b'data: {"choices":[{"index":0,"delta":{"content": "%s"}}]}\n\n',
}


def test_every_dialect_that_promises_repeats_is_tried() -> None:
    assert EVENT_OF.keys() == {name for name, dialect in DIALECTS.items() if dialect.text_keys}


@pytest.mark.parametrize("name", EVENT_OF)
def test_repeats_of_every_dialect(name: str) -> None:
    texts = [b"a", b"longer", b'with \\"escape\\"', b"", b"b", b"c", b"\xe4\xb8\xad", b"d"]
    reads = [HEAD, *[chunk(EVENT_OF[name] % text) for text in texts], LAST]
    parsing = copy(DIALECTS[name])
    object.__setattr__(parsing, "text_keys", ())  # some are frozen
    receivers = [Receiver(DIALECTS[name]), Receiver(parsing)]
    taken: list[bool] = []
    for read in reads:
        for receiver in receivers:
            receiver.connection.feed(read, 9, 1, kernel=True)
        taken.append(receivers[0].exchange.repeat is not None)
    assert taken.count(True) >= 5
    assert receivers[0].left([]) == receivers[1].left([])

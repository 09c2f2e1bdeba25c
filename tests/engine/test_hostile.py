"""Targets that send what no decoder should meet: the stream fails, or is counted; the run and its files go on."""

from pathlib import Path

import pytest

from loadgen.model import Outcome
from loadgen.record.journal import Journal, read_journal, start_journal
from tests.engine.test_outcomes import one
from tests.support.virtual import DONE, FINISH, HEAD, LAST, event, script, text

DEEP = b"[" * 5_000
EVENTS = {
    "deep JSON": DEEP,
    "deep error": b'{"error":' + DEEP,
    "deep usage": b'{"usage":' + DEEP,
    "number without end": b'{"usage":{"completion_tokens":' + b"9" * 6_000 + b"}}",
    "number as finish": b'{"choices":[{"index":0,"finish_reason":' + b"9" * 6_000 + b"}]}",
    "index out of range": b'{"choices":[{"index":99999999999999999999999999,"delta":{"content":"x"}}]}',
    "more tokens than 64 bits": b'{"choices":[],"usage":{"completion_tokens":99999999999999999999999999}}',
    "fewer tokens than none": b'{"choices":[],"usage":{"completion_tokens":-5,"prompt_tokens":-1}}',
    "infinite tokens": b'{"choices":[],"usage":{"completion_tokens":1e999}}',
    "float tokens": b'{"choices":[],"usage":{"completion_tokens":1.5}}',
    "code as error": b'{"error":{"message":"x","code":' + b"9" * 6_000 + b"}}",
}


@pytest.mark.parametrize("data", EVENTS.values(), ids=EVENTS.keys())
def test_hostile_events_end_in_the_record(data: bytes, tmp_path: Path) -> None:
    record, run = one(script(HEAD, text(), 0.01, event(data) + text() + FINISH + DONE + LAST))
    assert record.outcome in {Outcome.COMPLETED, Outcome.TRUNCATED, Outcome.PROTOCOL_ERROR, Outcome.PROVIDER_ERROR}
    assert record.output_events >= 2
    start_journal(tmp_path / "j", {})
    with Journal(tmp_path / "j") as journal:
        journal.write(record)
    assert read_journal(tmp_path / "j").records == [record]
    assert run.summary["tokens"]["usage"] >= 0
    assert len(record.detail) < 1_000


@pytest.mark.parametrize("body", [b'{"error":' + DEEP, b"{" + DEEP, b'{"error":' + b"9" * 4_000 + b"}"])
def test_hostile_body_that_is_no_stream(body: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    record, _ = one(script(head + body))
    assert record.outcome in {Outcome.PROTOCOL_ERROR, Outcome.PROVIDER_ERROR}

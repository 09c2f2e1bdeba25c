"""The journal: every field survives, and a killed run's file is still readable."""

from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loadgen.model import Outcome, StreamRecord, Usage
from loadgen.record.journal import Journal, read_journal, start_journal
from tests.support.records import any_record, completed, failed


def write(path: Path, records: list[StreamRecord]) -> None:
    start_journal(path, {"name": "release-gate", "seed": 7})
    with Journal(path) as journal:
        for record in records:
            journal.write(record)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=st.lists(any_record, max_size=4))
def test_every_record_comes_back_equal(tmp_path: Path, records: list[StreamRecord]) -> None:
    path = tmp_path / "journal.jsonl"
    write(path, records)
    found = read_journal(path)
    assert found.header == {"journal": 1, "name": "release-gate", "seed": 7}
    assert list(found.records) == records
    assert found.dropped_bytes == 0


def test_no_field_keeps_its_default_in_the_round_trip(tmp_path: Path) -> None:
    record = completed(
        3, phase=1, variant="nginx", request=2, outcome=Outcome.TRUNCATED, detail='quote " \u2028 é', measured=False,
        heartbeats=2,
        reads=50,
        merged_reads=3,
        dial_lag_ns=7, usage=Usage(prompt_tokens=1, completion_tokens=2, cached_tokens=3, reasoning_tokens=4),
        bunched_events=5, burst_events=6, reused=True, connection=9, left_open=True, retried=True, backend="b",
    )  # fmt: skip
    plain = StreamRecord(stream=0, phase=0, intended_ns=0)
    unset = [f.name for f in fields(StreamRecord) if getattr(record, f.name) == getattr(plain, f.name)]
    assert unset == []
    write(tmp_path / "j", [record])
    (back,) = read_journal(tmp_path / "j").records
    assert back == record
    assert isinstance(back.outcome, Outcome)


def test_one_line_each_and_on_disk_before_the_journal_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    start_journal(path, {})
    with Journal(path) as journal:
        for stream in range(3):
            journal.write(completed(stream, detail="two\nlines"))
            assert len(path.read_bytes().splitlines()) == stream + 2


def test_a_journal_cut_anywhere_gives_all_whole_records(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    write(path, [completed(0), failed(1, detail="ünreachable")])
    whole = path.read_bytes()
    begin = whole[:-1].rindex(b"\n") + 1
    for end in range(begin, len(whole) - 1):
        path.write_bytes(whole[:end])
        found = read_journal(path)
        assert list(found.records) == [completed(0)]
        assert found.dropped_bytes == end - begin


def test_a_damaged_line_in_the_middle_is_an_error_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    write(path, [completed(0), completed(1)])
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], lines[1][:50], lines[2], b""]))
    with pytest.raises(ValueError, match=r"journal\.jsonl:2: "):
        read_journal(path)


@pytest.mark.parametrize("header", [b"", b"{}", b"[]", b'{"journal": 99}', b'{"jour'])
def test_another_file_is_no_journal(tmp_path: Path, header: bytes) -> None:
    (tmp_path / "x").write_bytes(header + b"\n")
    with pytest.raises(ValueError):
        read_journal(tmp_path / "x")

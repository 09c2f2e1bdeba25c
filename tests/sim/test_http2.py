"""The simulated server over HTTP/2: the same script gives the same streams as over HTTP/1.1."""

from typing import Any

import pytest
import trio
from trio.testing import memory_stream_pair

from loadgen.clock import TrioClock
from loadgen.model import Outcome, StreamRecord
from loadgen.sim.server import SimServer
from loadgen.workload.sim_script import SimScript
from tests.support.virtual import VirtualRun, run_virtual

SCRIPT: dict[str, Any] = {"ttft": "100ms", "itl": "10ms"}
LOAD = (
    "seed: 5\nload: [{hold: 2s, streams: 12}]\nrequests: [{max_tokens: {uniform: [1, 12]}}]\nfailure_pause: 50ms\ndrain: 3s\n"
)


def run(version: str, script: dict[str, Any], load: str = LOAD, **transport: Any) -> VirtualRun:
    keys = "".join(f", {key}: {value}" for key, value in transport.items())
    return run_virtual(f'{load}transport: {{http: "{version}"{keys}}}\n', sim=script)


def told(records: list[StreamRecord]) -> list[tuple[object, ...]]:
    """What does not depend on the version of HTTP, by stream."""
    return [
        (
            r.stream, r.outcome, r.status, r.output_events, r.finish_reason, r.usage, r.intended_ns, r.head_ns,
            r.first_token_ns, r.last_token_ns, r.end_ns, r.stall_ns,
        )
        for r in sorted(records, key=lambda r: r.stream)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "script",
    [
        {},
        {"pace": "batched", "jitter": "20%"},
        {"role_first": "20ms", "heartbeat": "15ms"},
        {"reject_above": 8},
        {"tokens_per_event": 3},
        {"faults": [{"kind": "error_object", "share": "50%", "after": 2}]},
        {"faults": [{"kind": "error_event", "share": "50%", "after": 2}]},
        {"faults": [{"kind": "cut_clean", "share": "50%", "after": 2}]},
        {"faults": [{"kind": "no_done", "share": "50%"}]},
        {"faults": [{"kind": "status", "share": "30%"}, {"kind": "html", "share": "30%"}]},
    ],
    ids=str,
)
def test_both_versions_tell_the_same(script: dict[str, Any]) -> None:
    # Of requests that come at the same instant the server draws jitter and faults in any order: one at a time then.
    drawn = script.keys() & {"jitter", "faults"}
    load = LOAD.replace("hold: 2s, streams: 12", "hold: 12s, streams: 1") if drawn else LOAD
    old, new = run("1.1", SCRIPT | script, load), run("2", SCRIPT | script, load)
    assert told(new.records) == told(old.records)
    assert len(new.records) > 50
    assert new.server is not None
    assert len({r.connection for r in new.records}) == 1
    assert new.server.ended.total() <= len(new.records)


@pytest.mark.parametrize("kind", ["cut_in_chunk", "reset"])
def test_a_cut_is_a_reset_of_its_stream_only(kind: str) -> None:
    found = run("2", SCRIPT | {"faults": [{"kind": kind, "share": "50%", "after": 2}]})
    outcomes = found.summary["streams"]["outcomes"]
    assert outcomes["reset"] > 5
    assert outcomes["completed"] > 5
    assert {r.connection for r in found.records} == {0}
    assert {r.detail for r in found.records if r.outcome is Outcome.RESET} == {"RST_STREAM INTERNAL_ERROR"}


def test_a_stream_that_is_left_frees_its_slot_at_once() -> None:
    load = (
        "load: [{hold: 1s, streams: 4}]\nrequests: [{max_tokens: 50}]\n"
        "timeouts: {first_token: null, idle: null, total: 130ms}\n"
    )
    found = run("2", SCRIPT, load)
    assert {r.outcome for r in found.records} == {Outcome.TIMEOUT_TOTAL}
    assert found.server is not None
    assert found.server.scheduler.open == 0
    ended = sorted(stream.ended_ns for stream in found.server.log if stream.ended_ns is not None)
    assert ended == sorted(r.end_ns for r in found.records)
    assert {r.connection for r in found.records} == {0}


def test_the_servers_limit_opens_further_connections() -> None:
    found = run("2", SCRIPT | {"max_concurrent_streams": 5})
    assert {r.connection for r in found.records} == {0, 1, 2}
    assert set(found.summary["streams"]["outcomes"]) == {"completed"}


def test_a_small_window_holds_the_engine_back_and_loses_nothing() -> None:
    load = "load: [{hold: 1s, streams: 3}]\nrequests: [{max_tokens: 60}]\ndrain: 5s\n"
    found = run("2", SCRIPT, load, windows="{stream: 16KiB, connection: 64KiB}")
    assert {(r.outcome, r.output_events) for r in found.records} == {(Outcome.COMPLETED, 60)}


def test_what_is_no_http2_after_the_preface_ends_with_a_goaway() -> None:
    async def main() -> bytes:
        server = SimServer(SimScript(), TrioClock())
        ours, theirs = memory_stream_pair()
        got = b""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.serve_stream, theirs)
            await ours.send_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\5\0\1\0\0\0\1hello")
            with trio.move_on_after(1):
                while piece := await ours.receive_some():
                    got += piece
        return got

    assert b"\x07\0\0\0\0\0" in trio.run(main)  # a frame of type GOAWAY on stream 0

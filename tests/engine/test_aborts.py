"""Streams that are left on purpose: which, when, how, and what the server hears of it."""

from typing import Any

import pytest
import trio

from loadgen.model import Outcome
from tests.support.sockets import run_real
from tests.support.virtual import HEAD, MS, VirtualRun, run_virtual, text

SIM = {"ttft": "100ms", "itl": "10ms"}
LOAD = "load: [{hold: 2s, streams: 10}]\nrequests: [{max_tokens: 20}]\ndrain: 3s\n"


def run(aborts: str, version: str = "1.1", **sim: Any) -> VirtualRun:
    return run_virtual(f'{LOAD}transport: {{http: "{version}"}}\naborts: {aborts}\n', sim=SIM | sim)


@pytest.mark.parametrize("version", ["1.1", "2"])
@pytest.mark.parametrize(
    ("after", "at_ms", "tokens", "words"),
    [
        ("{tokens: 1}", 100, 1, "left after 1 token by close"),
        ("{tokens: 5}", 140, 5, "left after 5 tokens by close"),
        ("{time: 125ms}", 125, 3, "left 125ms after the request was sent by close"),
        ("headers", 0, 0, "left after the response head by close"),
        ("sent", 0, 0, "left once the request was sent by close"),
    ],
)
def test_the_moment_of_leaving_and_what_the_server_saw(version: str, after: str, at_ms: int, tokens: int, words: str) -> None:
    found = run(f"[{{share: 100%, after: {after}}}]", version)
    records = found.records
    assert len(records) >= 50
    assert {(r.outcome, r.detail, r.output_events) for r in records} == {(Outcome.ABORTED, words, tokens)}
    assert {r.end_ns - (r.sent_ns or 0) for r in records} == {at_ms * MS}
    assert found.server is not None
    assert found.server.scheduler.open == 0
    if tokens:
        heard = sorted(stream.ended_ns or 0 for stream in found.server.log)
        assert heard == sorted(r.end_ns for r in records)
    if version == "2":
        assert {r.connection for r in records} == {0}


def test_a_share_is_left_and_the_rest_completes() -> None:
    found = run("[{share: 20%, after: {tokens: 3}}, {share: 10%, after: {time: 50ms}, by: reset}]")
    outcomes = found.summary["streams"]["outcomes"]
    left = [r.detail for r in found.records if r.outcome is Outcome.ABORTED]
    assert outcomes["aborted"] == len(left)
    assert outcomes["completed"] + outcomes["aborted"] == found.summary["streams"]["started"]
    assert 0.1 < sum("3 tokens" in detail for detail in left) / len(found.records) < 0.32
    assert 0.02 < sum("by reset" in detail for detail in left) / len(found.records) < 0.22
    assert found.summary["streams"]["error_rate"] == 0.0  # nobody's fault


def test_a_stream_that_ends_first_is_not_left() -> None:
    found = run("[{share: 100%, after: {tokens: 21}}]")
    assert set(found.summary["streams"]["outcomes"]) == {"completed"}


def test_the_same_seed_leaves_the_same_streams() -> None:
    runs = [run("[{share: 30%, after: sent}]") for _ in range(2)]
    first, second = ({r.stream for r in found.records if r.outcome is Outcome.ABORTED} for found in runs)
    assert first
    assert first == second


@pytest.mark.net
@pytest.mark.parametrize(("by", "ends"), [("close", b""), ("reset", "RST")])
async def test_fin_and_rst_are_what_they_say(by: str, ends: object) -> None:
    seen: list[object] = []

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            await stream.send_all(HEAD + text())
            try:
                seen.append(bytes(await stream.receive_some()))
            except trio.BrokenResourceError:
                seen.append("RST")

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        port = listeners[0].socket.getsockname()[1]
        with trio.fail_after(10):
            _, records = await run_real(
                f'loadgen: 1\ntarget: {{url: "http://127.0.0.1:{port}/v1"}}\nload: [{{hold: 300ms, streams: 2}}]\n'
                f"aborts: [{{share: 100%, after: {{tokens: 1}}, by: {by}}}]\n"
            )
            while len(seen) < len(records):
                await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    assert {r.outcome for r in records} == {Outcome.ABORTED}
    assert set(seen) == {ends}

"""Tokens on the wire in virtual time: when they leave, what is stamped, what a fault or a slow reader does to them."""

from itertools import pairwise
from typing import Any

import pytest
import trio
from trio.testing import MockClock, lockstep_stream_pair, wait_all_tasks_blocked

from loadgen.sim import outlet
from loadgen.sim.schedule import plan_events
from loadgen.sim.scheduler import State
from loadgen.workload.sim_script import SimScript
from tests.support.sim_client import MS, Answer, open_memory_sim

OWN = {"ttft": "250ms", "itl": "20ms"}


async def test_own_pace_is_exact_to_the_nanosecond(autojump_clock: MockClock) -> None:
    async with open_memory_sim(**OWN) as sim:
        begin_ns = round(trio.current_time() * 1e9)
        answer = await sim.connect().chat(max_tokens=50)
        arrivals = [at - begin_ns for at, _ in answer.tokens]
    assert arrivals == [250_000_000 + n * 20_000_000 for n in range(50)]
    assert answer.complete


async def test_stamps_and_log_say_when_each_chunk_was_sent(autojump_clock: MockClock) -> None:
    async with open_memory_sim(**OWN) as sim:
        answer = await sim.connect().chat(max_tokens=5)
        (logged,) = sim.server.log
    stamps = [chunk["sim"] for _, chunk in answer.chunks if "sim" in chunk]
    assert [stamp["n"] for stamp in stamps] == [0, 1, 2, 3, 4]
    assert [stamp["mono_ns"] for stamp in stamps] == [at for at, _ in answer.tokens] == list(logged.sent_ns)
    assert all(stamp["wall_ns"] > 1_600_000_000 * 10**9 for stamp in stamps)
    assert (logged.state, logged.tokens, logged.ended_ns) == (State.FINISHED, 5, logged.sent_ns[-1])


async def test_no_stamps_when_the_script_says_so(autojump_clock: MockClock) -> None:
    async with open_memory_sim(stamps=False) as sim:
        answer = await sim.connect().chat(max_tokens=2)
    assert all("sim" not in chunk for _, chunk in answer.chunks)


async def test_jittered_streams_send_what_was_planned_for_them(autojump_clock: MockClock) -> None:
    keys: dict[str, Any] = {**OWN, "jitter": "30%", "seed": 5}
    async with open_memory_sim(**keys) as sim, trio.open_nursery() as nursery:
        for delay in range(4):
            nursery.start_soon(_chat_after, sim.connect(), delay * 0.013)
    assert len(sim.server.log) == 4
    for logged in sim.server.log:
        plan = plan_events(SimScript.model_validate(keys), logged.number, logged.prompt_tokens, 20)
        assert [at - logged.arrived_ns for at in logged.sent_ns] == pytest.approx(plan, abs=2)  # float seconds in trio


async def test_batched_streams_get_their_tokens_together(autojump_clock: MockClock) -> None:
    async with open_memory_sim(prefill={"base": "100ms"}, decode={"step": "20ms", "per_stream": "1ms"}) as sim:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(_chat_after, sim.connect(), 0)
        sent = [list(logged.sent_ns) for logged in sim.server.log]
    assert sent[0] == sent[1] == sent[2]
    assert {b - a for a, b in pairwise(sent[0])} == {23 * MS}


async def test_streams_beyond_the_batch_wait_their_turn(autojump_clock: MockClock) -> None:
    async with open_memory_sim(**OWN, max_batch=1) as sim:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(_chat_after, sim.connect(), 0)
        first = [logged.sent_ns[0] - logged.arrived_ns for logged in sim.server.log]
    life_ns = (250 + 19 * 20) * MS
    assert first == [250 * MS, life_ns + 250 * MS, 2 * life_ns + 250 * MS]


async def test_role_comes_with_the_first_token_or_early(autojump_clock: MockClock) -> None:
    for role_first, at_ms in ((None, 250), ("0ms", 0), ("40ms", 40), ("900ms", 250)):
        async with open_memory_sim(**OWN, role_first=role_first) as sim:
            begin_ns = round(trio.current_time() * 1e9)
            answer = await sim.connect().chat(max_tokens=3)
        roles = [at - begin_ns for at, chunk in answer.chunks if chunk["choices"][0]["delta"].get("role")]
        assert roles == [at_ms * MS], role_first


async def test_waiting_stream_gets_its_early_role_chunk(autojump_clock: MockClock) -> None:
    async with open_memory_sim(**OWN, max_batch=1, role_first="5ms") as sim:
        await sim.connect().send("POST", "/v1/chat/completions", b'{"messages":[{"content":"a"}],"stream":true}')
        await wait_all_tasks_blocked()
        begin_ns = round(trio.current_time() * 1e9)
        answer = await sim.connect().chat(max_tokens=1)
    assert answer.events[0][0] - begin_ns == 5 * MS


async def test_heartbeat_fills_silence_only(autojump_clock: MockClock) -> None:
    async with open_memory_sim(ttft="1s", itl="50ms", heartbeat="300ms") as sim:
        begin_ns = round(trio.current_time() * 1e9)
        answer = await sim.connect().chat(max_tokens=20)
    assert [at - begin_ns for at, text in answer.events if text == ": ping"] == [300 * MS, 600 * MS, 900 * MS]


@pytest.mark.parametrize(
    ("kind", "complete", "last"),
    [
        ("error_object", True, "data: [DONE]"),
        ("error_event", True, "event: error"),
        ("cut_clean", True, "data: {"),
        ("cut_in_chunk", False, "data: {"),
        ("reset", False, "data: {"),
    ],
)
async def test_fault_comes_after_its_tokens(kind: str, complete: bool, last: str, autojump_clock: MockClock) -> None:
    async with open_memory_sim(**OWN, faults=[{"share": 1, "kind": kind, "after": 3}]) as sim:
        answer = await sim.connect().chat(max_tokens=10)
        (logged,) = sim.server.log
    assert len(answer.tokens) == 3
    assert answer.complete is complete
    assert answer.events[-1][1].startswith(last)
    assert (logged.state, logged.ended_ns) == (State.FAULT, logged.arrived_ns + (250 + 3 * 20) * MS)
    assert sim.server.scheduler.blocks_used == 0


async def test_stream_shorter_than_the_fault_ends_well(autojump_clock: MockClock) -> None:
    async with open_memory_sim(faults=[{"share": 1, "kind": "reset", "after": 3}]) as sim:
        answer = await sim.connect().chat(max_tokens=3)
        assert answer.complete
        assert sim.server.ended == {State.FINISHED: 1}


async def test_no_done_lacks_only_the_end_mark(autojump_clock: MockClock) -> None:
    async with open_memory_sim(faults=[{"share": 1, "kind": "no_done"}]) as sim:
        answer = await sim.connect().chat(max_tokens=3)
    assert answer.complete
    assert answer.chunks[-1][1]["choices"][0]["finish_reason"] == "length"
    assert "data: [DONE]" not in [text for _, text in answer.events]


async def test_stalled_stream_stays_silent_until_the_client_leaves(autojump_clock: MockClock) -> None:
    async with open_memory_sim(**OWN, heartbeat="1s", faults=[{"share": 1, "kind": "stall", "after": 2}]) as sim:
        client = sim.connect()
        answer = Answer()
        with trio.move_on_after(3600):
            await client.send("POST", "/v1/chat/completions", b'{"messages":[{"content":"a"}],"stream":true}')
            answer = await client.read(stop=lambda a: len(a.tokens) == 2)
            await client.read()
            pytest.fail("the stream ended")
        assert len(answer.tokens) == 2
        assert sim.server.ended == {State.FAULT: 1}


async def test_slow_reader_is_held_and_stamps_stay_true(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that takes nothing for 10 s: the backlog fills, the engine makes nothing for it, then it goes on."""
    monkeypatch.setattr(outlet, "MAX_BACKLOG_BYTES", 2_000)
    async with open_memory_sim(**OWN) as sim:
        slow, other = sim.connect(lockstep_stream_pair), sim.connect()
        await slow.send("POST", "/v1/chat/completions", b'{"messages":[{"content":"a"}],"stream":true,"max_tokens":100}')
        begun_ns = round(trio.current_time() * 1e9)
        assert len((await other.chat(max_tokens=400)).tokens) == 400  # nobody else notices
        taken_ns = round(trio.current_time() * 1e9)
        answer = await slow.read()
        slow_log = sim.server.log[-1]
    assert answer.complete
    sent = list(slow_log.sent_ns)
    assert len(sent) == len(answer.tokens) == 100
    assert [chunk["sim"]["mono_ns"] for _, chunk in answer.chunks if "sim" in chunk] == sent
    before = [at for at in sent if at < taken_ns]
    assert 5 < len(before) < 20
    assert before == [begun_ns + 250 * MS + n * 20 * MS for n in range(len(before))]
    assert all((at - begun_ns - 250 * MS) % (20 * MS) == 0 for at in sent)


async def test_cancelled_connection_leaves_nothing_in_the_engine(autojump_clock: MockClock) -> None:
    async with open_memory_sim(**OWN) as sim:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_chat_over_own_task, sim, nursery)
                await trio.sleep(0.3)
                assert sim.server.scheduler.open == 1
                scope.cancel()
        assert (sim.server.scheduler.open, sim.server.scheduler.blocks_used) == (0, 0)
        assert sim.server.ended == {State.ABORTED: 1}
        await trio.sleep(1)  # the scheduler has forgotten it, too


async def _chat_over_own_task(sim: Any, nursery: trio.Nursery) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    nursery.start_soon(sim.server.serve_stream, theirs)
    await ours.send_all(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 44\r\n\r\n"
        b'{"messages":[{"content":"a"}],"stream":true}'
    )
    await trio.sleep_forever()


async def _chat_after(client: Any, delay_s: float) -> None:
    await trio.sleep(delay_s)
    answer = await client.chat(max_tokens=20)
    assert len(answer.tokens) == 20

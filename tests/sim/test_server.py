"""Endpoints, errors, limits, aborts and connections, in virtual time over memory streams."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from loadgen.sim.scheduler import State
from tests.support.sim_client import MS, MemorySim, SimClient, chat_body, open_memory_sim

OWN = {"ttft": "250ms", "itl": "20ms"}
CHAT = "/v1/chat/completions"


async def begin_chat(sim: MemorySim, **body: Any) -> SimClient:
    """A client whose stream is open at the server."""
    client = sim.connect()
    await client.send("POST", CHAT, chat_body(**body))
    await wait_all_tasks_blocked()
    return client


async def test_stream_looks_like_vllms(autojump_clock: MockClock) -> None:
    async with open_memory_sim() as sim:
        answer = await sim.connect().chat(model="m", max_tokens=3, stream_options={"include_usage": True}, prompt="x" * 9)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    chunks = [chunk for _, chunk in answer.chunks]
    assert {(c["id"], c["object"], c["model"]) for c in chunks} == {("chatcmpl-sim-0", "chat.completion.chunk", "m")}
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(text for _, text in answer.tokens) == " the stream of"
    assert chunks[-2]["choices"][0]["finish_reason"] == "length"
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"] == {"prompt_tokens": 3, "completion_tokens": 3, "total_tokens": 6}
    assert answer.events[-1][1] == "data: [DONE]"


@pytest.mark.parametrize(
    ("script", "asked", "sent"),
    [("asked", True, True), ("asked", False, False), (True, False, True), (False, True, False)],
)
async def test_usage(script: Any, asked: bool, sent: bool, autojump_clock: MockClock) -> None:
    async with open_memory_sim(usage=script) as sim:
        answer = await sim.connect().chat(max_tokens=1, stream_options={"include_usage": asked})
    assert any(chunk.get("usage") for _, chunk in answer.chunks) is sent


async def test_json_answer_takes_as_long_as_the_stream(autojump_clock: MockClock) -> None:
    async with open_memory_sim(**OWN) as sim:
        begin_ns = round(trio.current_time() * 1e9)
        answer = await sim.connect().chat(stream=False, max_completion_tokens=4, max_tokens=9)
        took_ns = round(trio.current_time() * 1e9) - begin_ns
    assert took_ns == (250 + 3 * 20) * MS
    assert answer.json["choices"][0]["message"] == {"role": "assistant", "content": " the stream of small"}
    assert answer.json["usage"]["completion_tokens"] == 4


async def test_reasoning_comes_first(autojump_clock: MockClock) -> None:
    async with open_memory_sim(reasoning=2) as sim:
        answer = await sim.connect().chat(max_tokens=3)
    deltas = [chunk["choices"][0]["delta"] for _, chunk in answer.chunks[1:4]]
    assert [next(iter(delta)) for delta in deltas] == ["reasoning_content", "reasoning_content", "content"]


async def test_done_can_be_left_out(autojump_clock: MockClock) -> None:
    async with open_memory_sim(done=False) as sim:
        answer = await sim.connect().chat(max_tokens=1)
    assert answer.complete
    assert "[DONE]" not in answer.body.decode()


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"{}", b'{"messages": []}', b'{"messages": "hi"}', b'{"messages": ["hi"]}', b"\xff",
        chat_body(n=2), chat_body(n=[1]), chat_body(max_tokens=0), chat_body(max_tokens=True), chat_body(max_tokens="9"),
        chat_body(max_completion_tokens=-1), chat_body(max_tokens=10**9), chat_body(prompt="x" * 10**6),
    ],
)  # fmt: skip
async def test_bad_request_is_answered_as_openai_does(body: bytes, autojump_clock: MockClock) -> None:
    async with open_memory_sim() as sim:
        client = sim.connect()
        answer = await client.ask("POST", CHAT, body)
        assert (answer.status, answer.json["error"]["code"]) == (400, 400)
        assert answer.json["error"]["type"] == "invalid_request_error"
        assert len(answer.json["error"]["message"]) > 10
        assert (await client.ask()).status == 200  # the connection lives on
        assert sim.server.max_open == 0


async def test_small_endpoints(autojump_clock: MockClock) -> None:
    async with open_memory_sim() as sim:
        client = sim.connect()
        assert (await client.ask("GET", "/v1/models")).json["data"][0]["id"] == "loadgen-sim"
        assert (await client.ask("GET", "/health")).status == 200
        assert (await client.ask("GET", CHAT)).status == 404
        assert (await client.ask("GET", "/nothing")).json["error"]["code"] == 404


async def test_plain_events(autojump_clock: MockClock) -> None:
    async with open_memory_sim(**OWN, stamps=False) as sim:
        client = sim.connect()
        answer = await client.ask("GET", "/sse?n=3")
        assert [text for _, text in answer.events] == ["data: 0", "data: 1", "data: 2"]
        assert [at - answer.events[0][0] for at, _ in answer.events] == [0, 20 * MS, 40 * MS]
        assert (await client.ask("POST", "/sse?n=1", b"{}")).complete


async def test_plain_events_with_stamps(autojump_clock: MockClock) -> None:
    async with open_memory_sim(**OWN) as sim:
        answer = await sim.connect().ask("GET", "/sse?n=2")
    assert [(chunk["n"], chunk["mono_ns"]) for _, chunk in answer.chunks] == [
        (n, at) for n, (at, _) in enumerate(answer.events)
    ]


@pytest.mark.parametrize("query", ["n=0", "n=x", "n=-1", "n=" + "9" * 5000, "n=999999"])
async def test_bad_number_of_plain_events(query: str, autojump_clock: MockClock) -> None:
    async with open_memory_sim() as sim:
        assert (await sim.connect().ask("GET", f"/sse?{query}")).status == 400


async def test_status_and_html_faults_stand_instead_of_the_stream(autojump_clock: MockClock) -> None:
    async with open_memory_sim(faults=[{"share": 1, "kind": "status"}]) as sim:
        client = sim.connect()
        assert (await client.chat()).status == 503
        assert (await client.chat()).json["error"]["message"] == "scripted fault"
        assert sim.server.ended == {State.FAULT: 2}
    async with open_memory_sim(faults=[{"share": 1, "kind": "html"}]) as sim:
        answer = await sim.connect().chat()
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html")


@pytest.mark.parametrize("limit", [{"reject_above": 2}, {"max_batch": 1, "queue": 1}])
async def test_rejected_above_the_limit(limit: dict[str, int], autojump_clock: MockClock) -> None:
    async with open_memory_sim(**OWN, **limit) as sim:
        for _ in range(2):
            await begin_chat(sim)
        third = sim.connect()
        answer = await third.chat()
        assert (answer.status, answer.headers["retry-after"]) == (429, "1")
        assert answer.json["error"]["type"] == "rate_limit_exceeded"
        await trio.sleep(10)  # the others have ended
        assert (await third.chat()).status == 200
        assert "loadgen_sim_rejected_total 1\n" in (await third.ask("GET", "/metrics")).body.decode()


@pytest.mark.parametrize("how", ["close", "half-close"])
async def test_client_that_leaves_frees_its_place_at_once(how: str, autojump_clock: MockClock) -> None:
    async with open_memory_sim(**OWN, max_batch=1, role_first="10s") as sim:
        leaver, waiter = await begin_chat(sim), await begin_chat(sim)
        await trio.sleep(0.3)
        assert (sim.server.scheduler.open, sim.server.scheduler.blocks_used) == (2, 9)
        left_ns = round(trio.current_time() * 1e9)
        if how == "close":
            await leaver.stream.aclose()
        else:
            await leaver.stream.send_eof()  # type: ignore[attr-defined]
        answer = await waiter.read()
        gone, served = sim.server.log
        assert (gone.state, gone.ended_ns, gone.kv_blocks) == (State.ABORTED, left_ns, 9)
        assert len(gone.sent_ns) == 3
        assert answer.tokens[0][0] == served.sent_ns[0] == left_ns + 250 * MS
        assert (sim.server.scheduler.open, sim.server.scheduler.blocks_used) == (0, 0)


async def test_waiting_client_may_leave(autojump_clock: MockClock) -> None:
    async with open_memory_sim(**OWN, max_batch=1) as sim:
        await begin_chat(sim)
        waiting = await begin_chat(sim)
        assert len(sim.server.scheduler.waiting) == 1
        await waiting.stream.aclose()
        await wait_all_tasks_blocked()
        assert len(sim.server.scheduler.waiting) == 0


async def test_keep_alive_serves_one_stream_after_another(autojump_clock: MockClock) -> None:
    async with open_memory_sim() as sim:
        client = sim.connect()
        answers = [await client.chat(max_tokens=n) for n in (1, 2, 3)]
        assert [len(a.tokens) for a in answers] == [1, 2, 3]
        assert sim.server.max_open == 1


async def test_without_keep_alive_the_connection_closes(autojump_clock: MockClock) -> None:
    async with open_memory_sim(keep_alive=False) as sim:
        for target in ("/health", "/sse?n=1"):
            client = sim.connect()
            answer = await client.ask("GET", target)
            assert (answer.complete, answer.headers["connection"]) == (True, "close")
            assert await client.stream.receive_some() == b""


async def test_client_may_ask_to_close(autojump_clock: MockClock) -> None:
    async with open_memory_sim() as sim:
        client = sim.connect()
        assert (await client.ask("GET", "/sse?n=1", connection="close")).complete
        assert await client.stream.receive_some() == b""


async def test_http_10_gets_no_chunks(autojump_clock: MockClock) -> None:
    """nginx speaks HTTP/1.0 to its upstreams by default."""
    async with open_memory_sim(stamps=False) as sim:
        client = sim.connect()
        await client.stream.send_all(b"GET /sse?n=2 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        got = b""
        while data := await client.stream.receive_some():
            got += data
    head, _, body = got.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head.lower()
    assert body == b"data: 0\n\ndata: 1\n\n"


async def test_next_request_may_come_while_a_stream_runs(autojump_clock: MockClock) -> None:
    async with open_memory_sim(stamps=False) as sim:
        client = sim.connect()
        await client.stream.send_all(b"GET /sse?n=1 HTTP/1.1\r\nHost: a\r\n\r\n")
        await wait_all_tasks_blocked()
        await client.stream.send_all(b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        got = b""
        while data := await client.stream.receive_some():
            got += data
    assert got.count(b"HTTP/1.1 200 OK") == 2


async def test_what_is_no_http_gets_a_400(autojump_clock: MockClock) -> None:
    async with open_memory_sim() as sim:
        client = sim.connect()
        await client.stream.send_all(b"\x16\x03\x01 hello\r\n\r\n")
        assert (await client.stream.receive_some()).startswith(b"HTTP/1.1 400 ")
        assert await client.stream.receive_some() == b""


async def test_client_that_floods_is_gone(autojump_clock: MockClock) -> None:
    async with open_memory_sim(**OWN) as sim:
        client = await begin_chat(sim)
        await client.stream.send_all(b"x" * 100_000)
        await wait_all_tasks_blocked()
        assert sim.server.ended == {State.ABORTED: 1}


async def test_streams_report_and_reset(autojump_clock: MockClock) -> None:
    async with open_memory_sim(**OWN) as sim:
        client = sim.connect()
        for tokens in (1, 2):
            await client.chat(max_tokens=tokens)
        await begin_chat(sim)
        await trio.sleep(0.26)
        first, second, running = (await client.ask("GET", "/sim/streams")).json
        assert [s["outcome"] for s in (first, second, running)] == ["finished", "finished", "open"]
        assert [s["id"] for s in (first, second)] == ["chatcmpl-sim-0", "chatcmpl-sim-1"]
        assert [at - second["arrived_ns"] for at in second["sent_ns"]] == [250 * MS, 270 * MS]
        assert (second["tokens"], second["kv_blocks"], len(running["sent_ns"])) == (2, 1, 1)
        assert [s["id"] for s in (await client.ask("GET", "/sim/streams?last=1")).json] == [second["id"], running["id"]]
        assert (await client.ask("POST", "/sim/reset")).status == 200
        assert [s["outcome"] for s in (await client.ask("GET", "/sim/streams")).json] == ["open"]
        assert (sim.server.max_open, sim.server.ended) == (1, {})


async def test_metrics_count_what_happens(autojump_clock: MockClock) -> None:
    async with open_memory_sim(**OWN, max_batch=1, kv={"blocks": 20, "block_tokens": 16}) as sim:
        client = sim.connect()
        await client.chat(max_tokens=5, prompt="x" * 40)
        leaver = await begin_chat(sim, max_tokens=50, prompt="x" * 40)
        await begin_chat(sim, max_tokens=1)
        samples = await read_metrics(client)
        assert samples["vllm:num_requests_running"] == 1
        assert samples["vllm:num_requests_waiting"] == 1
        assert samples["vllm:kv_cache_usage_perc"] == 4 / 20
        assert samples["vllm:generation_tokens_total"] == 5
        assert samples["vllm:prompt_tokens_total"] == 20
        assert samples['vllm:request_success_total{finished_reason="length"}'] == 1
        assert (samples["loadgen_sim_open_streams"], samples["loadgen_sim_max_open_streams"]) == (2, 2)
        await leaver.stream.aclose()
        await trio.sleep(1)
        samples = await read_metrics(client)
        assert samples["loadgen_sim_aborts_total"] == 1
        assert (samples["loadgen_sim_open_streams"], samples["vllm:kv_cache_usage_perc"]) == (0, 0)


async def read_metrics(client: SimClient) -> dict[str, float]:
    """Samples of /metrics; every one has its HELP and TYPE before it."""
    lines = (await client.ask("GET", "/metrics")).body.decode().splitlines()
    samples = {}
    for help_line, type_line, sample in zip(lines[::3], lines[1::3], lines[2::3], strict=True):
        name, value = sample.rsplit(" ", 1)
        family = name.partition("{")[0]
        assert help_line.startswith(f"# HELP {family} ")
        assert type_line in {f"# TYPE {family} counter", f"# TYPE {family} gauge"}
        samples[name] = float(value)
    return samples

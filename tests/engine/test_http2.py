"""Streams over HTTP/2 in virtual time, against servers that are written frame by frame."""

import re

import pytest
import trio

from loadgen.model import Outcome, StreamRecord
from loadgen.wire import http2_frames as f
from tests.support.http2_peer import (
    END,
    Got,
    Peer,
    Request,
    data,
    frame,
    goaway,
    h2_script,
    ping,
    rst,
    serve_all,
    settings,
    token,
    window_update,
)  # fmt: skip
from tests.support.virtual import MS, VirtualRun, run_virtual

PROTOCOL_ERROR, REFUSED, CANCEL = 1, 7, 8


def load(streams: int = 1, transport: str = "connections: 1", hold: str = "100ms", more: str = "") -> str:
    return (
        f"load: [{{hold: {hold}, streams: {streams}}}]\ntransport: {{http: 2, {transport}}}\n"
        f"failure_pause: 10s\ndrain: 5s\n{more}"
    )


def kinds(peer: Peer, kind: int) -> list[Got]:
    return [got for got in peer.got if got.kind == kind]


def outcomes(run: VirtualRun) -> list[Outcome]:
    return [record.outcome for record in sorted(run.records, key=lambda r: r.stream)]


async def stay(peer: Peer) -> None:
    """Read and say nothing."""
    await peer.left()


# ---- what goes well


def test_streams_share_a_connection_and_their_stamps_are_their_own() -> None:
    peers: list[Peer] = []

    async def talk(peer: Peer) -> None:
        first, second = await peer.request(), await peer.request()
        await trio.sleep(0.2)
        await peer.send(peer.head(first.stream), data(first.stream, token()))
        await trio.sleep(0.03)
        await peer.send(peer.head(second.stream), data(second.stream, token()), data(first.stream, token()))
        await trio.sleep(0.02)
        for request in (first, second):
            await peer.send(data(request.stream, END, end=True))
        await stay(peer)

    run = run_virtual(load(2), handler=h2_script(talk, peers))
    one, two = sorted(run.records[:2], key=lambda r: r.stream)
    assert (one.outcome, two.outcome) == (Outcome.COMPLETED, Outcome.COMPLETED)
    assert one.first_token_ns == two.intended_ns + 200 * MS  # the server waited for both
    assert two.first_token_ns is not None
    assert one.end_ns - two.intended_ns == 250 * MS
    assert one.connection == two.connection == 0
    assert two.first_token_ns - one.first_token_ns == 30 * MS
    assert len(peers) == 1


def test_the_request_is_what_the_dialect_built() -> None:
    requests: list[Request] = []

    async def talk(peer: Peer) -> None:
        requests.append(await peer.request())
        await peer.send(peer.answer(requests[0].stream))
        await stay(peer)

    run_virtual(load(), handler=h2_script(talk))
    headers = requests[0].headers
    assert {name: headers[name] for name in (":method", ":scheme", ":authority", ":path")} == {
        ":method": "POST", ":scheme": "http", ":authority": "sim", ":path": "/v1/chat/completions",
    }  # fmt: skip
    assert headers["content-length"] == str(len(requests[0].body))
    assert headers["user-agent"].startswith("loadgen/")
    assert b"messages" in requests[0].body
    assert all(name == name.lower() and name not in {"host", "connection"} for name in headers)


def test_informational_heads_padding_and_trailers_are_no_answer() -> None:
    async def talk(peer: Peer) -> None:
        number = (await peer.request()).stream
        early = frame(f.HEADERS, f.END_HEADERS, number, peer.block([(":status", "103"), ("link", "</x>")]))
        padded = frame(f.DATA, f.PADDED, number, bytes([5]) + token() + bytes(5))
        trailers = frame(f.HEADERS, f.END_HEADERS | f.END_STREAM, number, peer.block([("grpc-status", "0")]))
        await peer.send(early, peer.head(number), padded, data(number, END), trailers)
        await stay(peer)

    run = run_virtual(load(), handler=h2_script(talk))
    assert (run.records[0].outcome, run.records[0].output_events) == (Outcome.COMPLETED, 1)


def test_a_rejection_with_a_content_length_is_quoted() -> None:
    async def talk(peer: Peer) -> None:
        number = (await peer.request()).stream
        await peer.send(peer.head(number, 429, content_length="4", retry_after="7"), data(number, b"busy", end=True))
        await stay(peer)

    record = run_virtual(load(), handler=h2_script(talk)).records[0]
    assert (record.outcome, record.detail) == (Outcome.REJECTED, "429 (Retry-After: '7'): 'busy'")


def test_pings_and_settings_are_answered_at_once() -> None:
    peers: list[Peer] = []

    async def talk(peer: Peer) -> None:
        await peer.request()
        await peer.send(ping(b"ABCDEFGH"), settings(max_concurrent=7))
        await stay(peer)

    run_virtual(load(), handler=h2_script(talk, peers))
    (pong,) = kinds(peers[0], f.PING)
    assert (pong.flags, pong.payload) == (f.ACK, b"ABCDEFGH")
    assert [got.flags for got in kinds(peers[0], f.SETTINGS)] == [0, f.ACK, f.ACK]


# ---- leaving a stream


def test_a_stream_that_is_left_is_cancelled_and_the_connection_lives_on() -> None:
    peers: list[Peer] = []

    async def talk(peer: Peer) -> None:
        async with trio.open_nursery() as nursery:

            async def one_token(request: Request) -> None:
                await peer.send(peer.head(request.stream), data(request.stream, token()))

            while True:
                nursery.start_soon(one_token, await peer.request())

    run = run_virtual(load(3, more="timeouts: {idle: 300ms}", hold="1s"), handler=h2_script(talk, peers, max_concurrent=3))
    cut = [r for r in run.records if r.outcome is Outcome.TIMEOUT_IDLE]
    assert len(cut) == len(run.records) == 12
    assert {r.connection for r in run.records} == {0}
    resets = kinds(peers[0], f.RST_STREAM)
    assert len(resets) == 12
    assert {got.code for got in resets} == {CANCEL}
    assert [got.code for got in kinds(peers[0], f.GOAWAY)] == [0]  # at the end of the run


def test_what_still_comes_of_a_stream_that_was_left_is_ignored_and_credited() -> None:
    """The server goes on for a while: its DATA was on its way. More than the window of the connection in the end."""
    peers: list[Peer] = []
    late = bytes(16_384)

    async def talk(peer: Peer) -> None:
        number = (await peer.request()).stream
        await peer.send(peer.head(number), data(number, token()))
        await peer.next(f.RST_STREAM)
        for _ in range(12):  # 192 KiB, with a window of 64 KiB: three updates are needed
            await peer.send(data(number, late))
            await trio.sleep(0.001)
        await serve_all(peer, 0.01)

    more = "timeouts: {idle: 50ms}"
    transport = "connections: 1, windows: {stream: 64KiB, connection: 64KiB}"
    run = run_virtual(load(1, transport, hold="200ms", more=more), handler=h2_script(talk, peers))
    assert outcomes(run)[0] is Outcome.TIMEOUT_IDLE
    assert set(outcomes(run)[1:]) <= {Outcome.COMPLETED}, [(r.outcome, r.detail) for r in run.records]
    credit = sum(got.code for got in kinds(peers[0], f.WINDOW_UPDATE) if got.stream == 0)
    assert credit >= 12 * 16_384 - 65_536
    assert len(kinds(peers[0], f.RST_STREAM)) == 1
    assert len(peers) == 1


def test_an_end_mark_without_end_of_stream_is_left_after_a_second() -> None:
    peers: list[Peer] = []

    async def talk(peer: Peer) -> None:
        number = (await peer.request()).stream
        await peer.send(peer.head(number), data(number, token() + END))
        await stay(peer)

    run = run_virtual(load(), handler=h2_script(talk, peers))
    assert (run.records[0].outcome, run.records[0].left_open) == (Outcome.COMPLETED, True)
    assert kinds(peers[0], f.RST_STREAM)[0].code == CANCEL


# ---- how many streams


def open_at_once(run: VirtualRun, connection: int | None = None) -> int:
    """The most streams that had been sent and had not ended."""
    edges = []
    for record in run.records:
        if record.sent_ns is not None and connection in {None, record.connection}:
            edges += [(record.sent_ns, 1), (record.end_ns, -1)]
    level = most = 0
    for _, step in sorted(edges, key=lambda edge: (edge[0], edge[1])):
        level += step
        most = max(most, level)
    return most


def test_the_peers_limit_is_honoured_and_the_wait_is_stamped() -> None:
    peers: list[Peer] = []
    run = run_virtual(load(5), handler=h2_script(serve_all, peers, max_concurrent=2))
    assert set(outcomes(run)) == {Outcome.COMPLETED}
    assert open_at_once(run) == 2
    assert len(peers) == 1
    waits = sorted((r.connection_ns or 0) - r.intended_ns for r in run.records[:5])
    assert [round(wait / MS) for wait in waits] == [0, 0, 50, 50, 100] or waits[-1] >= 95 * MS
    assert run.summary["metrics"]["queue"]["max_ms"] >= 95


def test_further_connections_are_opened_as_needed() -> None:
    peers: list[Peer] = []
    run = run_virtual(load(5, "connections: as-needed"), handler=h2_script(serve_all, peers, max_concurrent=2))
    assert set(outcomes(run)) == {Outcome.COMPLETED}
    assert len(peers) == 3
    assert all(open_at_once(run, connection) <= 2 for connection in range(3))
    assert open_at_once(run) == 5


def test_streams_are_spread_evenly_over_a_number_of_connections() -> None:
    peers: list[Peer] = []
    run = run_virtual(load(12, "connections: 4, streams_per_connection: 3"), handler=h2_script(serve_all, peers))
    assert len(peers) == 4
    assert [open_at_once(run, connection) for connection in range(4)] == [3, 3, 3, 3]


def test_own_limit_queues_on_a_number_of_connections() -> None:
    run = run_virtual(load(6, "connections: 2, streams_per_connection: 2"), handler=h2_script(serve_all))
    assert open_at_once(run) == 4
    assert set(outcomes(run)) == {Outcome.COMPLETED}


def test_per_stream_opens_a_connection_each() -> None:
    peers: list[Peer] = []
    run = run_virtual(load(3, "connections: per-stream"), handler=h2_script(serve_all, peers))
    assert len(peers) == len(run.records)
    assert len({record.connection for record in run.records}) == len(run.records)


def test_a_limit_that_rises_lets_waiting_streams_go() -> None:
    async def talk(peer: Peer) -> None:
        await peer.request()
        await trio.sleep(0.02)
        await peer.send(settings(max_concurrent=4))
        others = [await peer.request() for _ in range(3)]
        await trio.sleep(0.02)
        await peer.send(*(peer.answer(number) for number in (1, *(o.stream for o in others))))
        await stay(peer)

    run = run_virtual(load(4, hold="30ms"), handler=h2_script(talk, max_concurrent=1))
    assert set(outcomes(run)) == {Outcome.COMPLETED}
    assert sorted((r.connection_ns or 0) - r.intended_ns >= 17 * MS for r in run.records) == [False, True, True, True]


def test_a_limit_that_falls_lets_open_streams_finish() -> None:
    async def talk(peer: Peer) -> None:
        requests = [await peer.request() for _ in range(3)]
        await peer.send(settings(max_concurrent=1))
        await trio.sleep(0.01)
        for request in requests[:2]:
            await peer.send(peer.answer(request.stream))
        with trio.move_on_after(0.02):
            await peer.request()
            raise AssertionError("a stream above the limit")
        await peer.send(peer.answer(requests[2].stream))
        await serve_all(peer, 0.001)

    run = run_virtual(load(3, hold="60ms"), handler=h2_script(talk, max_concurrent=3))
    assert set(outcomes(run)) == {Outcome.COMPLETED}


# ---- GOAWAY and refusals


def test_goaway_lets_streams_up_to_the_last_id_finish_and_the_others_go_elsewhere() -> None:
    peers: list[Peer] = []

    async def talk(peer: Peer) -> None:
        if len(peers) > 1:
            await serve_all(peer)
        first, second = await peer.request(), await peer.request()
        await peer.send(peer.head(first.stream), data(first.stream, token()), goaway(first.stream))
        assert second.stream > first.stream
        await trio.sleep(0.05)
        await peer.send(data(first.stream, token()), data(first.stream, END, end=True))
        await stay(peer)

    run = run_virtual(load(2, hold="20ms"), handler=h2_script(talk, peers))
    assert set(outcomes(run)) == {Outcome.COMPLETED}
    by_stream = sorted(run.records, key=lambda r: r.stream)
    assert [(r.connection, r.retried, r.output_events) for r in by_stream] == [(0, False, 2), (1, True, 1)]


def test_goaway_in_the_same_read_as_the_data_after_it() -> None:
    async def talk(peer: Peer) -> None:
        request = await peer.request()
        await trio.sleep(0.01)
        await peer.send(goaway(request.stream), peer.head(request.stream), data(request.stream, token() + END, end=True))
        await stay(peer)

    run = run_virtual(load(hold="1ms"), handler=h2_script(talk))
    assert outcomes(run) == [Outcome.COMPLETED]


def test_a_stream_that_is_turned_away_twice_ended_by_goaway() -> None:
    async def talk(peer: Peer) -> None:
        await peer.request()
        await peer.send(goaway(0, 0xB, b"too_many_pings"))
        await stay(peer)

    record = run_virtual(load(), handler=h2_script(talk)).records[0]
    assert (record.outcome, record.detail, record.retried) == (
        Outcome.GOAWAY, "GOAWAY ENHANCE_YOUR_CALM 'too_many_pings'", True,
    )  # fmt: skip


def test_a_connection_that_closes_after_goaway_takes_its_streams_along() -> None:
    async def talk(peer: Peer) -> None:
        request = await peer.request()
        await trio.sleep(0.01)
        await peer.send(peer.head(request.stream), data(request.stream, token()), goaway(request.stream, 2))

    record = run_virtual(load(), handler=h2_script(talk)).records[0]
    assert record.outcome is Outcome.GOAWAY
    assert record.detail == "the connection was closed inside the answer after GOAWAY INTERNAL_ERROR"


def test_a_connection_that_just_closes_is_a_truncated_answer() -> None:
    async def talk(peer: Peer) -> None:
        request = await peer.request()
        await trio.sleep(0.01)
        await peer.send(peer.head(request.stream), data(request.stream, token()))

    record = run_virtual(load(), handler=h2_script(talk)).records[0]
    assert (record.outcome, record.detail) == (
        Outcome.TRUNCATED, "premature_eof: the connection was closed inside the answer",
    )  # fmt: skip


def test_a_refused_stream_is_sent_again_once_on_another_connection() -> None:
    peers: list[Peer] = []

    async def talk(peer: Peer) -> None:
        request = await peer.request()
        if peer is peers[0]:
            await peer.send(rst(request.stream, REFUSED))
            await stay(peer)
        await peer.send(peer.answer(request.stream))
        await stay(peer)

    record = run_virtual(load(1, "connections: 2", hold="1ms"), handler=h2_script(talk, peers)).records[0]
    assert (record.outcome, record.retried, record.connection) == (Outcome.COMPLETED, True, 1)


def test_a_stream_that_is_refused_twice_is_reset() -> None:
    async def talk(peer: Peer) -> None:
        while True:
            await peer.send(rst((await peer.request()).stream, REFUSED))

    record = run_virtual(load(), handler=h2_script(talk)).records[0]
    assert (record.outcome, record.detail, record.retried) == (Outcome.RESET, "RST_STREAM REFUSED_STREAM", True)


@pytest.mark.parametrize(
    ("code", "name"), [(2, "INTERNAL_ERROR"), (8, "CANCEL"), (0xB, "ENHANCE_YOUR_CALM"), (99, "error code 0x63")]
)
def test_resets_are_named_and_are_their_streams_only(code: int, name: str) -> None:
    async def talk(peer: Peer) -> None:
        first, second = await peer.request(), await peer.request()
        await peer.send(peer.head(first.stream), data(first.stream, token()), rst(first.stream, code))
        await peer.send(peer.answer(second.stream))
        await stay(peer)

    run = run_virtual(load(2, hold="5ms"), handler=h2_script(talk))
    assert sorted(outcomes(run)[:2]) == [Outcome.COMPLETED, Outcome.RESET]
    assert next(r.detail for r in run.records if r.outcome is Outcome.RESET) == f"RST_STREAM {name}"


# ---- flow control


def test_a_large_body_respects_the_peers_windows() -> None:
    """Windows that are opened only now and then, and moved by SETTINGS in the middle of it."""
    sizes: list[int] = []

    async def talk(peer: Peer) -> None:
        allowed, received = 65_535, 0  # of stream and connection, before anybody said something else

        async def take(until: int) -> None:
            nonlocal received, allowed
            allowed = until
            while received < until:
                got = await peer.next(f.DATA)
                received += len(got.payload)
                assert received <= allowed, "beyond the window"
                assert len(got.payload) <= 16_384
            with trio.move_on_after(0.1):
                await peer.next(f.DATA)
                raise AssertionError("beyond the window")

        await peer.next(f.HEADERS)
        await take(65_535)
        await peer.send(settings(initial_window=10_000), window_update(0, 1 << 20))  # the stream's is -55,535 now (6.9.2)
        await take(65_535)
        await peer.send(window_update(1, 55_535 + 5_000))
        await take(70_535)
        await peer.send(settings(initial_window=15_000))
        await take(75_535)
        allowed = 1 << 20
        await peer.send(window_update(1, 1 << 20))
        while not (got := await peer.next(f.DATA)).flags & f.END_STREAM:
            received += len(got.payload)
        sizes.append(received + len(got.payload))
        await peer.send(peer.answer(1))
        await stay(peer)

    more = "requests: [{prompt: {characters: 200000}}]"
    run = run_virtual(load(1, hold="1ms", more=more), handler=h2_script(talk))
    assert outcomes(run) == [Outcome.COMPLETED]
    assert sizes[0] > 200_000
    sent = run.records[0].sent_ns
    assert sent is not None
    assert sent - run.records[0].intended_ns == 400 * MS


def test_an_answer_before_the_end_of_the_request_stops_the_request() -> None:
    peers: list[Peer] = []

    async def talk(peer: Peer) -> None:
        await peer.next(f.HEADERS)
        await peer.send(peer.head(1, 413, content_length="9"), data(1, b"too large", end=True))
        await stay(peer)

    more = "requests: [{prompt: {characters: 200000}}]"
    run = run_virtual(load(1, hold="1ms", more=more), handler=h2_script(talk, peers, initial_window=1000))
    assert (run.records[0].outcome, run.records[0].detail) == (Outcome.HTTP_ERROR, "413: 'too large'")
    assert run.records[0].sent_ns is None
    assert [got.code for got in kinds(peers[0], f.RST_STREAM)] == [0]


def test_credit_comes_back_in_time_for_answers_larger_than_any_window() -> None:
    peers: list[Peer] = []
    big = token("y" * 8_000)

    async def talk(peer: Peer) -> None:
        number = (await peer.request()).stream
        await peer.send(peer.head(number))
        stream_left = connection_left = 65_535
        updates = 0
        for _ in range(200):
            while min(stream_left, connection_left) < len(big):
                got = await peer.next(f.WINDOW_UPDATE)
                updates += 1
                if got.stream:
                    stream_left += got.code
                else:
                    connection_left += got.code
            stream_left -= len(big)
            connection_left -= len(big)
            await peer.send(data(number, big))
        assert updates < 120, "credits are to be batched"
        await peer.send(data(number, END, end=True))
        await stay(peer)

    transport = "connections: 1, windows: {stream: 65535B, connection: 65535B}"
    run = run_virtual(load(1, transport, hold="1ms"), handler=h2_script(talk, peers))
    assert (run.records[0].outcome, run.records[0].output_events) == (Outcome.COMPLETED, 200)


def test_a_slow_stream_does_not_hold_the_others_back() -> None:
    """One stream gets megabytes that nobody asked for at once; another one on the connection keeps its pace."""

    async def talk(peer: Peer) -> None:
        first, second = await peer.request(), await peer.request()
        await peer.send(peer.head(first.stream), peer.head(second.stream))
        for _ in range(20):
            await trio.sleep(0.01)
            await peer.send(*[data(first.stream, token("z" * 16_000))] * 3, data(second.stream, token()))
        await peer.send(data(first.stream, END, end=True), data(second.stream, END, end=True))
        await stay(peer)

    run = run_virtual(
        load(2, "connections: 1, windows: {stream: 64KiB, connection: 256KiB}", hold="5ms"), handler=h2_script(talk)
    )
    second = next(r for r in run.records if r.stream == 1)
    assert (second.outcome, second.output_events, second.stall_ns) == (Outcome.COMPLETED, 20, 10 * MS)


# ---- hostile servers


def headers_with(block: bytes, *continuations: bytes, number: int = 1) -> bytes:
    *middle, last = continuations
    return b"".join(
        [
            frame(f.HEADERS, 0, number, block),
            *(frame(f.CONTINUATION, 0, number, piece) for piece in middle),
            frame(f.CONTINUATION, f.END_HEADERS, number, last),
        ]
    )


def huge_headers(peer: Peer) -> bytes:
    block = peer.block([(":status", "200"), *((f"x-{n}", "v" * 1000) for n in range(100))])
    return headers_with(block[:16_000], *(block[at : at + 16_000] for at in range(16_000, len(block), 16_000)))


HOSTILE = {
    "continuation flood": (
        lambda p: frame(f.HEADERS, 0, 1, b"") + frame(f.CONTINUATION, 0, 1, b"") * 1000,
        "http2: .*ontinuation",
    ),
    "header list": (huge_headers, "http2: ENHANCE_YOUR_CALM"),
    "bad hpack": (lambda p: frame(f.HEADERS, f.END_HEADERS, 1, b"\xff\xff\xff\xff\xff"), "http2: "),
    "something inside headers": (lambda p: frame(f.HEADERS, 0, 1, b"\x88") + data(1, b"x"), "http2: PROTOCOL_ERROR"),
    "data before headers": (lambda p: data(1, b"x"), "http2: PROTOCOL_ERROR"),
    "data on an idle stream": (lambda p: data(99, b"x"), "http2: "),
    "data on an even stream": (lambda p: data(2, b"x"), "http2: "),
    "data on stream 0": (lambda p: data(0, b"x"), "http2: PROTOCOL_ERROR"),
    "bad padding": (lambda p: p.head(1) + frame(f.DATA, f.PADDED, 1, b"\xffx"), "http2: PROTOCOL_ERROR"),
    "oversized frame": (lambda p: p.head(1) + data(1, bytes(16_385)), "frame_size"),
    "stream window": (lambda p: p.head(1) + data(1, bytes(16_384)) * 65, "flow_control: .* window of the stream"),
    "zero increment": (lambda p: window_update(0, 0), "http2: PROTOCOL_ERROR"),
    "window overflow": (lambda p: window_update(0, (1 << 31) - 1), "http2: FLOW_CONTROL_ERROR"),
    "stream window overflow": (lambda p: window_update(1, (1 << 31) - 1), "http2: FLOW_CONTROL_ERROR"),
    "initial window": (lambda p: settings(initial_window=1 << 31), "http2: FLOW_CONTROL_ERROR"),
    "frame size of 1": (lambda p: settings(max_frame=1), "http2: PROTOCOL_ERROR"),
    "push": (
        lambda p: frame(f.PUSH_PROMISE, f.END_HEADERS, 1, b"\0\0\0\2" + p.block([(":path", "/")])),
        "http2: PROTOCOL_ERROR",
    ),
    "settings of 5 bytes": (lambda p: frame(f.SETTINGS, 0, 0, b"12345"), "http2: "),
    "goaway of 3 bytes": (lambda p: frame(f.GOAWAY, 0, 0, b"123"), "frame_size"),
    "ping of 3 bytes": (lambda p: frame(f.PING, 0, 0, b"123"), "http2: "),
    "ping flood": (lambda p: ping() * 20_000, "flood"),
    "settings flood": (lambda p: settings() * 20_000, "flood"),
    "empty data flood": (lambda p: p.head(1) + data(1) * 20_000, "flood"),
    "rapid resets": (lambda p: rst(1, 2) + rst(1, 2) * 20_000, "."),
    "unknown frames": (lambda p: frame(0x42, 0, 0, b"?") * 20_000, "flood"),
    "early hints flood": (
        lambda p: frame(f.HEADERS, f.END_HEADERS, 1, p.block([(":status", "103")])) * 20_000, "flood",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_servers_end_the_connection_with_a_reason(case: str) -> None:
    peers: list[Peer] = []
    attack, reason = HOSTILE[case]

    async def talk(peer: Peer) -> None:
        await peer.request()
        if peer is peers[0]:
            await peer.send(attack(peer))
        await stay(peer)

    run = run_virtual(load(1, hold="5ms"), handler=h2_script(talk, peers))
    record = min(run.records, key=lambda r: r.stream)
    assert record.outcome in {Outcome.PROTOCOL_ERROR, Outcome.RESET}
    if case != "rapid resets":
        assert record.outcome is Outcome.PROTOCOL_ERROR
        assert re.search(reason, record.detail), record.detail
    if case != "stream window overflow":
        assert kinds(peers[0], f.GOAWAY)


def test_content_length_must_be_true() -> None:
    async def talk(peer: Peer) -> None:
        number = (await peer.request()).stream
        await peer.send(peer.head(number, content_length="500"), data(number, token() + END, end=True))
        await stay(peer)

    record = run_virtual(load(), handler=h2_script(talk)).records[0]
    assert record.outcome is Outcome.PROTOCOL_ERROR
    assert "500" in record.detail


@pytest.mark.parametrize("status", ["", "20", "abc", "099", "2000"])
def test_a_bad_status_is_its_streams_error_only(status: str) -> None:
    peers: list[Peer] = []

    async def talk(peer: Peer) -> None:
        first, second = await peer.request(), await peer.request()
        block = peer.block([(":status", status)] if status else [("x", "y")])
        await peer.send(frame(f.HEADERS, f.END_HEADERS, first.stream, block), peer.answer(second.stream))
        await stay(peer)

    run = run_virtual(load(2, hold="5ms"), handler=h2_script(talk, peers))
    assert sorted(outcomes(run)[:2]) == [Outcome.COMPLETED, Outcome.PROTOCOL_ERROR]
    assert [got.stream for got in kinds(peers[0], f.RST_STREAM) if got.code == PROTOCOL_ERROR] == [1]


def test_a_server_of_another_protocol() -> None:
    async def talk(stream: trio.abc.Stream) -> None:
        async with stream:
            await stream.receive_some()
            await stream.send_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")

    record = run_virtual(load(), handler=talk).records[0]
    assert record.outcome is Outcome.PROTOCOL_ERROR
    assert "it speaks HTTP/1.1: set transport.http" in record.detail


def test_a_server_that_never_says_its_settings_gets_one_stream() -> None:
    seen: list[int] = []

    async def talk(stream: trio.abc.Stream) -> None:
        async with stream:
            while piece := await stream.receive_some():
                seen.append(len(piece))

    run = run_virtual(load(3, more="timeouts: {connect: 1s, first_token: 2s, idle: 2s}"), handler=talk)
    assert sorted(outcomes(run)[:3]) == [Outcome.TIMEOUT_CONNECT, Outcome.TIMEOUT_CONNECT, Outcome.TIMEOUT_FIRST_TOKEN]


def records_of(run: VirtualRun) -> list[StreamRecord]:
    return sorted(run.records, key=lambda r: r.stream)


# ---- backends


def test_a_balancer_of_connections_is_found_by_the_header_that_names_the_backend() -> None:
    peers: list[Peer] = []

    async def talk(peer: Peer) -> None:
        name = f"replica-{len(peers) % 2}"
        while True:
            request = await peer.request()
            await trio.sleep(0.01)
            await peer.send(peer.head(request.stream, x_backend=name), data(request.stream, token() + END, end=True))

    target = "url: http://sim/v1/chat/completions, backend_header: X-Backend"
    run = run_virtual(load(6, "connections: 2", hold="200ms"), handler=h2_script(talk, peers), target=target)
    backends = run.summary["backends"]
    assert backends["streams"].keys() == {"replica-0", "replica-1"}
    assert backends["pinned"]
    assert "a balancer that works on connections" in backends["finding"]
    assert run.summary["connections"]["count"] == 2


# ---- many


def test_a_thousand_aborts_lose_no_connection() -> None:
    peers: list[Peer] = []

    async def talk(peer: Peer) -> None:
        while True:
            request = await peer.request()
            await peer.send(peer.head(request.stream), data(request.stream, token()))

    more = "timeouts: {first_token: null, idle: null, total: 100ms}"
    run = run_virtual(load(100, "connections: 4", hold="1s", more=more), handler=h2_script(talk, peers))
    assert len(run.records) >= 900
    assert set(outcomes(run)) == {Outcome.TIMEOUT_TOTAL}
    assert len(peers) == 4
    assert sum(got.code == CANCEL for peer in peers for got in kinds(peer, f.RST_STREAM)) == len(run.records)

"""Whatever servers do, and whenever a stream is left: one record each, started = ended, stamps in order."""

from random import Random

import pytest
import trio

from loadgen.model import StreamRecord
from tests.support.virtual import DONE, FINISH, HEAD, LAST, ROLE, Handler, run_virtual, text

WHOLE = HEAD + text() + FINISH + DONE + LAST
ANSWERS = [
    b"", b"HTTP/1.1 429 No\r\nContent-Length: 2\r\n\r\nno", b"HTTP/1.1 500 No\r\n\r\nno", WHOLE, WHOLE.removesuffix(LAST),
    HEAD + ROLE, WHOLE + b"junk", WHOLE, WHOLE,
]  # fmt: skip
CLOSING = {0, 2, 3}  # leave after the answer; 3 leaves somewhere inside it
LINGERING = {4, 5}


def moody(rng: Random) -> Handler:
    async def handle(stream: trio.abc.Stream) -> None:
        async with stream:
            try:
                while await answer(stream):
                    pass
            except trio.BrokenResourceError:
                return

    async def answer(stream: trio.abc.Stream) -> bool:
        got = b""
        while b"\r\n\r\n" not in got:
            data = await stream.receive_some()
            if not data:
                return False
            got += data
        await trio.sleep(rng.choice([0.001, 0.01, 0.2, 3]))
        kind = rng.randrange(len(ANSWERS))
        whole = ANSWERS[kind]
        at, end = 0, rng.randrange(len(whole)) if kind == 3 else len(whole)
        while at < end:
            size = min(rng.randrange(1, 200), end - at)
            await stream.send_all(whole[at : at + size])
            at += size
            if rng.random() < 0.3:
                await trio.sleep(rng.choice([0.001, 0.05, 0.5]))
        if kind in LINGERING:
            await trio.sleep(rng.choice([0.1, 5]))
        return kind not in CLOSING

    return handle


def stamps(r: StreamRecord) -> list[int]:
    reached = (
        r.intended_ns, r.started_ns, r.slot_ns, r.connection_ns, r.sent_ns, r.head_ns, r.first_byte_ns, r.first_event_ns,
        r.first_token_ns, r.last_token_ns, r.end_ns,
    )  # fmt: skip
    return [stamp for stamp in reached if stamp is not None]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_every_stream_is_recorded_once(seed: int) -> None:
    rng = Random(seed)

    def refuse() -> None:
        if rng.random() < 0.05:
            raise OSError("refused")

    limit = rng.choice(["null", "{streams: 2}", "{streams: 2, when_full: drop}"])
    run = run_virtual(
        f"load: [{{warmup: 500ms, streams: 3}}, {{hold: 2s, streams: {rng.randrange(1, 6)}}}, {{ramp: 1s, streams: [0, 7]}}]\n"
        f"limit: {limit}\nfailure_pause: 50ms\ndrain: {rng.choice(['0s', '1s', '20s'])}\n"
        f"transport: {{connections: {rng.choice(['per-stream', '1', '3'])}}}\n"
        f"timeouts: {{first_token: {rng.choice(['100ms', '200ms'])}, idle: {rng.choice(['50ms', '150ms', 'null'])}, "
        f"total: {rng.choice(['300ms', '5s', 'null'])}}}\n",
        handler=moody(rng),
        refuse=refuse,
    )
    everything = run.recorder.everything()
    assert everything.started == everything.ended == len(run.records)
    assert sorted(record.stream for record in run.records) == list(range(len(run.records)))
    for record in run.records:
        assert stamps(record) == sorted(stamps(record)), record

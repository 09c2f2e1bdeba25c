"""Pooled connections: what may be sent again, and what may be used again."""

from itertools import count

import pytest
import trio

from loadgen.model import Outcome
from tests.support.sockets import listening, run_real
from tests.support.virtual import DONE, FINISH, HEAD, LAST, Handler, run_virtual, text

POOLED = "load: [{hold: 5s, streams: 1}]\ntransport: {connections: 1}\n"
LARGE = "x" * 12_000_000  # more than the socket buffers of both sides hold


def dying_on_reuse(requests: list[int], after_s: float) -> Handler:
    """Answers the first request of a connection, takes the second and closes without a byte ``after_s`` later."""

    async def handle(stream: trio.abc.Stream) -> None:
        async with stream:
            for number in count():
                got = b""
                while b"\r\n\r\n" not in got:
                    data = await stream.receive_some()
                    if not data:
                        return
                    got += data
                requests.append(number)
                if number == 1:
                    await trio.sleep(after_s)
                    return
                await trio.sleep(0.1)
                await stream.send_all(HEAD + text() + FINISH + DONE + LAST)

    return handle


def test_a_server_that_fails_on_a_reused_connection_is_not_asked_again() -> None:
    """It had the request for three seconds: that is no idle connection closed under us, but a failure of the target."""
    requests: list[int] = []
    run = run_virtual(POOLED, handler=dying_on_reuse(requests, 3.0))
    assert len(requests) == len(run.records)
    assert [r.outcome for r in run.records[:2]] == [Outcome.COMPLETED, Outcome.TRUNCATED]


def test_a_connection_closed_while_the_request_was_under_way_is_replaced() -> None:
    requests: list[int] = []
    run = run_virtual(POOLED, handler=dying_on_reuse(requests, 0.01))
    assert {r.outcome for r in run.records} == {Outcome.COMPLETED}
    assert len(requests) > len(run.records)


async def answer_early_and_read_on(stream: trio.abc.Stream, size: int = 1000) -> None:
    async with stream:
        await stream.receive_some(size)
        await stream.send_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno!")
        await trio.sleep(0.5)
        try:
            while await stream.receive_some(1 << 20):
                pass
        except trio.BrokenResourceError:
            return


@pytest.mark.net
@pytest.mark.slow
async def test_a_connection_with_half_a_request_on_it_is_not_used_again() -> None:
    """The next request would be read as the rest of the body; and the slot need not wait for the rest to be sent."""
    async with listening(answer_early_and_read_on) as port:
        _, records = await run_real(f"""
loadgen: 1
target: {{url: "http://127.0.0.1:{port}/v1/chat/completions"}}
requests: [{{prompt: "{LARGE}"}}]
load: [{{hold: 1s, streams: 1}}]
failure_pause: 100ms
transport: {{connections: 1}}
""")
    assert {(r.outcome, r.detail) for r in records} == {(Outcome.HTTP_ERROR, "413 Too Large: 'no!'")}
    assert not any(r.reused for r in records)
    assert len(records) > 3

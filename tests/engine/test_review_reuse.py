"""Pooled connections: what may be sent again, and what may be used again."""

import pytest
import trio

from loadgen.model import Outcome
from tests.support.sockets import listening, run_real

LARGE = "x" * 12_000_000  # more than the socket buffers of both sides hold


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

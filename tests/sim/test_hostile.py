"""Requests that were written to break the simulated server: each gets its 400, and the server lives on."""

import pytest
import trio
from trio.testing import memory_stream_pair

from loadgen.sim.server import SimServer
from loadgen.workload.sim_script import SimScript

DEEP = b"[" * 200_000
HOSTILE = {
    "more digits than int() takes": b"GET /sim/streams?last=" + b"0" * 20 + b"9" * 5_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    "zeros before a number out of range": b"GET /sse?n=" + b"0" * 18 + b"19999999 HTTP/1.1\r\nHost: a\r\n\r\n",
    "deep JSON": b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (len(DEEP), DEEP),
}


@pytest.mark.parametrize("request_bytes", HOSTILE.values(), ids=HOSTILE.keys())
async def test_hostile_requests_are_refused(request_bytes: bytes) -> None:
    server = SimServer(SimScript())
    ours, theirs = memory_stream_pair()
    got = b""
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run)
            nursery.start_soon(server.serve_stream, theirs)
            await ours.send_all(request_bytes)
            while b"\r\n" not in got and (data := await ours.receive_some()):
                got += data
            await ours.aclose()
            nursery.cancel_scope.cancel()
    assert got.startswith(b"HTTP/1.1 400 ")

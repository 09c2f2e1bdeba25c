"""A target that says a credential back: what is recorded, written and shown holds it masked."""

import json

import pytest
import trio

from loadgen.workload.loader import loads
from tests.support.sockets import listening, run_real

pytestmark = pytest.mark.net


async def say_key_back(stream: trio.abc.Stream) -> None:
    async with stream:
        got = b""
        while b"\r\n\r\n" not in got:
            got += await stream.receive_some()
        key = got.partition(b"Bearer ")[2].partition(b"\r\n")[0]
        body = b'{"error":"Incorrect API key: %s"}' % key
        await stream.send_all(b"HTTP/1.1 401 No\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


@pytest.mark.parametrize("written", ["Bearer ${API_KEY}", "Bearer sk-very-secret"], ids=["variable", "literal"])
async def test_a_key_in_the_targets_words_is_masked(written: str) -> None:
    async with listening(say_key_back) as port:
        summary, records = await run_real(
            f"""
loadgen: 1
target: {{url: "http://127.0.0.1:{port}/v1/chat/completions", headers: {{Authorization: "{written}"}}}}
load: [{{hold: 200ms, streams: 1}}]
""",
            env={"API_KEY": "sk-very-secret"},
        )
    assert records[0].detail == """401 No: '{"error":"Incorrect API key: ***"}'"""
    assert "very-secret" not in json.dumps(summary)


def test_the_scheme_of_a_credential_is_no_secret() -> None:
    plan = loads(
        'loadgen: 1\ntarget: {url: "http://a/v1", headers: {Authorization: Bearer sk-very-secret, X-Team: research-team}}\n'
        "load: [{hold: 1s, streams: 1}]"
    ).to_plan()
    assert plan.secrets == {"sk-very-secret"}

"""Truth over loopback: what is reported against what the server scripted, and against when it says that it sent."""

import httpx
import pytest
import trio

from loadgen.model import Outcome
from loadgen.sim.process import open_sim_process
from loadgen.workload.sim_script import SimScript
from tests.support.sockets import run_real

pytestmark = [pytest.mark.net, pytest.mark.slow, pytest.mark.serial]


async def test_ttft_and_itl_are_within_2_ms_of_the_script_and_stamps_of_the_sends() -> None:
    script = SimScript.model_validate({"ttft": "250ms", "itl": "20ms"})
    with trio.fail_after(30):
        async with open_sim_process(script) as sim:
            summary, records = await run_real(
                f'loadgen: 1\ntarget: {{url: "{sim.url}/v1/chat/completions"}}\n'
                "requests: [{max_tokens: {uniform: [20, 40]}}]\n"
                "load: [{warmup: 1s, streams: 50}, {hold: 4s, streams: 50}]\ndrain: 5s\n"
            )
            async with httpx.AsyncClient() as client:
                log = (await client.get(f"{sim.url}/sim/streams")).json()
    assert summary["generator"]["valid"], summary["generator"]["reasons"]
    assert {r.outcome for r in records} == {Outcome.COMPLETED}
    assert abs(summary["metrics"]["ttft"]["p50_ms"] - 250) < 2
    assert abs(summary["metrics"]["itl"]["p50_ms"] - 20) < 2
    sent = {(job["sent_ns"][0], job["sent_ns"][-1]) for job in log}
    assert len(sent) == len(records)
    # The server's stamp is read just before its send; the kernel's comes a few microseconds after it. Streams are paired by
    # order of first token: two of them within those microseconds may swap, and differ by as little.
    firsts = zip(sorted(s for s, _ in sent), sorted(r.first_token_ns or 0 for r in records), strict=True)
    errors = sorted(arrived - at for at, arrived in firsts)
    assert 0 <= errors[len(errors) // 2] < 200_000
    assert errors[int(len(errors) * 0.95)] < 2_000_000

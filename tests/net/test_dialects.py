"""Dialects whose framing or paths are special, over loopback against the simulated server that a run starts."""

import pytest
import trio

from loadgen.model import Outcome
from tests.support.sockets import run_real

pytestmark = [pytest.mark.net, pytest.mark.slow]


@pytest.mark.parametrize("dialect", ["anthropic-messages", "azure", "gemini", "ollama"])
async def test_it_completes(dialect: str) -> None:
    with trio.fail_after(20):
        _, records = await run_real(
            f"loadgen: 1\ntarget: {{dialect: {dialect}, sim: {{ttft: 50ms, itl: 5ms, reasoning: 3}}}}\n"
            "requests: [{max_tokens: 10}]\nload: [{hold: 500ms, streams: 3}]\ndrain: 5s\n"
        )
    assert len(records) >= 6
    for record in records:
        assert (record.outcome, record.output_events) == (Outcome.COMPLETED, 10)
        assert record.usage is not None
        assert record.usage.completion_tokens == 10
        assert record.first_answer_ns is not None
        assert record.first_token_ns is not None
        assert record.first_answer_ns > record.first_token_ns

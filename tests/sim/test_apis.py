"""Requests of the simulated APIs: what their prompts count, and what is refused."""

from typing import Any

import msgspec
import pytest
from trio.testing import MockClock

from loadgen.sim.apis import APIS, find_api
from tests.support.sim_client import open_memory_sim

USER = [{"role": "user", "content": "x" * 9}]
REQUESTS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": USER, "max_tokens": 3, "stream": True},
    "/v1/completions": {"prompt": "x" * 9, "max_tokens": 3, "stream": True},
    "/v1/responses": {"input": USER, "max_output_tokens": 3, "stream": True},
    "/v1/messages": {"messages": USER, "max_tokens": 3, "stream": True},
    "/api/chat": {"messages": USER, "options": {"num_predict": 3}},
    "/api/generate": {"prompt": "x" * 9, "options": {"num_predict": 3}},
    "/generate_stream": {"inputs": "x" * 9, "parameters": {"max_new_tokens": 3}},
    "/completion": {"prompt": "x" * 9, "n_predict": 3, "stream": True},
    "/mistral/v1/chat/completions": {"messages": USER, "max_tokens": 3, "stream": True},
    "/openai/deployments/my-gpt/chat/completions": {"messages": USER, "max_completion_tokens": 3, "stream": True},
    "/v1beta/models/any-model:streamGenerateContent": {
        "contents": [{"role": "user", "parts": [{"text": "x" * 9}]}], "generationConfig": {"maxOutputTokens": 3},
    },
    "/v2/models/any-model/generate_stream": {"text_input": "x" * 9, "max_tokens": 3},
}  # fmt: skip


def test_there_is_a_request_for_each_api() -> None:
    assert {id(find_api(path)) for path in REQUESTS} == {id(api) for api in APIS.values()}


@pytest.mark.parametrize("path", REQUESTS)
def test_prompt_and_limit_are_understood(path: str) -> None:
    api = find_api(path)
    assert api is not None
    asked = api.parse(msgspec.json.encode(REQUESTS[path]))
    assert (asked.prompt_tokens, asked.max_tokens, asked.stream) == (3, 3, True)


@pytest.mark.parametrize(
    ("path", "body", "tokens"),
    [
        ("/v1/responses", {"input": "x" * 9, "stream": True}, 3),
        ("/v1/messages", {"system": "x" * 8, "messages": USER, "stream": True}, 5),
        ("/v1beta/models/m:streamGenerateContent", {
            "systemInstruction": {"parts": [{"text": "x" * 8}]}, "contents": [{"parts": [{"text": "x" * 9}]}],
        }, 5),
    ],
)  # fmt: skip
def test_other_forms_of_prompts(path: str, body: dict[str, Any], tokens: int) -> None:
    api = find_api(path)
    assert api is not None
    assert api.parse(msgspec.json.encode(body)).prompt_tokens == tokens


@pytest.mark.parametrize("path", REQUESTS)
@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b"{", b'{"x":' * 5000, b'{"messages":5,"prompt":5,"input":5,"contents":5}']
)
async def test_bad_requests_are_answered_400(path: str, body: bytes, autojump_clock: MockClock) -> None:
    async with open_memory_sim() as sim:
        answer = await sim.connect().ask("POST", path, body)
    assert answer.status == 400
    assert len(answer.json["error"]["message"]) > 10


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/responses", "/v1/messages", "/api/chat", "/completion"])
async def test_only_streams_are_simulated(path: str, autojump_clock: MockClock) -> None:
    async with open_memory_sim() as sim:
        answer = await sim.connect().ask("POST", path, msgspec.json.encode(REQUESTS[path] | {"stream": False}))
    assert (answer.status, answer.json["error"]["message"]) == (
        400, "stream must be true: of this API only streams are simulated",
    )  # fmt: skip


@pytest.mark.parametrize("path", REQUESTS)
async def test_content_type(path: str, autojump_clock: MockClock) -> None:
    async with open_memory_sim() as sim:
        answer = await sim.connect().ask("POST", path, msgspec.json.encode(REQUESTS[path]))
    expected = "application/x-ndjson" if path.startswith("/api/") else "text/event-stream; charset=utf-8"
    assert (answer.status, answer.headers["content-type"], answer.complete) == (200, expected, True)
    assert answer.body.count(b'"mono_ns"') == 3


@pytest.mark.parametrize(
    "path", ["/v1beta/models/a/b:streamGenerateContent/x", "/v2/models/generate_stream", "/openai/deployments/chat", "/v1"]
)
def test_other_paths(path: str) -> None:
    assert find_api(path) is None

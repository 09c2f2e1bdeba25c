# ruff: noqa: E501 - a table row is one line: input and the exact message
"""``target.custom`` in workload files: what it becomes, and every problem with its place."""

import json
import re
from pathlib import Path

import pytest

from loadgen.dialect import DIALECTS
from loadgen.workload.loader import loads
from tests.support.workloads import complaints, workload

LOAD = "load: [{warmup: 1s, streams: 1}, {hold: 1s, streams: 1}]\n"
FULL = """\
loadgen: 1
target:
  url: http://h/x
  dialect: custom
  custom:
    events: ndjson
    request:
      body: {token: hunter2, inputs: [{}]}
      prompt: /inputs/0/text
      max_tokens: /limit
    text: /out
    finish: /done
    end: bye
"""


def test_it_reaches_the_plan() -> None:
    spec = workload(FULL + LOAD).to_plan().custom
    assert spec is not None
    assert (spec.events, str(spec.text), str(spec.finish), str(spec.error), spec.end) == (
        "ndjson",
        "/out",
        "/done",
        "/error",
        "bye",
    )
    assert (spec.reasoning, spec.usage) == (None, None)
    assert spec.request.fill(prompt="p", messages=[], model="m", max_tokens=3) == {
        "token": "hunter2", "inputs": [{"text": "p"}], "limit": 3,
    }  # fmt: skip


def test_masked_is_a_workload_again_without_its_secrets() -> None:
    masked = workload(FULL + LOAD).masked
    assert "hunter2" not in json.dumps(masked)
    again = loads(json.dumps(masked), env={})
    assert again.masked == masked
    assert again.to_plan().custom is not None


@pytest.mark.parametrize(
    ("target", "messages"),
    [
        ("dialect: custom", ["target.custom: is missing: say where an event has its text, such as custom: {text: /output, finish: /done}"]),
        ("custom: {text: /a}", ["target.custom: goes with dialect: custom, and the dialect is openai-chat"]),
        ("dialect: custom, custom: {}", ["target.custom.text: is missing"]),
        ("dialect: custom, custom: {text: 5}", ["target.custom.text: must be a JSON pointer such as /choices/0/text, got 5"]),
        ("dialect: custom, custom: {text: a.b, finish: /a~2}", [
            "target.custom.text: must be a JSON pointer, which begins with a slash, such as /choices/0/text, got 'a.b'; did you mean /a/b?",
            "target.custom.finish: has a ~ at character 3 that is neither ~0 (a tilde) nor ~1 (a slash)",
        ]),
        ("dialect: custom, custom: {text: /a, finsh: /b}", ["target.custom.finsh: unknown key; did you mean finish?"]),
        ("dialect: custom, custom: {text: /a, events: xml}", ["target.custom.events: must be sse or ndjson, got 'xml'"]),
        ("dialect: custom, custom: {text: /a, end: ''}", ["target.custom.end: must not be empty"]),
        ("dialect: custom, custom: {text: /a, request: {body: {a: 1}, prompt: /a/b, model: '', max_tokens: /x}}", [
            "target.custom.request.prompt: /a is no object and no list, nothing can be put into it",
            "target.custom.request.model: must name a place within the body, such as /prompt",
        ]),
        ("dialect: custom, custom: {text: /a, request: {body: {stream: false}}}", [
            "target.custom.request.body: stream must stay true: loadgen measures streams, got false",
        ]),
        ("dialect: custom, custom: {text: /a, request: {promt: /a}}", ["target.custom.request.promt: unknown key; did you mean prompt?"]),
    ],
)  # fmt: skip
def test_problems(target: str, messages: list[str]) -> None:
    assert complaints(f"loadgen: 1\ntarget: {{url: http://h/, {target}}}\n{LOAD}") == [f"w.yaml:2: {m}" for m in messages]


def test_it_does_not_go_with_the_simulated_server() -> None:
    assert complaints(f"loadgen: 1\ntarget: {{sim: {{}}, dialect: custom, custom: {{text: /a}}}}\n{LOAD}") == [
        "w.yaml:2: target.custom: goes with target.url: the simulated server speaks the dialects that have a name"
    ]


DOCS = (Path(__file__).parents[2] / "docs" / "workload.md").read_text(encoding="utf-8")


def test_the_example_of_the_documentation_is_right() -> None:
    (example,) = (block for block in re.findall(r"```yaml\n(.*?)```", DOCS, re.DOTALL) if "dialect: custom" in block)
    spec = workload(f"loadgen: 1\n{example}{LOAD}").to_plan().custom
    assert spec is not None
    assert spec.request.fill(prompt="p", messages=[], model="m", max_tokens=3) == {
        "stream": True, "inputs": [{"text": "p"}], "limits": {"tokens": 3}, "model": "m",
    }  # fmt: skip


def test_the_documentation_names_every_dialect() -> None:
    assert all(f"`{name}`" in DOCS for name in [*DIALECTS, "custom"])

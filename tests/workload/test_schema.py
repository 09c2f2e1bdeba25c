import json
from random import Random

import pytest
from pydantic import ValidationError
from ruamel.yaml import YAML

from loadgen.dialect import DIALECTS
from loadgen.errors import Problem
from loadgen.workload.lengths import Fixed, Uniform
from loadgen.workload.loader import loads
from loadgen.workload.plan import Limit, Phase, PhaseKind, Plan, Target, Timeouts, Tls, Transport, WhenFull
from loadgen.workload.schema import Workload
from loadgen.workload.sections import TargetSpec
from loadgen.workload.slo import parse_slo
from tests.support.workloads import VALID, workload

FULL = """\
loadgen: 1
name: release-gate
seed: 7
target:
  url: https://gw.example/v1/chat/completions?api-version=2&api-key=${API_KEY}
  dialect: openai-chat
  headers: {Authorization: "Bearer ${API_KEY}", X-Team: "load of ${API_KEY}", Cookie: plain}
  model: auto
transport:
  http: "1.1"
  connections: 32
  tls: {verify: false, server_name: other.example}
requests:
  - {weight: 3, prompt: {text: "Say hello."}, max_tokens: 64}
  - {weight: 0.5, prompt: "Hi", max_tokens: {uniform: [16, 512]}, body: {temperature: 0, user_token: abc}}
  - {prompt: {characters: {uniform: [10, 20]}}, max_tokens: null}
load:
  - {warmup: 5s, streams: 50}
  - {hold: 60s, streams: 200}
  - {ramp: 1500ms, streams: [0, 400]}
limit: {streams: 200, when_full: drop}
drain: 10s
timeouts: {connect: 1s, first_token: 10s, idle: null, total: 10m}
failure_pause: 0s
slo: ["ttft p99 < 2s", "goodput > 95%"]
"""
SECRET = "sk-0123456789"


def full(text: str = FULL) -> Workload:
    return workload(text, env={"API_KEY": SECRET})


def test_defaults() -> None:
    plan = workload().to_plan()
    assert plan == Plan(
        name="workload", seed=0, sim=None, dialect="openai-chat", transport=Transport(), requests=plan.requests,
        target=Target(
            url="http://127.0.0.1:8000/v1/chat/completions", scheme="http", host="127.0.0.1", port=8000,
            path="/v1/chat/completions", dialect="openai-chat",
        ),
        phases=(
            Phase(index=0, kind=PhaseKind.WARMUP, duration_ns=1_000_000_000, streams_from=2, streams_to=2),
            Phase(index=1, kind=PhaseKind.HOLD, duration_ns=5_000_000_000, streams_from=3, streams_to=3),
        ),
        limit=None, drain_ns=30_000_000_000, failure_pause_ns=250_000_000, slo=(),
        timeouts=Timeouts(
            connect_ns=5_000_000_000, first_token_ns=120_000_000_000, idle_ns=120_000_000_000, total_ns=None
        ),
    )  # fmt: skip
    (request,) = plan.requests
    assert (request.weight, request.max_tokens, request.body) == (1.0, Fixed(128), {})
    assert request.prompt.pick(Random(1)) == [{"role": "user", "content": "Say hello."}]


def test_everything_reaches_the_plan() -> None:
    plan = full().to_plan()
    assert plan == Plan(
        name="release-gate", seed=7, sim=None, dialect="openai-chat", requests=plan.requests,
        target=Target(
            url="https://gw.example/v1/chat/completions?api-version=2&api-key=***", scheme="https", host="gw.example",
            port=443, path=f"/v1/chat/completions?api-version=2&api-key={SECRET}", dialect="openai-chat", model="auto",
            headers=(("Authorization", f"Bearer {SECRET}"), ("X-Team", f"load of {SECRET}"), ("Cookie", "plain")),
        ),
        transport=Transport(connections=32, tls=Tls(verify=False, server_name="other.example")),
        phases=(
            Phase(index=0, kind=PhaseKind.WARMUP, duration_ns=5_000_000_000, streams_from=50, streams_to=50),
            Phase(index=1, kind=PhaseKind.HOLD, duration_ns=60_000_000_000, streams_from=200, streams_to=200),
            Phase(index=2, kind=PhaseKind.RAMP, duration_ns=1_500_000_000, streams_from=0, streams_to=400),
        ),
        limit=Limit(streams=200, when_full=WhenFull.DROP), drain_ns=10_000_000_000, failure_pause_ns=0,
        timeouts=Timeouts(
            connect_ns=1_000_000_000, first_token_ns=10_000_000_000, idle_ns=None, total_ns=600_000_000_000
        ),
        secrets=frozenset({SECRET, "plain"}), slo=(parse_slo("ttft p99 < 2s"), parse_slo("goodput > 95%")),
    )  # fmt: skip
    assert [request.weight for request in plan.requests] == [3, 0.5, 1]
    assert [request.max_tokens for request in plan.requests] == [Fixed(64), Uniform(16, 512), None]
    assert plan.requests[1].body == {"temperature": 0, "user_token": "abc"}


def test_masked_shows_no_secret() -> None:
    masked = full().masked
    shown = json.dumps(masked)
    assert SECRET not in shown
    assert "plain" not in shown
    assert "abc" not in shown
    assert masked["target"]["url"] == "https://gw.example/v1/chat/completions?api-version=2&api-key=***"
    assert masked["target"]["headers"] == {"Authorization": "***", "X-Team": "load of ***", "Cookie": "***"}
    assert masked["requests"][1]["body"] == {"temperature": 0, "user_token": "***"}


def test_a_repr_shows_no_header_and_no_url() -> None:
    assert SECRET not in repr(full())


def test_masked_is_a_workload_again() -> None:
    """Resolved, with all defaults, in the form of a file: it says what ran."""
    text = FULL.replace("${API_KEY}", "x").replace("api-key=", "api-version=").replace("Authorization", "X-A")
    text = text.replace("Cookie", "X-B").replace("user_token", "user")
    first = full(text)
    again = loads(json.dumps(first.masked), env={})
    assert again.masked == first.masked
    assert again.to_plan() == first.to_plan()


def test_masked_of_a_simulated_target_is_a_workload_again() -> None:
    sim = "{ttft: 50ms, itl: 5ms, faults: [{share: 10%, kind: stall, after: 3}]}"
    first = workload(f"loadgen: 1\ntarget: {{sim: {sim}}}\nload: [{{hold: 1s, streams: 1}}]\n")
    again = loads(json.dumps(first.masked), env={})
    assert first.masked["target"]["sim"]["prefill"] == {"base": "50ms", "per_token": "0s"}
    plan, planned_again = first.to_plan(), again.to_plan()
    assert plan.target is None
    assert planned_again.sim == plan.sim


@pytest.mark.parametrize(("script", "seed"), [("{}", 7), ("{seed: 3}", 3), ("{seed: 0}", 0)])
def test_the_simulated_server_takes_the_seed_of_the_run(script: str, seed: int) -> None:
    loaded = workload(f"loadgen: 1\nseed: 7\ntarget: {{sim: {script}}}\nload: [{{hold: 1s, streams: 1}}]\n")
    sim = loaded.to_plan().sim
    assert sim is not None
    assert sim.seed == seed


@pytest.mark.parametrize(
    ("request_", "dialect", "length"),
    [
        ("{}", "openai-chat", Fixed(128)),
        ("{}", "plain-sse", None),
        ("{max_tokens: null}", "openai-chat", None),
        ("{max_tokens: 5}", "openai-chat", Fixed(5)),
        ("{max_tokens: 5}", "plain-sse", Fixed(5)),
    ],
)
def test_max_tokens(request_: str, dialect: str, length: object) -> None:
    loaded = workload(f"{VALID.replace('target: {', f'target: {{dialect: {dialect}, ')}requests: [{request_}]\n")
    assert loaded.to_plan().requests[0].max_tokens == length
    assert loaded.masked["requests"][0]["max_tokens"] == (None if length is None else length.written())  # type: ignore[attr-defined]


def test_the_dialects_are_those_that_there_are() -> None:
    (literal,) = {field for name, field in TargetSpec.model_fields.items() if name == "dialect"}
    assert set(literal.annotation.__args__) == {*DIALECTS, "custom"}  # type: ignore[union-attr]


def test_a_workload_is_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        workload().seed = 5  # type: ignore[misc]


def test_it_can_be_built_without_a_file() -> None:
    data = YAML(typ="safe", pure=True).load(VALID)
    built = Workload.model_validate(data)
    assert built.source == "<python>"
    assert built.to_plan() == workload().to_plan()
    assert built.warnings == ()


def test_source_and_warnings_have_their_places() -> None:
    loaded = workload(f"{VALID}limit: {{streams: 2}}\n")
    assert loaded.source == "w.yaml"
    assert loaded.warnings == (
        Problem(path="load.1.streams", line=3, message="asks for 3 streams, limit.streams lets 2 be open: the others wait"),
    )

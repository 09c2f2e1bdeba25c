"""Variants: what of the workload they share, and what they change."""

from random import Random

from loadgen.workload.plan import Plan
from tests.support.workloads import workload

TEXT = """\
loadgen: 1
name: both
target: {sim: {ttft: 50ms, itl: 10ms}, headers: {Authorization: "Bearer ${KEY}"}}
load: [{warmup: 1s, streams: 2}, {hold: 5s, streams: 3}]
timeouts: {first_token: 3s}
rounds: 3
variants:
  direct: {}
  slow: {target: {sim: {ttft: 90ms}}}
  proxy: {target: {url: "https://edge.example/v1", headers: {X-Key: "sk-${KEY}"}}, transport: {http: "2"}}
"""


def plans(text: str = TEXT) -> dict[str, Plan]:
    return workload(text, env={"KEY": "0123456789abc"}).plans()


def test_each_changes_what_it_says_and_nothing_else() -> None:
    made = plans()
    assert list(made) == ["direct", "slow", "proxy"] == [plan.variant for plan in made.values()]
    direct, slow, proxy = made.values()
    assert direct.sim is not None
    assert slow.sim is not None
    assert (direct.sim.prefill.base, slow.sim.prefill.base) == (50_000_000, 90_000_000)
    assert slow.sim.decode == direct.sim.decode
    assert proxy.sim is None
    assert proxy.target is not None
    assert dict(proxy.target.headers) == {"Authorization": "Bearer 0123456789abc", "X-Key": "sk-0123456789abc"}
    assert (direct.transport.http, proxy.transport.http) == ("1.1", "2")
    assert direct.phases == slow.phases == proxy.phases
    assert direct.timeouts == proxy.timeouts


def test_without_variants_there_is_one_plan() -> None:
    assert list(workload().plans()) == [""]


def test_what_is_written_is_masked_and_says_what_differs() -> None:
    told = workload(TEXT, env={"KEY": "0123456789abc"}).masked
    assert "0123456789abc" not in str(told)
    assert told["variants"]["direct"] == {}
    assert told["variants"]["slow"]["target"]["sim"]["prefill"]["base"] == "90ms"
    assert told["variants"]["proxy"].keys() == {"target", "transport"}


def test_in_turn_each_kind_comes_as_often_as_its_weight() -> None:
    text = (
        "loadgen: 1\ntarget: {url: http://h/v1}\nload: [{hold: 1s, streams: 3}]\nmix: in-turn\n"
        "requests: [{weight: 1, prompt: long}, {weight: 0}, {weight: 2, prompt: short}]\n"
    )
    plan = workload(text).to_plan()
    assert [plan.request_of(stream, Random(0)).index for stream in range(7)] == [0, 2, 2, 0, 2, 2, 0]

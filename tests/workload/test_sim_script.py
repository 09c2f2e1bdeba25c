"""The script of the simulated server: defaults, shorthand, what is refused, and the way to the child process."""

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from loadgen.workload.sim_script import FaultKind, Pace, SimScript

MS = 1_000_000


def load(**keys: Any) -> SimScript:
    return SimScript.model_validate(keys)


def problems(**keys: Any) -> list[tuple[str, str]]:
    with pytest.raises(ValidationError) as caught:
        load(**keys)
    return [(".".join(map(str, e["loc"])), e["msg"].removeprefix("Value error, ")) for e in caught.value.errors()]


def test_shorthand_is_a_constant_schedule_of_each_stream() -> None:
    script = load(ttft="250ms", itl="20ms")
    assert (script.prefill.base, script.decode.step, script.pace) == (250 * MS, 20 * MS, Pace.OWN)
    assert (script.ttft, script.itl) == (None, None)


def test_shorthand_equals_the_long_form() -> None:
    assert load(ttft="1s") == load(prefill={"base": "1s"}, pace="own")
    assert load(itl="5ms", pace="batched") == load(decode={"step": "5ms"})


@pytest.mark.parametrize(
    ("keys", "place", "message"),
    [
        ({"ttft": "1s", "prefill": {"base": "2s"}}, "", "give ttft or prefill, not both"),
        ({"itl": "1s", "decode": {}}, "", "give itl or decode, not both"),
        ({"ttft": 250}, "ttft", "add a unit"),
        ({"itl": 0}, "itl", "greater than 0"),
        ({"decode": {"step": 0}}, "decode.step", "greater than 0"),
        ({"max_batch": 0}, "max_batch", "greater than or equal to 1"),
        ({"queue": -1}, "queue", "greater than or equal to 0"),
        ({"jitter": "110%"}, "jitter", "from 0 to 1"),
        ({"usage": "sometimes"}, "usage", "'asked', True or False"),
        ({"kv": {"block": 1}}, "kv.block", "Extra inputs"),
        ({"faults": [{"share": "60%", "kind": "reset"}] * 2}, "", "must not exceed 100%"),
        ({"faults": [{"share": 1, "kind": "html", "after": 2}]}, "faults.0", "after does not go with kind html"),
        ({"faults": [{"share": 1, "kind": "stall", "status": 500}]}, "faults.0", "status goes with kind status only"),
        ({"faults": [{"share": 1, "kind": "status", "status": 200}]}, "faults.0.status", "greater than or equal to 400"),
    ],
)
def test_refused(keys: dict[str, Any], place: str, message: str) -> None:
    ((where, what),) = problems(**keys)
    assert where == place
    assert message in what


def test_three_shares_of_a_third_fit() -> None:
    assert len(load(faults=[{"share": 1 / 3, "kind": kind} for kind in list(FaultKind)[:3]]).faults) == 3


def test_child_gets_an_equal_script() -> None:
    script = load(
        ttft="250ms", itl="3us", jitter="10%", role_first=0, heartbeat="15s", reject_above=7, usage=True, seed=4,
        faults=[{"share": "5%", "kind": "status", "status": 429}, {"share": "5%", "kind": "cut_in_chunk", "after": 3}],
    )  # fmt: skip
    assert SimScript.from_json(script.to_json()) == script
    assert SimScript.from_json(SimScript().to_json()) == SimScript()


def test_script_is_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        load(ttft="1s").seed = 3  # type: ignore[misc]


def test_dump_with_units_can_be_loaded_again() -> None:
    script = load(ttft="250ms", itl="20ms", heartbeat="15s", faults=[{"share": "10%", "kind": "no_done"}])
    dumped = script.model_dump(mode="json", context={"units": True})
    assert (dumped["prefill"]["base"], dumped["heartbeat"]) == ("250ms", "15s")
    assert load(**dumped) == script


def test_every_key_says_what_it_is() -> None:
    models: list[type[BaseModel]] = [SimScript]
    for model in models:
        for name, field in model.model_fields.items():
            assert field.description, f"{model.__name__}.{name}"
            inner = field.annotation
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                models.append(inner)
    assert len(models) == 4

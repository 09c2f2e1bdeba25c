"""Every file in workloads/ loads as it is, with nothing set and nothing to complain about."""

from pathlib import Path

import pytest

from loadgen.workload.loader import load

FOLDER = Path(__file__).parents[2] / "workloads"
FILES = sorted(FOLDER.glob("*.yaml"))


def test_there_are_some() -> None:
    assert {path.stem for path in FILES} >= {"quickstart", "openai-endpoint"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_it_loads(path: Path) -> None:
    loaded = load(path, env={})
    assert loaded.name == path.stem
    assert loaded.warnings == ()
    plan = loaded.to_plan()
    assert any(phase.measured for phase in plan.phases)
    assert plan.slo


def test_the_quickstart_needs_no_server_and_is_quick() -> None:
    plan = load(FOLDER / "quickstart.yaml", env={}).to_plan()
    assert plan.target is None
    assert plan.load_ns <= 10_000_000_000


def test_the_quickstart_s_own_advice_works() -> None:
    """The --set that its comment shows."""
    text = (FOLDER / "quickstart.yaml").read_text()
    (override,) = [line.split("--set '")[1].rstrip("'") for line in text.splitlines() if "--set '" in line]
    target = load(FOLDER / "quickstart.yaml", [override], env={}).to_plan().target
    assert target is not None
    assert target.url == "http://127.0.0.1:8000/v1/chat/completions"


def test_the_endpoint_and_its_key_come_from_the_environment() -> None:
    env = {"LOADGEN_URL": "https://gw.example/v1/chat/completions", "API_KEY": "sk-0123456789", "LOADGEN_MODEL": "m"}
    loaded = load(FOLDER / "openai-endpoint.yaml", env=env)
    target = loaded.to_plan().target
    assert target is not None
    assert (target.host, target.model) == ("gw.example", "m")
    assert ("Authorization", "Bearer sk-0123456789") in target.headers
    assert "sk-0123456789" not in str(loaded.masked)

"""loadgen compare as a person or a CI job runs it."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from loadgen.cli.app import app
from loadgen.errors import RunFolderError
from tests.cli.test_run import write
from tests.support.folders import write_run


def ttfts(seed: int, mean: float = 200) -> list[float]:
    found: list[float] = np.random.default_rng(seed).normal(mean, 5, 120).tolist()
    return found


@pytest.fixture
def base(tmp_path: Path) -> str:
    return str(write_run(tmp_path / "base", ttfts_ms=ttfts(1), seed=1))


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["compare", *arguments], env={"COLUMNS": "110"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


@pytest.mark.slow
def test_a_regression_is_exit_1_only_when_asked_for(base: str, tmp_path: Path) -> None:
    slow = str(write_run(tmp_path / "slow", ttfts_ms=ttfts(2, 230), seed=2))
    code, out = invoke(base, slow)
    assert code == 0
    words = " ".join(out.split())
    assert words.startswith("REGRESSION ")
    assert " (the base): ttft p50, ttft p90" in words
    assert "ttft p50 is 3" in out
    assert "no difference seen in itl p50; could have seen 0." in out
    assert invoke(base, slow, "--fail-on", "regression")[0] == 1
    assert invoke(base, slow, "--fail-on", "regression", "--threshold", "25%")[0] == 0
    assert invoke(slow, base, "--fail-on", "regression")[0] == 0  # faster


@pytest.mark.slow
def test_several_runs_beside_one_base(base: str, tmp_path: Path) -> None:
    same = str(write_run(tmp_path / "same", ttfts_ms=ttfts(3), seed=3))
    slow = str(write_run(tmp_path / "slow", ttfts_ms=ttfts(4, 260), seed=4))
    code, out = invoke(base, same, slow, "--fail-on", "regression", "--json")
    found = json.loads(out)
    assert code == found["exit_code"] == 1
    assert [bool(run["regressions"]) for run in found["runs"]] == [False, True]
    assert found["threshold"] == 0.05


def test_different_workloads_are_refused_with_their_keys(base: str, tmp_path: Path) -> None:
    other = str(write_run(tmp_path / "other", "load.0.streams=8", "target.url=http://127.0.0.1:9/", ttfts_ms=ttfts(2)))
    with pytest.raises(RunFolderError) as refused:
        invoke(base, other)
    assert str(refused.value).splitlines() == [
        "these runs should not be compared (--anyway does it all the same):",
        f"  {other} is another load: load.0.streams: 4 in the base, 8 here",
    ]
    code, out = invoke(base, other, "--anyway")
    assert code == 0
    words = " ".join(out.split())
    assert "compared all the same: " in words
    assert "load.0.streams: 4 in the base, 8 here" in words
    assert "aimed elsewhere: target.url: 'http://127.0.0.1:8000/v1/chat/completions' in the base" in words


def test_another_target_of_the_same_load_is_what_a_comparison_is_for(base: str, tmp_path: Path) -> None:
    other = str(write_run(tmp_path / "other", "target.url=http://127.0.0.1:9/v1/chat/completions", ttfts_ms=ttfts(2)))
    assert invoke(base, other)[0] == 0


@pytest.mark.parametrize("verdict", ["invalid", "unreachable"])
def test_runs_that_measured_nothing_sound_are_refused(base: str, tmp_path: Path, verdict: str) -> None:
    words = {"verdict": verdict, "verdict_reason": "the generator was the bottleneck"}
    other = str(write_run(tmp_path / "other", ttfts_ms=ttfts(2), verdict=words))
    with pytest.raises(RunFolderError, match=f"other is {verdict}: the generator was the bottleneck"):
        invoke(base, other)
    with pytest.raises(RunFolderError, match=f"other is {verdict}"):
        invoke(other, base)
    assert invoke(base, other, "--anyway")[0] == 0


@pytest.mark.parametrize(
    "arguments", [["x", "y", "--threshold", "-1%"], ["x", "y", "--threshold", "5"], ["x", "y", "--fail-on", "anything"]]
)
def test_a_bad_command_line_is_exit_2(arguments: list[str]) -> None:
    assert invoke(*arguments)[0] == 2


def test_one_run_without_variants_is_nothing_to_compare(base: str) -> None:
    assert invoke(base)[0] == 2


@pytest.mark.net
@pytest.mark.slow
def test_the_variants_of_a_run_are_compared_with_the_first(base: str, tmp_path: Path) -> None:
    workload = write(
        tmp_path,
        "loadgen: 1\nname: two\ntarget: {sim: {ttft: 60ms, itl: 5ms}}\nrequests: [{max_tokens: 10}]\ndrain: 3s\nrounds: 2\n"
        "load: [{hold: 1s, streams: 8}]\nvariants: {fast: {}, slow: {target: {sim: {ttft: 90ms, itl: 5ms}}}}\n",
    )
    folder = str(tmp_path / "two")
    run = CliRunner().invoke(app, ["run", workload, "--out", folder, "--quiet"])
    assert run.exit_code in {0, 4}, run.output
    code, out = invoke(folder, "--anyway", "--fail-on", "regression", "--json")  # busy machines make runs invalid
    found = json.loads(out)
    assert code == 1
    assert found["base"]["run"] == f"{folder}@fast"
    (slow,) = found["runs"]
    assert slow["run"] == f"{folder}@slow"
    assert {"key": "target.sim.prefill.base", "base": "'60ms'", "other": "'90ms'"} in slow["aim"]
    figures = {figure["name"]: figure for figure in slow["figures"]}
    assert 20 < figures["ttft p50"]["difference"] < 45
    assert not figures["itl p50"]["regression"]
    assert invoke(f"{folder}@slow", f"{folder}@slow", "--anyway")[0] == 0
    with pytest.raises(RunFolderError, match="two has variants: name one of "):
        invoke(folder, base)
    with pytest.raises(RunFolderError, match="has no variant medium; it has fast, slow"):
        invoke(f"{folder}@medium", base)

"""Calibration: which levels are tried, what is kept, what `check` makes of it, and a small one for real."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from loadgen.cli.app import app
from loadgen.cli.check import describe_ceiling
from loadgen.engine.calibrate import Calibration, Level, _plan_levels, load_calibration
from tests.support.workloads import workload

LEVEL = Level(
    streams=1000, rate=20, events_per_s=20_000, cpu_share=0.2, read_lag_p99_ms=0.3, exact=1.0, stamp_error_p50_us=2,
    stamp_error_p99_us=6, stamp_error_max_us=90, valid=True, reason="", sender_limited=False,
)  # fmt: skip
FOUND = Calibration(at="2026-12-01T10:00:00+00:00", loadgen="0.1.0", python="3.11.7", machine="here", levels=[LEVEL])


def levels_tried(good_up_to: int, *, most: int = 16_000, sender_up_to: int = 10**9) -> list[int]:
    done: list[Level] = []
    for streams in _plan_levels(most, done):
        done.append(  # noqa: PERF401 - the generator looks at it meanwhile
            replace(LEVEL, streams=streams, valid=streams <= good_up_to, sender_limited=streams > sender_up_to)
        )
    return [level.streams for level in done]


def test_levels_double_and_then_the_middle_is_tried() -> None:
    assert levels_tried(3000) == [250, 500, 1000, 2000, 4000, 3000]
    assert levels_tried(100) == [250]
    assert levels_tried(10**9, most=600) == [250, 500, 600]
    assert levels_tried(10**9, sender_up_to=800) == [250, 500, 1000]


def test_what_is_kept_is_read_again_and_anything_else_is_none(tmp_path: Path) -> None:
    path = FOUND.save(tmp_path / "deep" / "calibration.json")
    assert load_calibration(path) == FOUND
    for text in ("", "{}", '{"levels": [{"streams": 1}]}', "[]"):
        path.write_text(text)
        assert load_calibration(path) is None
    assert load_calibration(tmp_path / "none.json") is None


def test_the_best_level_is_the_most_that_was_valid() -> None:
    better = replace(LEVEL, streams=2000, events_per_s=40_000)
    worse = replace(LEVEL, streams=4000, events_per_s=60_000, valid=False)
    assert replace(FOUND, levels=[LEVEL, better, worse]).best == better
    assert replace(FOUND, levels=[worse]).best is None


@pytest.mark.parametrize(
    ("streams", "processes", "notes"), [(400, 1, 0), (401, 1, 1), (800, 2, 0)]
)  # at 50 events/s each where nobody knows better
def test_check_compares_the_plan_with_the_calibration(streams: int, processes: int, notes: int) -> None:
    plan = workload(f"loadgen: 1\ntarget: {{url: http://h/v1}}\nload: [{{hold: 5s, streams: {streams}}}]").to_plan()
    first, *rest = describe_ceiling(plan, processes, FOUND)
    assert f"about {streams * 50:,} events/s" in first
    assert "calibrated on 2026-12-01" in first
    assert len(rest) == notes
    assert "`loadgen calibrate`" in describe_ceiling(plan, processes, None)[0]


@pytest.mark.net
@pytest.mark.slow
@pytest.mark.serial
def test_a_small_calibration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    result = CliRunner().invoke(app, ["calibrate", "--streams", "32", "--rate", "50", "--json"])
    told = json.loads(result.stdout)
    assert told == json.loads((tmp_path / "loadgen" / "calibration.json").read_text())
    (level,) = told["levels"]
    assert level["streams"] == 32
    assert level["events_per_s"] == pytest.approx(1600, rel=0.1)
    assert 0 < level["stamp_error_p50_us"] < 1_000
    assert level["exact"] > 0.5

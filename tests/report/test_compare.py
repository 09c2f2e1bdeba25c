"""The comparison as it is read: sentences, folders, JSON, and how long it takes."""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadgen.errors import RunFolderError
from loadgen.model import Metric
from loadgen.record.compare import Figure
from loadgen.report.compare import as_json, compare_runs, sentence_of
from loadgen.report.folder import StoredRun, read_run
from tests.support.folders import write_run


def figure(**fields: Any) -> Figure:
    values: dict[str, Any] = {
        "name": "ttft p50", "metric": Metric.TTFT, "unit": "ms", "by": "streams", "counts": (500, 500), "gated": True,
        "base": 200.0, "other": 200.42, "difference": 0.42, "low": 0.31, "high": 0.55, "could_have_seen": 0.17,
    }  # fmt: skip
    return Figure(**(values | fields))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "ttft p50 is 0.42 ms higher (0.31 to 0.55)"),
        ({"difference": -12.3, "low": -25.2, "high": -3.1}, "ttft p50 is 12 ms lower (3 to 25)"),
        ({"difference": 1250.4, "low": 900.0, "high": 1600.0}, "ttft p50 is 1,250 ms higher (900 to 1,600)"),
        ({"difference": 0.5, "low": 0.5, "high": 0.5}, "ttft p50 is 0.500 ms higher (0.500 to 0.500)"),
        ({"low": -0.1}, "no difference seen in ttft p50; could have seen 0.17 ms"),
        ({"low": -0.1, "could_have_seen": 2.04}, "no difference seen in ttft p50; could have seen 2 ms"),
        ({"low": -0.1, "could_have_seen": 1234.0}, "no difference seen in ttft p50; could have seen 1,200 ms"),
        ({"low": -0.1, "could_have_seen": 99.96}, "no difference seen in ttft p50; could have seen 100 ms"),
        (
            {"low": 0, "high": 0, "difference": 0, "could_have_seen": 0},
            "no difference seen in ttft p50; could have seen 0.001 ms",
        ),
        (
            {"name": "error_rate", "unit": "share", "difference": 0.012, "low": 0.004, "high": 0.021},
            "error_rate is 1.20 points higher (0.40 to 2.10)",
        ),
        (
            {"name": "tokens_per_s", "unit": "per_s", "difference": -61.2, "low": -77.0, "high": -47.0},
            "tokens/s is 61 lower (47 to 77)",
        ),
        (
            {"difference": None, "missing": "too few streams (10; it takes 20)"},
            "ttft p50 cannot be compared: too few streams (10; it takes 20)",
        ),
    ],
)  # fmt: skip
def test_sentences(fields: dict[str, Any], sentence: str) -> None:
    assert sentence_of(figure(**fields)) == sentence


def read_one(folder: Path) -> StoredRun:
    (run,) = read_run(str(folder))
    return run


def ttfts(seed: int, count: int = 600, shift: float = 0) -> list[float]:
    found: list[float] = (np.random.default_rng(seed).normal(200, 10, count) + shift).tolist()
    return found


@pytest.mark.slow
def test_runs_read_from_their_folders_tell_what_was_put_into_them(tmp_path: Path) -> None:
    runs = [
        read_one(write_run(tmp_path / "a", ttfts_ms=ttfts(1), seed=1)),
        read_one(write_run(tmp_path / "b", ttfts_ms=ttfts(2, shift=30), gap_ms=23, failures=30, seed=2)),
        read_one(write_run(tmp_path / "c", ttfts_ms=ttfts(3), seed=3)),
    ]
    slower, same = compare_runs(runs, threshold=0.05)
    figures = {each.name: each for each in slower.figures}
    for name, truth in (("ttft p50", 30), ("ttft p90", 30), ("itl p50", 3), ("itl p90", 3 * 1.064), ("tpot p50", 3)):
        found = figures[name]
        assert found.low is not None
        assert found.high is not None
        assert found.low - 0.05 <= truth <= found.high + 0.05, name
        assert found.regression, name
    assert figures["itl p50"].by == "seconds"
    assert figures["itl p50"].base == pytest.approx(20, rel=2e-3)
    assert figures["error_rate"].regression
    assert figures["tokens_per_s"].base == pytest.approx(600 * 21 / 20, rel=1e-3)
    assert (slower.run.name[-1], same.run.name[-1]) == ("b", "c")
    assert same.regressions == []
    found_json = json.loads(json.dumps(as_json(runs, [slower, same], threshold=0.05, exit_code=1), allow_nan=False))
    assert (found_json["schema"], found_json["base"]["run"]) == ("loadgen.compare/1", str(tmp_path / "a"))
    first = {each["name"]: each for each in found_json["runs"][0]["figures"]}
    assert first["ttft p50"]["regression"] is True
    assert first["ttft p50"]["sentence"].startswith("ttft p50 is ")
    assert first["ttft p50"]["relative"] == pytest.approx(0.15, abs=0.02)
    assert found_json["runs"][0]["regressions"] == slower.regressions


def test_a_killed_run_is_read_as_far_as_it_came(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", ttfts_ms=ttfts(1))
    for name in ("manifest.json", "summary.json", "intervals.csv"):
        (folder / name).unlink()
    (comparison,) = compare_runs([read_one(folder), read_one(folder)], threshold=0.05)
    assert len(comparison.despite) == 4
    figures = {each.name: each for each in comparison.figures}
    assert figures["ttft p50"].difference == figures["itl p99"].difference == 0
    assert "too few seconds" in figures["events_per_s"].missing


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("journal.jsonl", "nothing"),
        ("journal.jsonl", '{"journal": 1}\n{"stream": "x"}\n{}\n'),
        ("summary.json", "{"),
        ("manifest.json", "[]"),
        ("intervals.csv", "a,b\n1,2\n"),
        ("histograms.hlog", "Tag=itl,what\n"),
    ],
)
def test_a_damaged_folder_is_told_as_one(tmp_path: Path, file: str, content: str) -> None:
    folder = write_run(tmp_path / "a", ttfts_ms=ttfts(1, 20))
    (folder / file).write_text(content)
    with pytest.raises(RunFolderError, match=r"a cannot be read: "):
        read_one(folder)


def test_another_folder_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="no run folder"):
        read_one(tmp_path)


@pytest.mark.slow
def test_two_runs_of_10_000_streams_take_less_than_5_s(tmp_path: Path) -> None:
    folders = [
        write_run(tmp_path / name, ttfts_ms=ttfts(seed, 10_000), seconds=300, tokens=8) for seed, name in enumerate("ab")
    ]
    began = time.process_time()
    (comparison,) = compare_runs([read_one(folder) for folder in folders], threshold=0.05)
    assert time.process_time() - began < 5
    assert not any(each.missing for each in comparison.figures)

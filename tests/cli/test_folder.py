"""A run folder that is used again holds one run, not two."""

from pathlib import Path

from loadgen.report.files import make_folder


def test_the_results_of_an_earlier_run_are_not_left_beside_those_of_this_one(tmp_path: Path) -> None:
    """A run that is killed writes a journal and no summary: the summary beside it would be another run's."""
    ours = ["summary.json", "manifest.json", "intervals.csv", "journal.jsonl", "histograms.hlog", "tls.hgrm"]
    others = ["workload.yaml", "notes.hgrm", "summary.json.bak"]
    for name in (*ours, *others):
        (tmp_path / name).write_text("old")
    assert make_folder(tmp_path, "x", 0) == tmp_path
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(others)

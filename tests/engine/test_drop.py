"""A full limit that drops: the gauge still says how many streams were asked for."""

from tests.support.virtual import run_virtual


def test_dropped_streams_do_not_lower_what_was_asked_for() -> None:
    run = run_virtual(
        "load: [{hold: 5s, streams: 10}]\nlimit: {streams: 5, when_full: drop}\n", sim={"ttft": "100ms", "itl": "10ms"}
    )
    concurrency = run.summary["concurrency"]
    assert concurrency["asked"] == 5
    assert 4.9 < concurrency["mean_asked"] <= 5  # else the run could not miss its concurrency, however few were open
    assert sum(run.summary["streams"]["outcomes"].values()) == run.summary["streams"]["started"]

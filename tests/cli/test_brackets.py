"""Brackets in what people write are text, not rich's markup: an IPv6 address, a query."""

from pathlib import Path

import pytest
from rich.console import Console

from loadgen.report.progress import Lines, Screen
from loadgen.workload.plan import Target
from tests.cli.test_run import invoke, write

URL = "http://[fd00::1]:8000/v1?filter=[/x]"
LOAD = f"loadgen: 1\ntarget: {{url: '{URL}'}}\nload: [{{hold: 1s, streams: 1}}]"


def test_check_shows_the_url_as_it_is(tmp_path: Path) -> None:
    code, out, _ = invoke("check", write(tmp_path, LOAD))
    assert code == 0
    assert URL in out


@pytest.mark.parametrize("kind", [Lines, Screen])
def test_progress_shows_the_url_as_it_is(kind: type[Lines | Screen]) -> None:
    console = Console(record=True, width=200, quiet=False)
    with console.capture() as shown:
        kind(console).on_target(Target(url=URL, scheme="http", host="fd00::1", port=8000, path="/v1", dialect="openai-chat"))
    assert shown.get() == f"target {URL}\n"

"""What CI reads: junit.xml in the run folder, and the Markdown report on the job's page."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.cli.test_output import SHORT
from tests.cli.test_run import invoke, write

pytestmark = pytest.mark.net


@pytest.mark.slow
def test_a_run_with_slos_leaves_both(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Earlier step\n")
    workload = write(tmp_path, SHORT + 'slo: ["ttft p99 < 1ms", "itl p50 < 1s"]')
    code, out, _ = invoke("run", workload, "--out", str(tmp_path / "o"), "--quiet", "--summary-md", str(page))
    (slow, kept) = ET.fromstring((tmp_path / "o" / "junit.xml").read_bytes()).iter("testcase")
    # 4: this machine is busy with other tests, and no rule may be green then.
    assert [child.tag for child in (*slow, *kept)] == {1: ["failure"], 4: ["error", "error"]}[code]
    text = page.read_text()
    assert text.startswith(f"# Earlier step\n\n## {out.split()[0]} small\n")
    assert "| **FAIL** | ttft p99 \\< 1ms | " in text


@pytest.mark.slow
def test_a_run_without_slos_leaves_no_junit(tmp_path: Path) -> None:
    (tmp_path / "junit.xml").write_text("of an earlier run")
    assert invoke("run", write(tmp_path, SHORT), "--out", str(tmp_path), "--quiet")[0] in {0, 4}
    assert not (tmp_path / "junit.xml").exists()


def test_a_page_that_cannot_be_written_is_told_before_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "o"
    command = ("run", write(tmp_path, SHORT), "--out", str(folder), "--summary-md", str(tmp_path / "no" / "page.md"))
    code, out, err = invoke(*command)
    assert (code, out) == (2, "")
    assert "page.md" in err
    assert not folder.exists()

"""The Markdown report, read back by a CommonMark parser with tables."""

from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from loadgen.model import Outcome
from loadgen.report.markdown import append_markdown, build_markdown
from tests.support.records import completed, failed
from tests.support.summaries import ERRORS, HOSTILE, KEPT, SLOW, summary_of

READER = MarkdownIt("commonmark").enable("table")


def parse(text: str) -> list[Token]:
    return READER.parse(text)


def tables(text: str) -> list[list[list[str]]]:
    """Rows of cells of every table, as text."""
    found: list[list[list[str]]] = []
    for token in parse(text):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
        elif token.type == "inline" and token.level >= 4:
            found[-1][-1].append(said(token))
    return found


def said(inline: Token) -> str:
    return "".join("\n" if child.type == "html_inline" else child.content for child in inline.children or ())


def paragraphs(text: str) -> list[str]:
    return [said(token) for token in parse(text) if token.type == "inline" and token.level == 1]


def test_verdict_rules_metrics_outcomes_and_generator_in_this_order() -> None:
    text = build_markdown(summary_of(SLOW, KEPT, ERRORS), "reports/runs/x")
    slo, metrics, outcomes = tables(text)
    assert slo[1:] == [["FAIL", SLOW, "250.0 ms"], ["ok", KEPT, "20.0 ms"], ["FAIL", ERRORS, "9.09%"]]
    by_name = {row[0]: row[1:] for row in metrics[1:]}
    assert by_name["ttft"] == ["10", "250.0", "250.0", "250.0", "250.0", "intended start to first token"]
    assert by_name["itl"][0] == "100"
    assert "abort_to_server_stop" not in by_name
    assert outcomes[1:] == [["completed", "10", ""], ["connect_error", "1", "1 x refused"]]
    heading, verdict, _, generator, files = paragraphs(text)
    assert heading == "FAIL release-gate"
    assert verdict.startswith("2 of 3 SLOs failed: ttft p99 < 100ms (was 250), ")
    assert generator.startswith("Generator: valid; ")
    assert files == "Files: reports/runs/x"
    assert text.index("SLOs failed") < text.index("milliseconds") < text.index("connect\\_error") < text.index("Generator:")


def test_a_run_that_measured_nothing_has_its_reason_and_no_empty_tables() -> None:
    text = build_markdown(summary_of(records=(), unreachable="127.0.0.1 port 9: refused"), "x")
    assert paragraphs(text)[:2] == ["UNREACHABLE release-gate", "the target cannot be reached: 127.0.0.1 port 9: refused"]
    assert [table[0][0] for table in tables(text)] == ["outcome"]


def test_several_reasons_of_one_outcome_stand_in_one_cell() -> None:
    records = (*(failed(i, Outcome.RESET, f"why {i % 2}") for i in range(3)), completed(9))
    *_, outcomes = tables(build_markdown(summary_of(records=records), "x"))
    assert outcomes[2] == ["reset", "3", "2 x why 0\n1 x why 1"]


@pytest.mark.parametrize("hostile", [HOSTILE, "# x", "---", "<!--", "$a$", "~~x~~", "&lt;", "a|b"])
def test_any_words_stay_text(hostile: str) -> None:
    summary = summary_of(records=(failed(0, Outcome.RESET, hostile), completed(1)), name=hostile)
    text = build_markdown(summary, hostile)
    kinds: dict[str, Any] = {}
    for token in parse(text):
        for child in token.children or ():
            kinds[child.type] = child.content
    assert kinds.keys() <= {"text", "text_special", "strong_open", "strong_close"}
    words = " ".join(hostile.split()).replace("\x00", "\ufffd")  # CommonMark, 2.3: U+0000 is replaced
    assert paragraphs(text)[0] == f"PASS {words}"
    assert tables(text)[-1][2] == ["reset", "1", f"1 x {words}"]


def test_reports_are_added_to_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    for _ in range(2):
        append_markdown(path, summary_of(), "x")
    text = path.read_text()
    assert text == "\n".join([build_markdown(summary_of(), "x")] * 2)
    append_markdown(path, summary_of(), "\ud800")
    assert path.read_text().endswith("Files: \\ud800\n")
    assert [row for row in paragraphs(text) if row.startswith("PASS")] == ["PASS release-gate"] * 2

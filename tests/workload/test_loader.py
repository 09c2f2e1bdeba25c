# ruff: noqa: E501 - a table row is one line: input and the exact message
import os
from pathlib import Path

import pytest

from loadgen.errors import WorkloadError
from loadgen.workload.loader import load, load_sim_script, loads
from loadgen.workload.sim_script import Pace, SimScript
from tests.support.workloads import VALID, complaints


def refusal(path: Path) -> str:
    with pytest.raises(WorkloadError) as caught:
        load(path, env={})
    return str(caught.value)


def test_a_file_gives_its_name_and_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "chat.test.yaml").write_text(f"{VALID}requests: [{{prompt: {{file: p.jsonl}}}}]\n")
    (tmp_path / "sub" / "p.jsonl").write_text('{"prompt": "a"}\n')
    monkeypatch.chdir(tmp_path)
    loaded = load("sub/chat.test.yaml", env={})
    assert (loaded.source, loaded.name) == ("sub/chat.test.yaml", "chat.test")
    monkeypatch.chdir("/")
    assert loaded.masked["requests"][0]["prompt"] == {"file": str(tmp_path / "sub" / "p.jsonl")}
    assert loaded.to_plan().requests[0].prompt is not None


def test_problems_carry_the_file_as_it_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "chat.yaml").write_text(f"{VALID}limit:\n  streams: 0\n")
    monkeypatch.chdir(tmp_path)
    assert refusal(Path("chat.yaml")) == "chat.yaml:5: limit.streams: must be at least 1, got 0"


def test_a_hidden_file_still_has_a_name(tmp_path: Path) -> None:
    (tmp_path / ".secret.yaml").write_text(VALID)
    assert load(tmp_path / ".secret.yaml", env={}).name == "secret"


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(VALID, encoding="utf-8-sig")
    assert load(tmp_path / "w.yaml", env={}).seed == 0


def test_no_such_file(tmp_path: Path) -> None:
    path = tmp_path / "nope.yaml"
    assert refusal(path) == f"{path}: there is no such file"


def test_a_directory_tells_what_is_in_it(tmp_path: Path) -> None:
    assert refusal(tmp_path) == f"{tmp_path}: is a directory"
    (tmp_path / "b.yml").touch()
    (tmp_path / "a.yaml").touch()
    assert refusal(tmp_path) == f"{tmp_path}: is a directory; in it are a.yaml, b.yml"


def test_a_binary_file(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_bytes(b"loadgen: 1\n\xff\xfe")
    assert refusal(path) == f"{path}: is no text in UTF-8: byte 0xff at offset 11"


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read everything, so the refusal is played."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert refusal(tmp_path / "w.yaml") == f"{tmp_path}/w.yaml: may not be read (permission denied)"


def test_a_file_that_is_far_too_large(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.touch()
    os.truncate(path, 5 << 20)
    assert refusal(path) == f"{path}: is larger than 4 MiB: this is no workload file"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "w.yaml: is empty; a workload begins with `loadgen: 1`"),
        ("# nothing\n", "w.yaml: is empty; a workload begins with `loadgen: 1`"),
        ("- a", "w.yaml: must be a mapping (key: value) that begins with `loadgen: 1`, got a list"),
        ("hello", "w.yaml: must be a mapping (key: value) that begins with `loadgen: 1`, got 'hello'"),
        ("a: [", "w.yaml:1: is not YAML (column 5): while parsing a flow node: expected the node content, but found '<stream end>'"),
        ("!x {}", "w.yaml:1: the tag !x has no meaning here"),
    ],
)  # fmt: skip
def test_what_is_no_workload(text: str, message: str) -> None:
    assert complaints(text) == [message]


def test_the_environment_is_that_of_the_process_unless_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOADGEN_TEST_SEED", "41")
    text = f"{VALID}seed: ${{LOADGEN_TEST_SEED}}\n"
    assert loads(text).seed == 41
    assert loads(text, env={"LOADGEN_TEST_SEED": "42"}).seed == 42


def test_overrides_come_after_the_file() -> None:
    loaded = loads(VALID, overrides=["load.1.streams=9", "timeouts.idle=5s", "target={sim: {ttft: 5ms}}"], env={})
    assert loaded.load[1].streams == 9
    assert loaded.timeouts.idle == 5_000_000_000
    assert loaded.target.sim is not None


def test_a_name_can_be_given() -> None:
    assert loads(f"{VALID}name: mine\n", name="other", env={}).name == "mine"
    assert loads(VALID, name="other", env={}).name == "other"


def test_sim_scripts(tmp_path: Path) -> None:
    assert load_sim_script(None) == SimScript()
    (tmp_path / "sim.yaml").write_text("ttft: 50ms\n")
    script = load_sim_script(tmp_path / "sim.yaml", ["itl=5ms", "max_batch=7"])
    assert (script.prefill.base, script.decode.step, script.max_batch) == (50_000_000, 5_000_000, 7)
    assert script.pace is Pace.OWN


def test_bad_sim_scripts(tmp_path: Path) -> None:
    path = tmp_path / "sim.yaml"
    path.write_text("prefill:\n  bas: 5ms\nmax_batch: 0\n")
    with pytest.raises(WorkloadError) as caught:
        load_sim_script(path, ["seed=x"])
    assert str(caught.value).splitlines() == [
        f"{path}:2: prefill.bas: unknown key; did you mean base?",
        f"{path}:3: max_batch: must be at least 1, got 0",
        f"{path}: seed: must be a whole number, got 'x' (given by --set seed)",
    ]

import json
import pickle
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from loadgen.errors import WorkloadError
from loadgen.workload.prompt_file import PromptFile, parse_line

SHAPES = '{"prompt": ...}, {"messages": [...]} or {"conversations": [...]}'


def open_file(path: Path, content: bytes | str) -> PromptFile:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return PromptFile(path, "p.jsonl")


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.mark.parametrize(
    ("entry", "messages"),
    [
        ({"prompt": "a", "id": 5}, [user("a")]),
        ({"messages": [{"role": "system", "content": "s"}, user("a")]}, [{"role": "system", "content": "s"}, user("a")]),
        ({"messages": [user("a") | {"name": "x"}]}, [user("a") | {"name": "x"}]),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}]},
            [{"role": "user", "content": [{"type": "text", "text": "a"}]}],
        ),
        ({"messages": [{"role": "assistant", "tool_calls": []}]}, [{"role": "assistant", "tool_calls": []}]),
        ({"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}, [user("a")]),
        (
            {"conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "a"}]},
            [{"role": "system", "content": "s"}, user("a")],
        ),
        ({"conversations": [{"from": "gpt", "value": "b"}, {"from": "user", "value": "a"}]}, [user("a")]),
    ],
)
def test_shapes(entry: object, messages: object) -> None:
    assert parse_line(json.dumps(entry).encode()) == messages


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"hello", "not JSON: JSON is malformed: invalid character (byte 0), got 'hello'"),
        (b'{"prompt": "a"', "not JSON: Input data was truncated, got '{\"prompt\": \"a\"'"),
        (b'{"prompt": "\xff"}', "not JSON: Invalid UTF-8 encoded string, got '{\"prompt\": \"\\\\xff\"}'"),
        (b"[\n", "not JSON: Input data was truncated; a JSON array must be written as one object per line, got '['"),
        (b"5", f"must be {SHAPES}, got '5'"),
        (b"[]", f"must be {SHAPES}, got '[]'"),
        (b"{}", f"must be {SHAPES}, got '{{}}'"),
        (b'{"prompt": 5}', f"must be {SHAPES}, got '{{\"prompt\": 5}}'"),
        (b'{"messages": []}', f"must be {SHAPES}, got '{{\"messages\": []}}'"),
        (b'{"messages": ["a"]}', "messages[0] must have a role and a content, got 'a'"),
        (b'{"messages": [{"role": "user"}]}', "messages[0] must have a role and a content, got \"{'role': 'user'}\""),
        (b'{"conversations": [{"value": "a"}]}', "conversations[0] must have from and value, got \"{'value': 'a'}\""),
        (b'{"conversations": [{"from": "gpt", "value": "a"}]}', "conversations has no turn from human"),
        (b"[" * 100_000, "not JSON: "),
    ],
)  # fmt: skip
def test_malformed_lines(line: bytes, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_line(line)
    assert str(caught.value).startswith(message)
    assert len(str(caught.value)) < 250


def test_every_line_is_picked_equally_often_whatever_the_line_ends(tmp_path: Path) -> None:
    prompts = open_file(
        tmp_path / "p.jsonl",
        b'\xef\xbb\xbf{"prompt": "a"}\r\n\n   \n{"prompt": "b\xc3\xa4"}\n{"prompt": "c"}',
    )
    assert len(prompts) == 3
    rng = Random(1)
    counts = Counter(prompts.pick(rng)[0]["content"] for _ in range(3_000))
    assert set(counts) == {"a", "bä", "c"}
    assert min(counts.values()) > 900


def test_the_same_seed_gives_the_same_prompts(tmp_path: Path) -> None:
    prompts = open_file(tmp_path / "p.jsonl", "".join(f'{{"prompt": "{n}"}}\n' for n in range(100)))
    first, second = Random(5), Random(5)
    assert [prompts.pick(first) for _ in range(20)] == [prompts.pick(second) for _ in range(20)]


def test_malformed_lines_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError) as caught:
        open_file(tmp_path / "p.jsonl", '{"prompt": "a"}\n\n{"promt": "b"}\nx\n')
    assert str(caught.value) == (
        f'p.jsonl:3: must be {SHAPES}, got \'{{"promt": "b"}}\'; '
        "p.jsonl:4: not JSON: JSON is malformed: invalid character (byte 0), got 'x'"
    )


def test_many_malformed_lines_are_counted(tmp_path: Path) -> None:
    with pytest.raises(ValueError) as caught:
        open_file(tmp_path / "p.jsonl", "{}\n" * 10)
    assert str(caught.value).count("p.jsonl:") == 3
    assert str(caught.value).endswith(" (and 7 more lines)")


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_an_empty_file_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(ValueError, match=r"p\.jsonl has no prompts: write one JSON object per line"):
        open_file(tmp_path / "p.jsonl", content)


def test_a_file_changed_meanwhile_ends_the_run_with_its_name(tmp_path: Path) -> None:
    prompts = open_file(tmp_path / "p.jsonl", '{"prompt": "a"}\n')
    (tmp_path / "p.jsonl").write_text("something else")
    with pytest.raises(WorkloadError, match=r"p\.jsonl:1: changed while the run was going on"):
        prompts.pick(Random(1))
    (tmp_path / "p.jsonl").unlink()
    with pytest.raises(WorkloadError, match=r"p\.jsonl:1: changed while the run was going on"):
        prompts.pick(Random(1))


def test_it_can_go_to_another_process(tmp_path: Path) -> None:
    prompts = open_file(tmp_path / "p.jsonl", '{"prompt": "a"}\n')
    copy = pickle.loads(pickle.dumps(prompts))
    assert copy == prompts
    assert hash(copy) == hash(prompts)
    assert copy.pick(Random(1)) == [user("a")]

"""The conformance cases in tests/data: every scalar is JSON, big inputs are told in parts."""

import base64
import json
import re
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent.parent / "data"
_ITEM = re.compile(r"(- |  )([a-z_0-9]+): (.*)")


def load_cases(name: str) -> list[dict[str, Any]]:
    """Cases of a file. Read line by line as JSON: a YAML reader would not join surrogate pairs."""
    cases: list[dict[str, Any]] = []
    for line in (DATA / name).read_text(encoding="utf-8").splitlines():
        if match := re.fullmatch(r"  - (\{.*\})", line):
            cases[-1].setdefault("events", []).append(json.loads(match[1]))
        elif match := _ITEM.fullmatch(line):
            if match[1] == "- ":
                cases.append({})
            if cases:
                cases[-1][match[2]] = json.loads(match[3])
        elif line == "  events:":
            cases[-1]["events"] = []
    return cases


def input_of(case: dict[str, Any]) -> bytes:
    if "input_b64" in case:
        return base64.b64decode(case["input_b64"])
    return b"".join(base64.b64decode(part) * count for part, count in case["input_parts"])

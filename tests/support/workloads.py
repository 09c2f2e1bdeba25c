"""Workloads in tests: a short valid file, and what the loader says about a bad one."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from loadgen.errors import WorkloadError
from loadgen.workload.loader import loads
from loadgen.workload.schema import Workload

VALID = """\
loadgen: 1
target: {url: http://127.0.0.1:8000/v1/chat/completions}
load: [{warmup: 1s, streams: 2}, {hold: 5s, streams: 3}]
"""


def workload(text: str = VALID, *overrides: str, env: Mapping[str, str] | None = None, folder: Path | None = None) -> Workload:
    """Independent of the environment of the tests."""
    return loads(text, "w.yaml", overrides=overrides, env=env or {}, folder=folder)


def complaints(text: str, *overrides: str, env: Mapping[str, str] | None = None, folder: Path | None = None) -> list[str]:
    """The rendered problems, each a line; fails when there are none."""
    with pytest.raises(WorkloadError) as caught:
        workload(text, *overrides, env=env, folder=folder)
    return str(caught.value).splitlines()

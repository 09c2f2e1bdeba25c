"""Workload files and overrides that are small to write and large to hold."""

import time

from tests.support.workloads import VALID, complaints


def test_aliases_that_multiply_are_refused_at_once() -> None:
    """The billion laughs: 700 bytes of YAML that stand for 43 million values."""
    ninefold = (f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 8))
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]", *ninefold]
    began = time.monotonic()
    (said,) = complaints("\n".join(lines))
    assert (
        said == "w.yaml: holds more than 200000 values: long lists of prompts go into a file of their own (prompt: {file: ...})"
    )
    assert time.monotonic() - began < 10


def test_an_index_of_thousands_of_digits_is_no_index() -> None:
    (said,) = complaints(VALID, f"load.{'9' * 5000}.streams=1")
    assert "numbered from 0" in said or "name the entry by its number" in said

"""Ways to cut a byte string: a parser's answer must not depend on any of them."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from hypothesis import strategies as st


def pieces(data: bytes, offsets: Sequence[int]) -> list[bytes]:
    """``data`` cut at the offsets."""
    edges = [0, *sorted(offsets), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


def one_by_one(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


def every_cut(data: bytes, most: int = 1000) -> Iterator[list[bytes]]:
    """Whole, byte by byte (up to 300 KB), and cut in two at every offset (evenly spread ones where there are more)."""
    yield [data]
    if len(data) <= 300_000:
        yield one_by_one(data)
    step = max(1, len(data) // most)
    for at in range(0, len(data) + 1, step):
        yield pieces(data, [at])


def cut_offsets(size: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, size), max_size=8)

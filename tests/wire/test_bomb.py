"""The bound on decoded bytes holds for a body of several gzip members as well."""

import gzip

import pytest

from loadgen.errors import WireError
from loadgen.wire import content


def test_a_member_behind_one_that_used_the_bound_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "MAX_DECODED_BYTES", 1000)
    decoder = content.content_decoder("gzip")
    assert decoder is not None
    with pytest.raises(WireError, match="decoded_too_big"):
        decoder.decode(gzip.compress(b"x" * 1000) + gzip.compress(b"y" * 100_000))

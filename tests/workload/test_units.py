import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from loadgen.workload.units import (
    Duration,
    format_duration,
    parse_duration,
    parse_share,
    parse_size,
    write_duration,
)


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("250ms", 250_000_000), ("5s", 5_000_000_000), ("2m", 120_000_000_000), ("1h", 3_600_000_000_000),
        ("3us", 3_000), ("7ns", 7), ("1m30s", 90_000_000_000), ("0.5s", 500_000_000), (" 5 s ", 5_000_000_000),
        ("0s", 0), (0, 0), (0.0, 0), ("1.000000001s", 1_000_000_001),
        ("100000h1ns", 360_000_000_000_000_001),
    ],
)  # fmt: skip
def test_durations(text: object, ns: int) -> None:
    assert parse_duration(text) == ns


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (30, "must be a duration such as 250ms, 5s or 2m, got 30; add a unit: 30s"),
        (1.5, "must be a duration such as 250ms, 5s or 2m, got 1.5; add a unit: 1.5s"),
        ("30", "must be a duration such as 250ms, 5s or 2m, got '30'; add a unit: 30s"),
        ("", "must be a duration such as 250ms, 5s or 2m, got ''"),
        ("5 parsecs", "must be a duration such as 250ms, 5s or 2m, got '5 parsecs'"),
        ("-5s", "must be a duration such as 250ms, 5s or 2m, got '-5s'"),
        ("5s later", "must be a duration such as 250ms, 5s or 2m, got '5s later'"),
        ("5S", "must be a duration such as 250ms, 5s or 2m, got '5S'"),
        (True, "must be a duration such as 250ms, 5s or 2m, got True"),
        (False, "must be a duration such as 250ms, 5s or 2m, got False"),
        (None, "must be a duration such as 250ms, 5s or 2m, got None"),
    ],
)
def test_no_durations(value: object, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_duration(value)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "size"), [("64KiB", 65_536), ("1MiB", 1 << 20), ("500B", 500), ("2KB", 2_000), ("1.5GiB", 3 << 29), (0, 0)]
)
def test_sizes(text: object, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("value", ["64kib", "64", 64, "KiB", "1s", False])
def test_no_sizes(value: object) -> None:
    with pytest.raises(ValueError, match="must be a size such as 64KiB or 1MiB"):
        parse_size(value)


@pytest.mark.parametrize(
    ("value", "share"), [("10%", 0.1), (0.1, 0.1), ("0.1%", 0.001), ("99.9%", 0.999), ("100 %", 1.0), (0, 0.0), (1, 1.0)]
)
def test_shares(value: object, share: float) -> None:
    assert parse_share(value) == share


@pytest.mark.parametrize("value", ["101%", 1.01, -0.1, "10", "ten%", True, None, float("nan"), float("inf")])
def test_no_shares(value: object) -> None:
    with pytest.raises(ValueError, match=r"must be a share such as 10% or 0\.1, from 0 to 1, got"):
        parse_share(value)


@given(st.integers(min_value=0, max_value=10**19))
def test_what_is_written_is_read_back(ns: int) -> None:
    assert parse_duration(write_duration(ns)) == ns


@given(st.integers(min_value=1, max_value=10**15))
def test_what_is_formatted_is_near(ns: int) -> None:
    assert parse_duration(format_duration(ns)) == pytest.approx(ns, rel=1e-3)


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (90e9, "1m30s"),
        (120_000_000_000, "2m"),
        (250_000_000, "250ms"),
        (20_500_000.0, "20.5ms"),
        (3_000, "3us"),
        (0, "0s"),
        (61.5e9, "61.5s"),
        (10_000.4e9, "166m40s"),
    ],
)
def test_formats(ns: float, text: str) -> None:
    assert format_duration(ns) == text


@pytest.mark.parametrize(("ns", "text"), [(90_000_000_000, "90s"), (120_000_000_000, "2m"), (20_500_000, "20500us"), (0, "0s")])
def test_writes_without_fractions(ns: int, text: str) -> None:
    assert write_duration(ns) == text


def test_a_model_dumps_ns_or_text_and_reads_both() -> None:
    class Model(BaseModel):
        wait: Duration

    model = Model.model_validate({"wait": "1500ms"})
    assert model.model_dump() == {"wait": 1_500_000_000}
    assert model.model_dump(context={"units": True}) == {"wait": "1500ms"}
    assert Model.model_validate_json(model.model_dump_json(), context={"ns": True}) == model

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.workload.plan import Phase, PhaseKind, Target
from tests.support.workloads import VALID, workload


def ramp(first: int, last: int, duration_ns: int) -> Phase:
    return Phase(index=0, kind=PhaseKind.RAMP, duration_ns=duration_ns, streams_from=first, streams_to=last)


@pytest.mark.parametrize(
    ("into_ns", "streams"), [(-1, 0), (0, 0), (99, 0), (100, 1), (550, 5), (999, 9), (1_000, 10), (9_999, 10)]
)
def test_a_ramp_upwards(into_ns: int, streams: int) -> None:
    assert ramp(0, 10, 1_000).streams_at(into_ns) == streams


@given(st.integers(0, 10_000), st.integers(1, 10_000), st.integers(1, 10**12), st.data())
def test_a_ramp_goes_one_way_and_stays_within_its_ends(first: int, last: int, duration_ns: int, data: st.DataObject) -> None:
    phase = ramp(first, last, duration_ns)
    early, late = sorted((data.draw(st.integers(0, duration_ns)), data.draw(st.integers(0, duration_ns))))
    before, after = phase.streams_at(early), phase.streams_at(late)
    assert phase.streams_at(0) == first
    assert phase.streams_at(duration_ns) == last
    assert min(first, last) <= before <= max(first, last)
    assert before <= after if last >= first else before >= after


@pytest.mark.parametrize(
    ("scheme", "host", "port", "authority"),
    [
        ("http", "h", 80, "h"), ("http", "h", 8000, "h:8000"), ("https", "h", 443, "h"), ("https", "h", 80, "h:80"),
        ("http", "::1", 80, "[::1]"), ("https", "::1", 8443, "[::1]:8443"),
    ],
)  # fmt: skip
def test_authority(scheme: str, host: str, port: int, authority: str) -> None:
    target = Target(url="", scheme=scheme, host=host, port=port, path="/", dialect="plain-sse")
    assert target.authority == authority


def test_sums() -> None:
    plan = workload(f"{VALID}limit: {{streams: 2}}\n").to_plan()
    assert plan.load_ns == 6_000_000_000
    assert plan.max_streams == 2
    assert workload().to_plan().max_streams == 3
    assert [phase.measured for phase in plan.phases] == [False, True]

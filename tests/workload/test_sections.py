"""Values that are taken, and what the sections make of files that they name. What is refused: test_problems.py."""

from pathlib import Path
from random import Random

import pytest

from loadgen.workload.plan import PhaseKind
from tests.support.workloads import VALID, complaints, workload

PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize("http", ["1.1", "'1.1'"])
def test_http_may_be_written_as_a_number(http: str) -> None:
    assert workload(f"{VALID}transport: {{http: {http}}}\n").to_plan().transport.http == "1.1"


@pytest.mark.parametrize(("written", "connections"), [("per-stream", None), ("1", 1), ("64", 64)])
def test_connections(written: str, connections: int | None) -> None:
    assert workload(f"{VALID}transport: {{connections: {written}}}\n").to_plan().transport.connections == connections


@pytest.mark.parametrize(
    ("phase", "kind", "first", "last"),
    [
        ("{warmup: 5s, streams: 50}", PhaseKind.WARMUP, 50, 50),
        ("{hold: 5s, streams: 1}", PhaseKind.HOLD, 1, 1),
        ("{ramp: 5s, streams: [0, 400]}", PhaseKind.RAMP, 0, 400),
        ("{ramp: 5s, streams: [400, 1]}", PhaseKind.RAMP, 400, 1),
    ],
)
def test_phases(phase: str, kind: PhaseKind, first: int, last: int) -> None:
    text = f"loadgen: 1\ntarget: {{sim: {{}}}}\nload: [{phase}, {{hold: 1s, streams: 1}}]\n"
    found = workload(text).to_plan().phases[0]
    assert (found.kind, found.duration_ns, found.streams_from, found.streams_to) == (kind, 5_000_000_000, first, last)


def test_a_total_below_the_defaults_is_fine() -> None:
    """Only what the user wrote can contradict it."""
    timeouts = workload(f"{VALID}timeouts: {{total: 30s}}\n").to_plan().timeouts
    assert (timeouts.total_ns, timeouts.first_token_ns) == (30_000_000_000, 120_000_000_000)


def test_timeouts_can_be_switched_off() -> None:
    timeouts = workload(f"{VALID}timeouts: {{first_token: null, idle: null}}\n").to_plan().timeouts
    assert (timeouts.first_token_ns, timeouts.idle_ns) == (None, None)


def test_files_are_found_beside_the_workload(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(PEM)
    (tmp_path / "p.jsonl").write_text('{"prompt": "a"}\n')
    text = f"{VALID}transport: {{tls: {{ca: ca.pem}}, unix: s.sock}}\nrequests: [{{prompt: {{file: p.jsonl}}}}]\n"
    plan = workload(text, folder=tmp_path).to_plan()
    assert plan.transport.tls.ca == str(tmp_path / "ca.pem")
    assert plan.target is not None
    assert plan.target.unix_path == str(tmp_path / "s.sock")
    assert plan.requests[0].prompt.pick(Random(1)) == [{"role": "user", "content": "a"}]


def test_files_that_are_missing_or_something_else(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    (tmp_path / "p.jsonl").write_text('{"prompt": "a"}\nb\n')
    text = f"""{VALID}transport:
  tls: {{ca: ca.pem}}
  unix: {"x" * 200}
requests:
- prompt: {{file: nope.jsonl}}
- prompt: {{file: p.jsonl}}
- prompt: {{file: .}}
- prompt: {{file: 5}}
"""
    assert complaints(text, folder=tmp_path) == [
        f"w.yaml:5: transport.tls.ca: {tmp_path}/ca.pem holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)",
        f"w.yaml:6: transport.unix: must be at most 107 bytes long, {tmp_path}/{'x' * 200} has {len(str(tmp_path)) + 201}",
        f"w.yaml:8: requests.0.prompt.file: there is no file {tmp_path}/nope.jsonl",
        "w.yaml:9: requests.1.prompt.file: p.jsonl:2: not JSON: JSON is malformed: invalid character (byte 0), got 'b'",
        f"w.yaml:10: requests.2.prompt.file: is no file: {tmp_path}",
        "w.yaml:11: requests.3.prompt.file: must be the path of a file, got 5",
    ]


def test_a_unix_socket_does_not_go_with_the_simulated_server() -> None:
    text = "loadgen: 1\ntarget: {sim: {}}\nload: [{hold: 1s, streams: 1}]\ntransport:\n  unix: /tmp/s\n"
    assert complaints(text) == [
        "w.yaml:5: transport.unix: goes with target.url: the simulated server listens on a TCP port of its own"
    ]

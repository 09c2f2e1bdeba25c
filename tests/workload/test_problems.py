# ruff: noqa: E501 - a table row is one line: input and the exact message
"""What the user reads: exact messages, each with file, line and path."""

from typing import get_args

import pytest

from loadgen.workload.schema import VARIANT_KEYS
from loadgen.workload.sections import DialectName
from tests.support.workloads import VALID, complaints

SPACING = "goes with http: 1.1: streams of an HTTP/2 connection share a receive queue, to be read at once"
ELSEWHERE = "this version of loadgen cannot do that yet"
DIALECT_NAMES = ", ".join(get_args(DialectName))
HEAD = "loadgen: 1\ntarget: {url: http://h/v1/chat/completions}\n"
LOAD = "load: [{hold: 5s, streams: 3}]\n"


@pytest.mark.parametrize(
    ("section", "messages"),
    [
        # the top
        ("name: a/b", ["w.yaml:4: name: names the run's folder: 1 to 100 printable characters without /, not beginning with a dot, got 'a/b'"]),
        ("name: 5", ["w.yaml:4: name: must be text, got 5; put it in quotes"]),
        ("name: [a]", ["w.yaml:4: name: must be text, got a list"]),
        ("seed: -1", ["w.yaml:4: seed: must be at least 0, got -1"]),
        ("seed: '7'", ["w.yaml:4: seed: must be a whole number, got '7'; leave the quotes out"]),
        ("seed: 1.5", ["w.yaml:4: seed: must be a whole number, got 1.5"]),
        ("drian: 5s", ["w.yaml:4: drian: unknown key; did you mean drain?"]),
        ("zzz: 5s", ["w.yaml:4: zzz: unknown key; there are loadgen, name, seed, target, transport, requests, mix, load, limit, drain, timeouts, failure_pause, aborts, slo, variants, rounds"]),
        ("drain: 30", ["w.yaml:4: drain: must be a duration such as 250ms, 5s or 2m, got 30; add a unit: 30s"]),
        ("failure_pause: yes", ["w.yaml:4: failure_pause: must be a duration such as 250ms, 5s or 2m, got 'yes'"]),
        # transport
        ("transport: 5", ["w.yaml:4: transport: must be a mapping (key: value), got 5"]),
        ("transport: {http: '3'}", [f'w.yaml:4: transport.http: "3": {ELSEWHERE}, it speaks "1.1" and "2"']),
        ("transport: {http: grpc}", [f'w.yaml:4: transport.http: "grpc": {ELSEWHERE}, it speaks "1.1" and "2"']),
        ("transport: {http: '1.0'}", ["w.yaml:4: transport.http: must be \"1.1\" or \"2\", got '1.0'"]),
        ("transport: {http: true}", ['w.yaml:4: transport.http: must be "1.1" or "2", got true']),
        ("transport: {connections: 0}", ["w.yaml:4: transport.connections: must be at least 1, got 0"]),
        ("transport: {connections: shared}", ["w.yaml:4: transport.connections: must be per-stream, as-needed or a number of connections, got 'shared'"]),
        ("transport: {connections: true}", ["w.yaml:4: transport.connections: must be per-stream, as-needed or a number of connections, got true"]),
        ("transport:\n  tls: {verify: 'no'}", ["w.yaml:5: transport.tls.verify: must be true or false, got 'no'"]),
        ("transport:\n  tls: {server_name: ''}", ["w.yaml:5: transport.tls.server_name: must not be empty"]),
        # requests
        ("requests: []", ["w.yaml:4: requests: must not be empty"]),
        ("requests: {weight: 1}", ["w.yaml:4: requests: must be a list, got a mapping"]),
        ("requests: [{weight: -1}]", ["w.yaml:4: requests.0.weight: must be at least 0, got -1"]),
        ("requests: [{weight: .inf}]", ["w.yaml:4: requests.0.weight: must be a number, got inf"]),
        ("requests: [{weight: 0}, {weight: 0}]", ["w.yaml:4: requests: has weights of 0 only: give at least one entry a weight above 0"]),
        ("requests:\n- {prompt: {}}\n- {prompt: {text: a, characters: 5}}", [
            "w.yaml:5: requests.0.prompt: must have exactly one of text, file, characters, got none",
            "w.yaml:6: requests.1.prompt: must have exactly one of text, file, characters, got text and characters",
        ]),
        ("requests: [{prompt: ''}]", ["w.yaml:4: requests.0.prompt.text: must not be empty"]),
        ("requests: [{prompt: 5}]", ["w.yaml:4: requests.0.prompt: must be a mapping (key: value), got 5"]),
        ("requests: [{prompt: {tokens: 5}}]", ["w.yaml:4: requests.0.prompt.tokens: unknown key; there are text, file, characters"]),
        ("requests: [{prompt: {characters: 0}}]", ["w.yaml:4: requests.0.prompt.characters: must be at least 1, got 0"]),
        ("requests: [{max_tokens: '5'}]", ["w.yaml:4: requests.0.max_tokens: must be a whole number or {uniform: [low, high]}, got '5'"]),
        ("requests: [{max_tokens: {uniform: [9, 1]}}]", ["w.yaml:4: requests.0.max_tokens: uniform must be [low, high] with low <= high, got [9, 1]"]),
        ("requests: [{body: {stream: false}}]", ["w.yaml:4: requests.0.body: stream must stay true: loadgen measures streams, got false"]),
        ("requests: [{body: {a: [{b: .nan}]}}]", ["w.yaml:4: requests.0.body: must hold numbers that JSON has, got nan"]),
        ("requests: [{body: 5}]", ["w.yaml:4: requests.0.body: must be a mapping (key: value), got 5"]),
        # limit, timeouts, slo
        ("limit: {streams: 0}", ["w.yaml:4: limit.streams: must be at least 1, got 0"]),
        ("limit: {when_full: dropp}", [
            "w.yaml:4: limit.streams: is missing: say how many streams may be open at once",
            "w.yaml:4: limit.when_full: must be queue or drop, got 'dropp'; did you mean drop?",
        ]),
        ("timeouts: {connect: null}", ["w.yaml:4: timeouts.connect: must be a duration such as 250ms, 5s or 2m, got None"]),
        ("timeouts: {connect: 0s, idle: 0s}", [
            "w.yaml:4: timeouts.connect: must be more than 0, got '0s'",
            "w.yaml:4: timeouts.idle: must be more than 0, got '0s'",
        ]),
        ("timeouts: {total: 5s, first_token: 10s, idle: 2m}", [
            "w.yaml:4: timeouts.first_token: must not be longer than total (5s), got 10s",
            "w.yaml:4: timeouts.idle: must not be longer than total (5s), got 2m",
        ]),
        ("slo: ttft p99 < 2s", ["w.yaml:4: slo: must be a list, got 'ttft p99 < 2s'"]),
        ("slo:\n- ttft p99 < 2s\n- ttft p99 < 2\n- 5", [
            "w.yaml:6: slo.1: must be a duration such as 250ms, 5s or 2m, got '2'; add a unit: 2s",
            'w.yaml:7: slo.2: must be a rule such as "ttft p99 < 2s", got 5',
        ]),
        # of the format, but of later versions
        ("aborts: [{share: 60%, after: sent}, {share: 50%, after: headers}]", [
            "w.yaml:4: aborts: has shares of 110% together: a stream is left once, so they must not exceed 100%",
        ]),
        ("aborts: [{share: 10%, after: now}]", [
            "w.yaml:4: aborts.0.after: must be headers, sent, {tokens: 20} or {time: 300ms}, got 'now'",
        ]),
        ("aborts: [{share: 10%, after: {tokens: 2, time: 1s}}]", [
            "w.yaml:4: aborts.0.after: must have exactly one of tokens, time, headers, sent, got tokens and time",
        ]),
        ("aborts: [{share: 10%, after: {tokens: 2}, by: phone}]", [
            "w.yaml:4: aborts.0.by: must be close or reset, got 'phone'",
        ]),
        ("rounds: 5", ["w.yaml:4: rounds: goes with variants, which take turns"]),
        ("variants: {a: {slo: []}}", [
            f"w.yaml:4: variants: a changes slo: variants may differ in {', '.join(VARIANT_KEYS)}, and get the same load",
        ]),
        ("variants: {a: {target: {url: ftp://x}}, b: {transport: {connections: 0}}}", [
            "w.yaml:4: variants.a.target.url: must begin with http:// or https://, got 'ftp://x'",
            "w.yaml:4: variants.b.transport.connections: must be at least 1, got 0",
        ]),
        ("variants: {'a b': {}}", ["w.yaml:4: variants.a b: must be letters, digits, - and _ (40 at most), got 'a b'"]),
        ("mix: in-turn\nrequests: [{weight: 0.5}]", [
            "w.yaml:4: mix: in-turn needs whole weights: so many streams of each in a turn",
        ]),
        ("transport: {streams_per_connection: 5, windows: {stream: 1MiB}}", [
            'w.yaml:4: transport.streams_per_connection: goes with http: "2"',
            'w.yaml:4: transport.windows: goes with http: "2"',
        ]),
        ("transport: {http: 2, read_spacing: 1ms}", [
            f"w.yaml:4: transport.read_spacing: {SPACING}",
        ]),
        ("transport: {http: 2, connections: per-stream, streams_per_connection: 5}", [
            "w.yaml:4: transport.streams_per_connection: goes with connections: as-needed or a number, not with per-stream",
        ]),
        ("transport: {http: 2, windows: {stream: 1024, connection: 64KB}}", [
            "w.yaml:4: transport.windows.stream: must be a size such as 64KiB or 1MiB, got 1024; add a unit: 1024KiB",
            "w.yaml:4: transport.windows.connection: must be at least 65535B, as large as it is from the start, got 64000B",
        ]),
        ("transport: {http: 2, windows: {stream: 2GiB}}", [
            "w.yaml:4: transport.windows.stream: must be from 1B to 2147483647B, got '2GiB'",
        ]),
    ],
)  # fmt: skip
def test_sections(section: str, messages: list[str]) -> None:
    assert sorted(complaints(HEAD + LOAD + section)) == sorted(messages)


@pytest.mark.parametrize(
    ("target", "messages"),
    [
        ("{}", ["w.yaml:2: target: needs url (where streams go) or sim (the simulated server)"]),
        ("{url: http://h/, sim: {}}", ["w.yaml:2: target: takes url or sim, not both; to override one, --set target.sim=null"]),
        ("http://h/", ["w.yaml:2: target: must be a mapping (key: value), got 'http://h/'"]),
        ("{url: 5}", ["w.yaml:2: target.url: must be text, got 5; put it in quotes"]),
        ("{url: 'ftp://h/'}", ["w.yaml:2: target.url: must begin with http:// or https://, got 'ftp://h/'"]),
        ("{url: 'http://u:hunter2@h/'}", ['w.yaml:2: target.url: must not hold a user or password: send them as a header, headers: {Authorization: "Bearer ${API_KEY}"}']),
        ("{url: http://h/, dialect: openai}", [f"w.yaml:2: target.dialect: must be one of {DIALECT_NAMES}, got 'openai'; did you mean openai-chat?"]),
        ("{url: http://h/, dialect: nonsense}", [f"w.yaml:2: target.dialect: must be one of {DIALECT_NAMES}, got 'nonsense'"]),
        ("{url: http://h/, model: ''}", ["w.yaml:2: target.model: must not be empty"]),
        ("{url: http://h/, metrics: {url: http://h/m}}", [f"w.yaml:2: target.metrics: {ELSEWHERE}"]),
        ("{url: http://h/, headers: [a]}", ["w.yaml:2: target.headers: must be a mapping (Name: value), got a list"]),
        ("{url: http://h/, headers: {Authorization: 31337, Connection: close, A: ' hunter2'}}", [
            "w.yaml:2: target.headers.Authorization: must be text: put it in quotes",
            "w.yaml:2: target.headers.Connection: is written by loadgen itself, from what it sends and how connections are used: leave it out",
            "w.yaml:2: target.headers.A: must not begin or end with spaces",
        ]),
        ("{sim: {prefil: {base: 1s}}}", ["w.yaml:2: target.sim.prefil: unknown key; did you mean prefill?"]),
        ("{sim: {prefill: {bas: 1s}}}", ["w.yaml:2: target.sim.prefill.bas: unknown key; did you mean base?"]),
        ("{sim: {ttft: 50}}", ["w.yaml:2: target.sim.ttft: must be a duration such as 250ms, 5s or 2m, got 50; add a unit: 50s"]),
        ("{sim: {jitter: 200%}}", ["w.yaml:2: target.sim.jitter: must be a share such as 10% or 0.1, from 0 to 1, got '200%'"]),
    ],
)  # fmt: skip
def test_targets(target: str, messages: list[str]) -> None:
    assert complaints(f"loadgen: 1\ntarget: {target}\n{LOAD}") == messages


@pytest.mark.parametrize(
    ("phase", "message"),
    [
        ("{hold: 5s, streams: 0}", "load.0.streams: must be at least 1, got 0"),
        ("{hold: 5s, streams: '5'}", "load.0.streams: must be a whole number, got '5'"),
        ("{hold: 5s, streams: true}", "load.0.streams: must be a whole number, got true"),
        ("{hold: 5s, streams: 1.5}", "load.0.streams: must be a whole number, got 1.5"),
        ("{hold: 5s, streams: }", "load.0.streams: must be a whole number, got nothing"),
        ("{hold: 5s, streams: [1, 5]}", "load.0.streams: must be one number; [from, to] is for a ramp"),
        ("{hold: 5s}", "load.0.streams: is missing: say how many streams, such as streams: 50, or [1, 400] in a ramp"),
        ("{ramp: 5s, streams: 5}", "load.0.streams: must be [from, to] in a ramp, such as [1, 5], got 5"),
        ("{ramp: 5s, streams: [5]}", "load.0.streams: must be two whole numbers [from, to], such as [1, 400]"),
        ("{ramp: 5s, streams: [1, true]}", "load.0.streams: must be two whole numbers [from, to], such as [1, 400]"),
        ("{ramp: 5s, streams: [1, 0]}", "load.0.streams: must be [from, to] with from at least 0 and to at least 1, got [1, 0]"),
        ("{ramp: 5s, streams: [-1, 5]}", "load.0.streams: must be [from, to] with from at least 0 and to at least 1, got [-1, 5]"),
        ("{hold: 0s, streams: 5}", "load.0.hold: must be more than 0, got '0s'"),
        ("{hold: 5, streams: 5}", "load.0.hold: must be a duration such as 250ms, 5s or 2m, got 5; add a unit: 5s"),
        ("{hold: 5s, ramp: 5s, streams: 5}", "load.0: must have exactly one of warmup, hold, ramp, capacity, got hold and ramp"),
        ("{streams: 5}", "load.0: must have exactly one of warmup, hold, ramp, capacity, got none"),
        ("{hodl: 5s, streams: 5}", "load.0.hodl: unknown key; did you mean hold?"),
        ("{capacity: {from: 10, to: 5000}}",
            'load.0.capacity: needs slo, such as ["ttft p99 < 2s"]: capacity is where one breaks'),
        ("{capacity: {from: 10, to: 5}}", "load.0.capacity: must have from at most to, got from 10 to 5"),
        ("{capacity: {to: 5}, streams: 5}",
            "load.0: takes capacity or streams, not both: the search chooses the streams, from and to bound it"),
        ("{warmup: 1s, streams: 2}, {capacity: {to: 5}}",
            "load.1.capacity: must be the only phase: each of its levels warms up by itself"),
        ("5", "load.0: must be a mapping (key: value), got 5"),
        ("{warmup: 5s, streams: 5}", "load: has warm-up only, so nothing would be measured: add a phase such as {hold: 60s, streams: 50}"),
    ],
)  # fmt: skip
def test_phases(phase: str, message: str) -> None:
    assert complaints(f"{HEAD}load: [{phase}]\n") == [f"w.yaml:3: {message}"]


def test_an_arrival_phase_is_one_of_a_later_version() -> None:
    assert complaints(f"{HEAD}load:\n- {{arrivals: 60s, rate: 20/s, process: poisson}}\n") == [
        f"w.yaml:4: load.0.{key}: {ELSEWHERE}" for key in ("arrivals", "rate", "process")
    ]


def test_all_problems_of_all_places_are_told_at_once_in_the_order_of_the_file() -> None:
    text = """\
loadgen: 2
target:
  url: ${URL}
  headers: {A: 5}
load:
  - {hold: 5, streams: 0}
  - {ramp: 5s, streams: [1, 5]}
limit: {streams: 1, streams: 2}
slo: [x p1 < 1s]
"""
    assert complaints(text, "seed=x") == [
        "w.yaml:1: loadgen: this loadgen reads format 1, got 2",
        "w.yaml:3: target.url: the environment variable URL is not set: export it, or give a default: ${URL:-...}",
        "w.yaml:4: target.headers.A: must be text: put it in quotes",
        "w.yaml:6: load.0.hold: must be a duration such as 250ms, 5s or 2m, got 5; add a unit: 5s",
        "w.yaml:6: load.0.streams: must be at least 1, got 0",
        "w.yaml:8: limit.streams: is given twice (first in line 8)",
        "w.yaml:9: slo.0: 'x' is no metric; there are ttft, service_ttft, first_event, first_answer, headers, connect, tls, itl, tpot, e2e, queue, stall, abort_to_server_stop, error_rate, goodput",
        "w.yaml: seed: must be a whole number, got 'x' (given by --set seed)",
    ]


def test_what_is_missing() -> None:
    assert complaints("seed: 1") == [
        "w.yaml: loadgen: is missing: begin the file with `loadgen: 1`, the version of its format",
        "w.yaml: target: is missing: say where streams go, such as target: {url: http://127.0.0.1:8000/v1/chat/completions}",
        "w.yaml: load: is missing: say how many streams for how long, such as load: [{hold: 60s, streams: 50}]",
    ]


def test_no_echo_of_a_value_that_could_not_be_made_out() -> None:
    """An unset url is told once: not again as a target without url, an unset name not as a name that is no text."""
    assert len(complaints(VALID.replace("http://127.0.0.1:8000/v1/chat/completions", '"${URL}"'))) == 1
    assert complaints(f"{VALID}name: ${{NAME}}\n") == [
        "w.yaml:4: name: the environment variable NAME is not set: export it, or give a default: ${NAME:-...}"
    ]


def test_a_shorthand_is_told_once() -> None:
    assert complaints(f"loadgen: 1\ntarget: {{sim: {{itl: x}}}}\n{LOAD}") == [
        "w.yaml:2: target.sim.itl: must be a duration such as 250ms, 5s or 2m, got 'x'"
    ]


@pytest.mark.parametrize("secret", ["sk-1", "sk-" + "1234567890" * 20])
@pytest.mark.parametrize("where", ["drain", "seed", "name", "limit", "slo"])
def test_values_of_secret_variables_are_never_shown(secret: str, where: str) -> None:
    value = "[ '${API_KEY} x' ]" if where == "slo" else "${API_KEY}/"
    (line,) = complaints(f"{VALID}{where}: {value}\n", env={"API_KEY": secret})
    assert secret[:4] not in line
    assert line.startswith(f"w.yaml:4: {where}")


def test_overrides_are_named() -> None:
    assert sorted(complaints(VALID, "load.0.streams=0", "timeouts.idle=5", "drian=5s")) == [
        "w.yaml: drian: unknown key; did you mean drain? (given by --set drian)",
        "w.yaml: load.0.streams: must be at least 1, got 0 (given by --set load.0.streams)",
        "w.yaml: timeouts.idle: must be a duration such as 250ms, 5s or 2m, got 5; add a unit: 5s (given by --set timeouts.idle)",
    ]

# ruff: noqa: E501 - a table row is one line: input and the exact message
from pathlib import Path

import pytest

from tests.support.workloads import VALID, workload

APPENDED = "target.url: is used as it is, nothing is appended: URLs of"
TLS_FAILS = "slo.0: tls will have no values, and the rule will fail: the target is not https"


def advice(text: str) -> list[str]:
    return [f"{warning.path}: {warning.message}" for warning in workload(text).warnings]


def test_nothing_to_say() -> None:
    assert advice(VALID) == []


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("limit: {streams: 2}", ["load.1.streams: asks for 3 streams, limit.streams lets 2 be open: the others wait"]),
        ("limit: {streams: 2, when_full: drop}", ["load.1.streams: asks for 3 streams, limit.streams lets 2 be open: the others are dropped and tried again"]),
        ("limit: {streams: 3}", []),
        ("transport: {connections: 2}", ["transport.connections: 2 connections for 3 streams: on HTTP/1.1 a connection carries one stream at a time, the others wait"]),
        ("transport: {connections: 3}", []),
        ("transport: {tls: {verify: false}}", ["transport.tls: has no effect: the target is not https"]),
        ("timeouts: {idle: 31s}", ["drain: 30s is shorter than timeouts.idle (31s): streams that hang at the end of the load are cut, not timed out"]),
        ("timeouts: {idle: 30s}", []),
        ("timeouts: {idle: null}", []),
        ("drain: 1s", []),  # the default of idle is nobody's wish
        ("slo: [tls p99 < 1s]", [TLS_FAILS]),
        ("slo: [abort_to_server_stop p99 < 1s]", ["slo.0: abort_to_server_stop will have no values, and the rule will fail: this workload aborts no streams"]),
        ("slo: [ttft p99 > 2s]", ["slo.0: asks for a high ttft: did you mean <?"]),
        ("slo: [ttft p99 >= 2s]", ["slo.0: asks for a high ttft: did you mean <=?"]),
        ("slo: [ttft min > 2ms]", []),
        ("slo: [error_rate > 2%]", ["slo.0: asks for a high error_rate: did you mean <?"]),
        ("slo: [goodput <= 95%]", ["slo.0: asks for a low goodput: did you mean >=?"]),
        ("slo: [error_rate < 0%]", ["slo.0: can never hold"]),
        ("slo: [goodput > 100%]", ["slo.0: can never hold"]),
        ("slo: [error_rate <= 0%, goodput >= 100%]", []),
    ],
)  # fmt: skip
def test_advice(section: str, said: list[str]) -> None:
    assert advice(f"{VALID}{section}\n") == said


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("{url: http://h}", ["target.url: is used as it is, nothing is appended: URLs of openai-chat usually end in /v1/chat/completions"]),
        ("{url: http://h/v1/}", ["target.url: is used as it is, nothing is appended: URLs of openai-chat usually end in /chat/completions"]),
        ("{url: http://h/v1?x=1}", ["target.url: is used as it is, nothing is appended: URLs of openai-chat usually end in /chat/completions"]),
        ("{url: http://h/my/own}", []),
        ("{url: http://h/, dialect: plain-sse}", []),
        ("{url: http://h/, dialect: plain-sse, model: m}", ["target.model: is not sent: plain-sse names no model"]),
        ("{url: http://h/, dialect: anthropic-messages}", [f"{APPENDED} anthropic-messages usually end in /v1/messages"]),
        ("{url: http://h/v1, dialect: openai-responses}", [f"{APPENDED} openai-responses usually end in /responses"]),
        ("{url: http://h/api, dialect: ollama}", [f"{APPENDED} ollama usually end in /chat"]),
        ("{url: http://h/api, dialect: tgi}", [f"{APPENDED} tgi usually end in /generate_stream"]),
        ("{url: http://h/, dialect: gemini}", [f"{APPENDED} gemini usually end in /v1beta/models/MODEL:streamGenerateContent?alt=sse"]),
        ("{url: 'http://h/m:streamGenerateContent', dialect: gemini}", ["target.url: has no alt=sse: Gemini then answers with one JSON array, which is no event stream"]),
        ("{url: 'http://h/m:streamGenerateContent?alt=sse&key=k', dialect: gemini, model: m}", ["target.model: is not sent: the URL names it"]),
        ("{url: http://h/x, dialect: tgi, model: m}", ["target.model: is not sent: a server of TGI has one"]),
        ("{url: http://h/, dialect: custom, custom: {text: /a}, model: m}", ["target.model: is not sent: target.custom.request names no place for it"]),
        ("{url: http://h/, dialect: custom, custom: {text: /a, request: {model: /m}}, model: m}", []),
        ("{sim: {}}", []),
        ("{sim: {}, model: m, headers: {A: b}}", [
            "target.headers: is not sent to the simulated server, it goes with target.url",
            "target.model: is not sent to the simulated server, it goes with target.url",
        ]),
    ],
)  # fmt: skip
def test_advice_about_targets(target: str, said: list[str]) -> None:
    assert advice(f"loadgen: 1\ntarget: {target}\nload: [{{warmup: 1s, streams: 1}}, {{hold: 1s, streams: 1}}]\n") == said


def test_advice_about_what_plain_sse_does_not_send() -> None:
    text = VALID.replace("target: {", "target: {dialect: plain-sse, ")
    assert advice(f"{text}requests: [{{weight: 1}}, {{prompt: a, max_tokens: 5}}]\n") == [
        "requests.1.max_tokens: is not sent: plain-sse makes a GET, or a POST of what body holds",
        "requests.1.prompt: is not sent: plain-sse makes a GET, or a POST of what body holds",
    ]


def test_advice_about_what_a_custom_request_has_no_place_for() -> None:
    def said(request: str) -> list[str]:
        text = VALID.replace("target: {", f"target: {{dialect: custom, custom: {{text: /a, request: {request}}}, ")
        return advice(f"{text}requests: [{{prompt: a, max_tokens: 5}}]\n")

    assert said("{}") == [
        "requests.0.max_tokens: is not sent: target.custom.request names no place for it",
        "requests.0.prompt: is not sent: target.custom.request names no place for it",
    ]
    assert said("{messages: /m, max_tokens: /n}") == []


def test_advice_about_anthropics_token_limit() -> None:
    text = VALID.replace("target: {", "target: {dialect: anthropic-messages, ")
    assert advice(f"{text}requests: [{{}}, {{max_tokens: null}}]\n") == [
        "requests.1.max_tokens: is null, and Anthropic refuses requests without max_tokens"
    ]


def test_advice_about_https() -> None:
    text = VALID.replace("http://", "https://") + "transport: {tls: {verify: false}}\nslo: [tls p99 < 1s]\n"
    assert advice(text) == []


def test_advice_about_a_certificate_that_nobody_looks_at(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----")
    text = VALID.replace("http://", "https://") + f"transport: {{tls: {{verify: false, ca: {tmp_path}/ca.pem}}}}\n"
    assert advice(text) == ["transport.tls.ca: has no effect: verify is false"]


def test_advice_about_a_missing_warmup() -> None:
    assert advice("loadgen: 1\ntarget: {sim: {}}\nload: [{hold: 1s, streams: 1}]\n") == [
        "load: has no warmup: the first streams meet cold connections and caches, and are measured"
    ]

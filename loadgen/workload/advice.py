"""What a valid workload says and probably does not mean. Told before the run, never a reason not to run."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from loadgen.model import Metric
from loadgen.workload.address import parse_url
from loadgen.workload.plan import PhaseKind, WhenFull
from loadgen.workload.slo import SloRule
from loadgen.workload.units import write_duration

if TYPE_CHECKING:
    from loadgen.workload.schema import Workload

Advice = tuple[tuple[str | int, ...], str]

# Of a base URL people mean the API below it.
_BASE_PATHS: Final = frozenset({"", "/v1", "/api", "/openai/v1"})
# Where the APIs of dialects usually are; capitals stand for a name.
_USUAL_PATHS: Final = {
    "openai-chat": "/v1/chat/completions",
    "openai-completions": "/v1/completions",
    "openai-responses": "/v1/responses",
    "anthropic-messages": "/v1/messages",
    "azure": "/openai/deployments/DEPLOYMENT/chat/completions?api-version=DATE",
    "gemini": "/v1beta/models/MODEL:streamGenerateContent?alt=sse",
    "llamacpp": "/completion",
    "mistral": "/v1/chat/completions",
    "ollama": "/api/chat",
    "ollama-generate": "/api/generate",
    "tgi": "/generate_stream",
    "triton": "/v2/models/MODEL/generate_stream",
}
# Dialects whose requests name no model.
_MODEL_ELSEWHERE: Final = {
    "plain-sse": "plain-sse names no model",
    "gemini": "the URL names it",
    "tgi": "a server of TGI has one",
    "triton": "the URL names it",
}
# The one rate of which more is better; of every latency less is.
_MORE_IS_BETTER: Final = frozenset({"goodput"})


def find_warnings(workload: "Workload") -> list[Advice]:
    """Each as (path, message)."""
    return [
        *_about_target(workload),
        *_about_transport(workload),
        *_about_requests(workload),
        *_about_load(workload),
        *_about_drain(workload),
        *(advice for index, rule in enumerate(workload.slo) for advice in _about_rule(workload, index, rule)),
    ]


def _about_target(workload: "Workload") -> Iterator[Advice]:
    target = workload.target
    if target.sim is not None:
        for key in ("headers", "model"):
            if getattr(target, key):
                yield ("target", key), "is not sent to the simulated server, it goes with target.url"
        return
    assert target.url is not None
    path, _, query = parse_url(target.url).path.partition("?")
    usual = _USUAL_PATHS.get(target.dialect)
    if usual is not None and (base := path.rstrip("/")) in _BASE_PATHS:
        if (version := base[base.rfind("/") :]) and usual.startswith(f"{version}/"):
            usual = usual.removeprefix(version)
        yield ("target", "url"), f"is used as it is, nothing is appended: URLs of {target.dialect} usually end in {usual}"
    elif target.dialect == "gemini" and "alt=sse" not in query.split("&"):
        yield ("target", "url"), "has no alt=sse: Gemini then answers with one JSON array, which is no event stream"
    if target.model and target.dialect in _MODEL_ELSEWHERE:
        yield ("target", "model"), f"is not sent: {_MODEL_ELSEWHERE[target.dialect]}"


def _about_transport(workload: "Workload") -> Iterator[Advice]:
    transport, target = workload.transport, workload.target
    most = _most_streams(workload)
    places = transport.streams_per_connection or 1
    if isinstance(transport.connections, int) and transport.connections * places < most:
        each = "one stream" if places == 1 else f"{places} streams"
        message = (
            f"{transport.connections} connections for {most} streams: on HTTP/{transport.http} a connection carries "
            f"{each} at a time, the others wait"
        )
        yield ("transport", "connections"), message
    if target.url is None or parse_url(target.url).scheme == "http":
        if transport.tls.model_fields_set:
            yield ("transport", "tls"), "has no effect: the target is not https"
    elif not transport.tls.verify and transport.tls.ca is not None:
        yield ("transport", "tls", "ca"), "has no effect: verify is false"


def _about_requests(workload: "Workload") -> Iterator[Advice]:
    for index, request in enumerate(workload.requests):
        given = {"prompt", "max_tokens"} & request.model_fields_set
        for key in sorted(given & _not_sent(workload)):
            yield ("requests", index, key), f"is not sent: {_WHY_NOT_SENT[workload.target.dialect]}"
        if workload.target.dialect == "anthropic-messages" and "max_tokens" in given and request.max_tokens is None:
            yield ("requests", index, "max_tokens"), "is null, and Anthropic refuses requests without max_tokens"
    if workload.target.custom is not None and workload.target.model and workload.target.custom.request.model is None:
        yield ("target", "model"), f"is not sent: {_WHY_NOT_SENT['custom']}"


_WHY_NOT_SENT: Final = {
    "plain-sse": "plain-sse makes a GET, or a POST of what body holds",
    "custom": "target.custom.request names no place for it",
}


def _not_sent(workload: "Workload") -> set[str]:
    custom = workload.target.custom
    if custom is None:
        return {"prompt", "max_tokens"} if workload.target.dialect == "plain-sse" else set()
    asked = custom.request
    return {
        *({"prompt"} if asked.prompt is None and asked.messages is None else ()),
        *({"max_tokens"} if asked.max_tokens is None else ()),
    }


def _about_load(workload: "Workload") -> Iterator[Advice]:
    searches = workload.load[-1].capacity is not None  # each of its levels warms up
    if not searches and not any(phase.kind is PhaseKind.WARMUP for phase in workload.load):
        yield ("load",), "has no warmup: the first streams meet cold connections and caches, and are measured"
    limit = workload.limit
    if limit is None:
        return
    for index, phase in enumerate(workload.load):
        plan = phase.to_phase(index)
        if (asked := max(plan.streams_from, plan.streams_to)) > limit.streams:
            surplus = "wait" if limit.when_full is WhenFull.QUEUE else "are dropped and tried again"
            yield (
                ("load", index, "streams"),
                f"asks for {asked} streams, limit.streams lets {limit.streams} be open: the others {surplus}",
            )


def _about_drain(workload: "Workload") -> Iterator[Advice]:
    idle = workload.timeouts.idle
    if "idle" in workload.timeouts.model_fields_set and idle is not None and workload.drain < idle:
        message = (
            f"{write_duration(workload.drain)} is shorter than timeouts.idle ({write_duration(idle)}): streams that "
            "hang at the end of the load are cut, not timed out"
        )
        yield ("drain",), message


def _about_rule(workload: "Workload", index: int, rule: SloRule) -> Iterator[Advice]:
    path = ("slo", index)
    plain = workload.target.url is None or parse_url(workload.target.url).scheme == "http"
    if rule.metric is Metric.ABORT_TO_SERVER_STOP or (rule.metric is Metric.TLS and plain):
        why = "the target is not https" if rule.metric is Metric.TLS else "this workload aborts no streams"
        yield path, f"{rule.metric} will have no values, and the rule will fail: {why}"
    wants_more = rule.op in {">", ">="}
    if wants_more is not (rule.rate in _MORE_IS_BETTER) and rule.statistic != "min":
        other = rule.op.replace(">", "<") if wants_more else rule.op.replace("<", ">")
        name = rule.rate or rule.metric
        yield path, f"asks for a {'high' if wants_more else 'low'} {name}: did you mean {other}?"
    if (rule.op == "<" and rule.bound == 0) or (rule.op == ">" and rule.rate is not None and rule.bound == 1):
        yield path, "can never hold"


def _most_streams(workload: "Workload") -> int:
    phases = [phase.to_phase(index) for index, phase in enumerate(workload.load)]
    asked = max(max(phase.streams_from, phase.streams_to) for phase in phases)
    return asked if workload.limit is None else min(asked, workload.limit.streams)

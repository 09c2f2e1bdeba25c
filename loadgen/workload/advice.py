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
    elif target.url is not None and target.dialect == "openai-chat":
        path = parse_url(target.url).path.partition("?")[0].rstrip("/")
        if path in _BASE_PATHS:
            usual = f"{'' if path.endswith('v1') else '/v1'}/chat/completions"
            yield ("target", "url"), f"is used as it is, nothing is appended: chat completions usually end in {usual}"


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
    if workload.target.dialect != "plain-sse":
        return
    for index, request in enumerate(workload.requests):
        for key in sorted({"prompt", "max_tokens"} & request.model_fields_set):
            yield ("requests", index, key), "is not sent: plain-sse makes a GET, or a POST of what body holds"
    if workload.target.url is not None and workload.target.model:
        yield ("target", "model"), "is not sent: plain-sse names no model"


def _about_load(workload: "Workload") -> Iterator[Advice]:
    if not any(phase.kind is PhaseKind.WARMUP for phase in workload.load):
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

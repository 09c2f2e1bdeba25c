"""The series of a run: what is exported is what the summary says, and what the dashboard asks for exists."""

import json
import re
import subprocess
import threading
import urllib.error
import urllib.request
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from loadgen import api
from loadgen.clock import NS_PER_S
from loadgen.engine.watch import Progress
from loadgen.errors import OutputError
from loadgen.model import Outcome
from loadgen.report.prometheus import ITL_BUCKETS, TTFT_BUCKETS, PrometheusExporter, parse_listen, serving
from loadgen.workload.loader import loads
from loadgen.workload.plan import Phase, PhaseKind
from tests.support.records import LiveRecorder, completed, failed, ms
from tests.support.servers import need, prometheus

DASHBOARD = json.loads((Path(__file__).parents[2] / "reports" / "grafana" / "loadgen.json").read_text())
PHASES = [
    Phase(index=0, kind=PhaseKind.WARMUP, duration_ns=NS_PER_S, streams_from=2, streams_to=2),
    Phase(index=1, kind=PhaseKind.HOLD, duration_ns=9 * NS_PER_S, streams_from=4, streams_to=4),
]
PROGRESS = Progress(phase=PHASES[1], elapsed_s=1, left_s=1, open=3, asked=4)
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scrape(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as answer:
        text: str = answer.read().decode()
    return text


def samples_of(text: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


def exporter_of(*recorders: LiveRecorder) -> PrometheusExporter:
    exporter = PrometheusExporter("chat")
    for recorder in recorders:
        exporter.on_interval(recorder.flush(2 * NS_PER_S, open_streams=3), PROGRESS, recorder)
    return exporter


def recorder_of(variant: str = "") -> LiveRecorder:
    recorder = LiveRecorder(PHASES, [], 0, None)
    recorder.variant = variant
    recorder.live(completed(0, phase=0, measured=False, ttft_ms=9_000), [ms(900)])
    for number, ttft in enumerate((4, 5, 250, 59_000, 61_000), 1):
        recorder.live(completed(number, phase=1, ttft_ms=ttft), [ms(20), ms(30)])
    recorder.live(failed(9, Outcome.RESET, phase=1))
    return recorder


def exported(exporter: PrometheusExporter) -> Samples:
    return samples_of(text_of(exporter))


def text_of(exporter: PrometheusExporter) -> str:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(exporter)
    text: str = generate_latest(registry).decode()
    return text


def test_what_is_exported_is_what_was_recorded() -> None:
    recorder = recorder_of()
    recorder.read_lag.record_many([40_000, 3_000_000])
    found = exported(exporter_of(recorder))
    assert value(found, "loadgen_open_streams") == 3
    assert value(found, "loadgen_asked_streams") == 4
    assert value(found, "loadgen_streams_started_total", variant="") == 7
    for outcome, measured, count in (
        ("completed", "true", 5),
        ("reset", "true", 1),
        ("completed", "false", 1),
        ("cut", "true", 0),
    ):
        assert value(found, "loadgen_streams_total", variant="", outcome=outcome, measured=measured) == count
    bounds = {"0.005": 2, "0.2": 2, "0.3": 3, "60.0": 4, "+Inf": 5}
    for bound, count in bounds.items():
        assert value(found, "loadgen_ttft_seconds_bucket", variant="", le=bound) == count, bound
    assert value(found, "loadgen_ttft_seconds_count", variant="") == 5
    assert value(found, "loadgen_ttft_seconds_sum", variant="") == pytest.approx(0.004 + 0.005 + 0.25 + 59 + 61)
    assert value(found, "loadgen_itl_seconds_bucket", variant="", le="0.02") == 5
    assert value(found, "loadgen_itl_seconds_bucket", variant="", le="0.03") == 10
    assert value(found, "loadgen_read_lag_seconds_bucket", variant="", le="5e-05") == 1
    assert value(found, "loadgen_read_lag_seconds_count", variant="") == 2


def test_recorders_of_one_variant_add_up_and_variants_stand_side_by_side() -> None:
    exporter = exporter_of(recorder_of("direct"), recorder_of("nginx"), recorder_of("direct"))
    found = exported(exporter)
    assert value(found, "loadgen_ttft_seconds_count", variant="direct") == 10
    assert value(found, "loadgen_ttft_seconds_count", variant="nginx") == 5


def test_counters_never_fall_and_the_end_takes_what_came_last() -> None:
    recorder = recorder_of()
    exporter = exporter_of(recorder)
    recorder.live(completed(20, phase=1), [ms(20)])
    recorder.flush(3 * NS_PER_S, open_streams=0)  # at the edge of a phase: nobody is told
    exporter.finish()
    found = exported(exporter)
    assert value(found, "loadgen_ttft_seconds_count", variant="") == 6
    assert value(found, "loadgen_open_streams") == 0


def test_buckets_cover_what_ttft_and_itl_are() -> None:
    assert (TTFT_BUCKETS[0], TTFT_BUCKETS[-1]) == (0.005, 60.0)
    assert (ITL_BUCKETS[0], ITL_BUCKETS[-1]) == (0.001, 5.0)
    for buckets in (TTFT_BUCKETS, ITL_BUCKETS):
        assert list(buckets) == sorted(set(buckets))
        assert max(b / a for a, b in pairwise(buckets)) <= 2.5


@pytest.mark.parametrize(
    ("text", "address"),
    [("9400", ("127.0.0.1", 9400)), (":0", ("127.0.0.1", 0)), ("0.0.0.0:9400", ("0.0.0.0", 9400)), ("[::1]:1", ("::1", 1))],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_listen(text) == address


@pytest.mark.parametrize("text", ["", "x", "127.0.0.1", "127.0.0.1:99999", "::1:9400", "http://x:9400", "a:-1"])
def test_no_addresses(text: str) -> None:
    with pytest.raises(ValueError, match="must be HOST:PORT or a port"):
        parse_listen(text)


@pytest.mark.net
@pytest.mark.slow
def test_a_port_that_is_taken_is_told_in_one_sentence_and_freed_afterwards() -> None:
    exporter = PrometheusExporter("x")
    with serving(exporter, "127.0.0.1", 0) as url:
        port = int(url.split(":")[2].split("/")[0])
        with pytest.raises(OutputError, match=f"cannot serve metrics on 127.0.0.1 port {port}: Address already in use"):
            serving(exporter, "127.0.0.1", port).__enter__()
    with pytest.raises(urllib.error.URLError):
        scrape(url)
    assert not [thread for thread in threading.enumerate() if "serve_forever" in thread.name]


@pytest.mark.net
def test_prometheus_own_linter_has_nothing_to_say() -> None:
    text = text_of(exporter_of(recorder_of()))
    done = subprocess.run(
        [need("promtool"), "check", "metrics"], input=text, text=True, capture_output=True, timeout=10, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


# ---- the dashboard


def expressions() -> list[str]:
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def test_the_dashboard_asks_for_what_is_exported_and_all_of_it() -> None:
    found = exported(exporter_of(recorder_of()))
    labels: dict[str, set[str]] = {}
    for name, pairs in found:
        labels.setdefault(name, {"instance", "job"}).update(label for label, _ in pairs)
    queries = [*expressions(), *(v["definition"] for v in DASHBOARD["templating"]["list"] if v["type"] == "query")]
    asked: set[str] = set()
    for query in queries:
        for name, matchers in re.findall(r"(loadgen_\w+)(?:\{([^}]*)\})?", query):
            assert name in labels, query
            assert set(re.findall(r"(\w+)[=!]~?", matchers)) <= labels[name], query
            asked.add(name)
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in labels}
    assert families == {re.sub(r"_bucket$", "", name) for name in asked}


def test_the_dashboard_is_whole() -> None:
    """What Grafana needs to load it without being asked for anything: ids, places, variables, no data source of ours."""
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells), "panels lie on each other"
    assert max(x for x, _ in cells) < 24
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    text = json.dumps(DASHBOARD)
    assert set(re.findall(r"\$\{?(\w+)", text)) <= variables | {"__rate_interval", "__all"}
    assert set(re.findall(r'"uid": "([^"]*)"', text)) == {"loadgen-live", "${datasource}"}
    assert "__inputs" not in DASHBOARD  # would ask at import and break provisioning
    assert DASHBOARD["schemaVersion"] >= 36
    assert "id" not in DASHBOARD
    for panel in panels:
        assert panel["title"]
        assert panel["description"]
        refs = [target["refId"] for target in panel["targets"]]
        assert len(set(refs)) == len(refs)


# ---- a real Prometheus


def query(api_url: str, expression: str) -> list[dict[str, Any]]:
    for variable, text in (("$__rate_interval", "4s"), ("$instance", ".*"), ("$variant", ".*")):
        expression = expression.replace(variable, text)
    request = urllib.request.Request(f"{api_url}/api/v1/query", data=f"query={urllib.request.quote(expression)}".encode())
    found = json.loads(scrape_request(request))
    assert found["status"] == "success", expression
    result: list[dict[str, Any]] = found["data"]["result"]
    return result


def scrape_request(request: urllib.request.Request) -> bytes:
    with urllib.request.urlopen(request, timeout=5) as answer:
        body: bytes = answer.read()
    return body


@pytest.mark.net
@pytest.mark.slow
def test_a_real_prometheus_scrapes_a_run_and_every_panel_has_data(tmp_path: Path) -> None:
    need("prometheus")
    workload = loads(
        "loadgen: 1\nname: scraped\ntarget: {sim: {ttft: 60ms, itl: 10ms}}\nrequests: [{max_tokens: 8}]\n"
        "load: [{warmup: 1s, streams: 4}, {hold: 5s, streams: 4}]\ndrain: 3s\n"
    )
    exporter = PrometheusExporter(workload.name)
    with serving(exporter, "127.0.0.1", 0) as url:
        with prometheus(url.split("/")[2], tmp_path) as api_url:
            result = api.run(workload, out=tmp_path / "run", observer=exporter)
            empty = [expression for expression in expressions() if not query(api_url, expression)]
            exporter.finish()
            info = query(api_url, "loadgen_run_info")
            p50 = query(api_url, "histogram_quantile(0.5, sum by (le) (loadgen_ttft_seconds_bucket))")
            scraped = query(api_url, 'sum(loadgen_streams_total{measured="true"})')
            up = query(api_url, "min_over_time(up[1m])")
        final = samples_of(scrape(url))
    assert empty == []
    assert info[0]["metric"]["name"] == "scraped"
    assert up[0]["value"][1] == "1"
    assert 0.04 < float(p50[0]["value"][1]) < 0.15
    summary = result.summary
    started = summary["streams"]["started"]
    assert 0 < float(scraped[0]["value"][1]) <= started
    assert value(final, "loadgen_ttft_seconds_count", variant="") == summary["metrics"]["ttft"]["count"]
    assert value(final, "loadgen_itl_seconds_count", variant="") == summary["metrics"]["itl"]["count"]
    assert value(final, "loadgen_itl_seconds_sum", variant="") * 1000 == pytest.approx(
        summary["metrics"]["itl"]["mean_ms"] * summary["metrics"]["itl"]["count"]
    )
    for outcome, count in summary["streams"]["outcomes"].items():
        assert value(final, "loadgen_streams_total", variant="", outcome=outcome, measured="true") == count
    assert value(final, "loadgen_read_lag_seconds_count", variant="") == summary["generator"]["read_lag"]["count"]

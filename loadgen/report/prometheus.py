"""Live Prometheus metrics of a run, at ``/metrics`` on a port of its own.

The series are made anew once a second, in the run's own thread, from what the recorder holds: histograms from its HDR counts,
so that they say what the summary will say. A scrape only writes the latest ones down.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from loadgen import __version__
from loadgen.clock import NS_PER_S
from loadgen.engine.watch import Progress
from loadgen.errors import OutputError
from loadgen.model import Metric as Latency
from loadgen.model import Outcome
from loadgen.record.hdr import Hdr
from loadgen.record.recorder import Interval, Recorder
from loadgen.workload.plan import Target

# Seconds. Each bound is at most 2.5 times the one before, and closer where limits are usually drawn.
TTFT_BUCKETS: Final = (
    0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 20.0,
    30.0, 60.0,
)  # fmt: skip
ITL_BUCKETS: Final = (
    0.001, 0.002, 0.004, 0.006, 0.008, 0.01, 0.0125, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5,
    1.0, 2.0, 5.0,
)  # fmt: skip
LAG_BUCKETS: Final = (0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5)
_LISTEN: Final = re.compile(r"(?:(?P<host>[^:\[\]]+|\[[0-9A-Fa-f:.]+\])?:)?(?P<port>[0-9]{1,5})")
LOOPBACK: Final = "127.0.0.1"


class PrometheusExporter(Collector):
    """An observer that keeps the series of a run; ``collect`` may be called from any thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._target = ""
        self._recorders: list[Recorder] = []  # a search has one a level, variants have one each
        self._progress: Progress | None = None
        self._families: list[Metric] = []
        self._build()

    def collect(self) -> Iterator[Metric]:
        yield from self._families  # replaced as a whole, never changed

    def on_target(self, target: Target) -> None:
        self._target = target.url
        self._build()

    def on_interval(self, interval: Interval, progress: Progress, recorder: Recorder) -> None:  # noqa: ARG002 - an observer's
        if not any(recorder is known for known in self._recorders):
            self._recorders.append(recorder)
        self._progress = progress
        self._build()

    def on_draining(self, open_streams: int, drain_ns: int) -> None: ...

    def on_interrupt(self, open_streams: int) -> None: ...

    def on_level(self, words: str) -> None: ...

    def finish(self) -> None:
        """The run is over: take what came after its last whole second."""
        self._progress = None
        self._build()

    def _build(self) -> None:
        """About 0.5 ms for each recorder."""
        variants = list(dict.fromkeys(recorder.variant for recorder in self._recorders))
        info = GaugeMetricFamily("loadgen_run_info", "What runs; always 1.", labels=["name", "target", "version"])
        info.add_metric([self._name, self._target, __version__], 1)
        progress = self._progress
        open_streams = GaugeMetricFamily("loadgen_open_streams", "Streams open now.", 0 if progress is None else progress.open)
        asked = GaugeMetricFamily("loadgen_asked_streams", "Streams asked for now.", 0 if progress is None else progress.asked)
        started = CounterMetricFamily("loadgen_streams_started", "Streams started.", labels=["variant"])
        ended = CounterMetricFamily(
            "loadgen_streams",
            "Streams that ended, by outcome; measured: not of a warm-up.",
            labels=["variant", "outcome", "measured"],
        )
        events = CounterMetricFamily("loadgen_output_events", "Output events that arrived, warm-up too.", labels=["variant"])
        ttft = _histogram("loadgen_ttft_seconds", "Intended start to first token, measured streams.")
        itl = _histogram("loadgen_itl_seconds", "Gap between output events, measured streams, all pooled.")
        lag = _histogram("loadgen_read_lag_seconds", "How much later than the kernel the generator looked at its reads.")
        for variant in variants:
            recorders = [recorder for recorder in self._recorders if recorder.variant == variant]
            started.add_metric([variant], sum(phase.started for recorder in recorders for phase in recorder.phases))
            for measured in (True, False):
                outcomes = sum((recorder.outcomes(measured=measured) for recorder in recorders), Counter[Outcome]())
                for outcome in Outcome:
                    ended.add_metric([variant, outcome, str(measured).lower()], outcomes[outcome])
            events.add_metric([variant], sum(row.output_events for recorder in recorders for row in recorder.intervals))
            _add(ttft, variant, _metric(recorders, Latency.TTFT), TTFT_BUCKETS)
            _add(itl, variant, _metric(recorders, Latency.ITL), ITL_BUCKETS)
            _add(lag, variant, _sum([recorder.read_lag for recorder in recorders]), LAG_BUCKETS)
        self._families = [info, open_streams, asked, started, ended, events, ttft, itl, lag]


def parse_listen(text: str) -> tuple[str, int]:
    """Host and port of ``127.0.0.1:9400``, ``[::1]:0`` or ``9400``, which is on loopback. ValueError: anything else."""
    match = _LISTEN.fullmatch(text.strip())
    if match is None or int(match["port"]) > 65_535:
        raise ValueError(f"must be HOST:PORT or a port, such as {LOOPBACK}:9400; port 0 takes a free one; got {text!r}")
    return (match["host"] or LOOPBACK).strip("[]"), int(match["port"])


@contextmanager
def serving(exporter: PrometheusExporter, host: str, port: int) -> Iterator[str]:
    """Serves the series while the block runs; gives the URL. Raises OutputError when the address cannot be had."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(exporter)
    try:
        server, thread = start_http_server(port, host, registry)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OutputError(f"cannot serve metrics on {host} port {port}: {reason}") from None
    try:
        yield _url_of(server)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _url_of(server: WSGIServer) -> str:
    host, port = server.server_address[:2]
    return f"http://[{host!s}]:{port}/metrics" if ":" in str(host) else f"http://{host!s}:{port}/metrics"


def _histogram(name: str, meaning: str) -> HistogramMetricFamily:
    return HistogramMetricFamily(name, meaning, labels=["variant"])


def _add(family: HistogramMetricFamily, variant: str, hdr: Hdr, bounds_s: Sequence[float]) -> None:
    counts = hdr.counts_up_to([round(bound * NS_PER_S) for bound in bounds_s])
    buckets = [(str(bound), count) for bound, count in zip(bounds_s, counts, strict=True)]
    family.add_metric([variant], [*buckets, ("+Inf", hdr.count)], hdr.total / NS_PER_S)


def _metric(recorders: Sequence[Recorder], metric: Latency) -> Hdr:
    """Of all phases; those of a warm-up have none."""
    return _sum([phase.metrics[metric] for recorder in recorders for phase in recorder.phases if metric in phase.metrics])


def _sum(hdrs: Sequence[Hdr]) -> Hdr:
    total = Hdr()
    for hdr in hdrs:
        total.add(hdr)
    return total

"""The simulated server's own counters as Prometheus text, under vLLM's names where vLLM has one."""

from typing import TYPE_CHECKING

from loadgen.sim.scheduler import State

if TYPE_CHECKING:
    from loadgen.sim.server import SimServer


def format_metrics(server: "SimServer") -> str:
    """The text of /metrics."""
    scheduler = server.scheduler
    lines = [
        _gauge("vllm:num_requests_running", "Streams in the batch.", len(scheduler.running)),
        _gauge("vllm:num_requests_waiting", "Streams that wait for a place.", len(scheduler.waiting)),
        _gauge("vllm:kv_cache_usage_perc", "KV blocks in use, 0 to 1.", scheduler.blocks_used / server.script.kv.blocks),
        _counter("vllm:generation_tokens_total", "Tokens generated.", scheduler.generated_tokens),
        _counter("vllm:prompt_tokens_total", "Prompt tokens prefilled.", scheduler.prompt_tokens),
        _counter(
            'vllm:request_success_total{finished_reason="length"}', "Streams that finished.",
            server.finished[State.FINISHED],
        ),
        _counter("loadgen_sim_aborts_total", "Streams whose client left.", server.finished[State.ABORTED]),
        _gauge("loadgen_sim_open_streams", "Streams running or waiting.", scheduler.open),
        _gauge("loadgen_sim_max_open_streams", "The most of them at once.", server.max_open),
    ]  # fmt: skip
    return "".join(lines)


def _gauge(name: str, meaning: str, value: float) -> str:
    return _sample(name, meaning, "gauge", value)


def _counter(name: str, meaning: str, value: float) -> str:
    return _sample(name, meaning, "counter", value)


def _sample(name: str, meaning: str, kind: str, value: float) -> str:
    family = name.partition("{")[0]
    return f"# HELP {family} {meaning}\n# TYPE {family} {kind}\n{name} {value:g}\n"

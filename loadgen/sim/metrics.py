"""The simulated server's own counters as Prometheus text, under vLLM's names where vLLM has one."""

from loadgen.sim.delivery import Delivery
from loadgen.sim.scheduler import State
from loadgen.workload.sim_script import SimScript


def format_metrics(delivery: Delivery, script: SimScript) -> str:
    """The text of /metrics (exposition format 0.0.4)."""
    scheduler = delivery.scheduler
    usage = scheduler.blocks_used / script.kv.blocks
    samples = [
        ("vllm:num_requests_running", "gauge", "Streams in the batch.", len(scheduler.running)),
        ("vllm:num_requests_waiting", "gauge", "Streams that wait for a place.", len(scheduler.waiting)),
        ("vllm:kv_cache_usage_perc", "gauge", "KV blocks held, 1 means all.", usage),
        ("vllm:generation_tokens_total", "counter", "Tokens made.", scheduler.generated_tokens),
        ("vllm:prompt_tokens_total", "counter", "Prompt tokens of admitted streams.", scheduler.prompt_tokens),
        (
            'vllm:request_success_total{finished_reason="length"}', "counter", "Streams that finished.",
            delivery.ended[State.FINISHED],
        ),
        ("loadgen_sim_aborts_total", "counter", "Streams whose client left.", delivery.ended[State.ABORTED]),
        ("loadgen_sim_faults_total", "counter", "Streams that a scripted fault ended.", delivery.ended[State.FAULT]),
        ("loadgen_sim_rejected_total", "counter", "Streams answered 429.", delivery.rejected),
        ("loadgen_sim_open_streams", "gauge", "Streams running or waiting.", scheduler.open),
        ("loadgen_sim_max_open_streams", "gauge", "The most of them at once.", delivery.max_open),
    ]  # fmt: skip
    return "".join(map(_format_sample, samples))


def _format_sample(sample: tuple[str, str, str, float]) -> str:
    name, kind, meaning, value = sample
    family = name.partition("{")[0]
    return f"# HELP {family} {meaning}\n# TYPE {family} {kind}\n{name} {value}\n"

"""Load tester for concurrent token streams: TTFT, inter-token latency, aborts and concurrent-stream capacity.

import loadgen
result = loadgen.run("workloads/quickstart.yaml")
print(result.summary["metrics"]["ttft"]["p99_ms"])
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loadgen.api import RunResult, load, run
    from loadgen.workload.schema import Workload

__version__ = "0.1.0"
__all__ = ["RunResult", "Workload", "__version__", "load", "run"]


def __getattr__(name: str) -> Any:
    """The public names, imported when first used: ``import loadgen.wire.sse`` should not load the engine."""
    if name == "Workload":
        from loadgen.workload.schema import Workload  # noqa: PLC0415

        return Workload
    if name in __all__:
        from loadgen import api  # noqa: PLC0415

        return getattr(api, name)
    raise AttributeError(f"module 'loadgen' has no attribute {name!r}")

"""What a run's processes say to each other: pickled over a socket pair, both ends of one version on one machine."""

from dataclasses import dataclass
from pathlib import Path

from loadgen.engine.watch import Progress
from loadgen.record.collector import Batch
from loadgen.record.health import GeneratorHealth
from loadgen.workload.plan import Plan

# ---- to a worker, in this order: Job, Go, then any number of STOP


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """``plan`` is the worker's part, its target known; finished streams go to the journal at ``journal``."""

    plan: Plan
    journal: Path


@dataclass(frozen=True, slots=True)
class Go:
    """Begin when CLOCK_MONOTONIC, which all processes of a machine share, shows ``at_ns``."""

    at_ns: int


STOP = "stop"  # as Ctrl-C: the first one drains, the second one cuts

# ---- from a worker: READY, any number of Gathered and Draining, then Done

READY = "ready"


@dataclass(frozen=True, slots=True)
class Gathered:
    batch: Batch
    progress: Progress | None


@dataclass(frozen=True, slots=True)
class Draining:
    open_streams: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    health: GeneratorHealth
    duration_ns: int
    unreachable: str

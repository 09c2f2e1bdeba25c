"""The generator's own health: what it measured of itself, and whether the run may be believed.

Bounds, and why they stand where they stand:

- concurrency: fewer than 95 % of the streams asked for, on average, is another load than the one in the report.
- lateness: the part of TTFT that the generator itself added before the request was out (start late, connect noticed late).
  More than 10 ms (or 5 % of the TTFT p50, if that is more) is visible in the figures.
- loop lag: the same bound, where TLS handshakes took several turns of the loop and nobody stamped them for us. Without TLS
  a late loop delays nothing that counts, and is only remarked.

Both count only when more than 1 % of the samples, and at least five of them, are out of bounds: one hiccup of a busy
machine is no verdict on a run.

- read lag with user stamps: lag is error there; 10 % of the typical gap is where ITL percentiles stop being true.
- bounded stamps: with kernel stamps a late loop costs nothing until two events of a socket wait together. More than 5 %
  of such events *and* more than 5 % of the reads later than 5 ms mean that this side was the one that was late. Bounded
  stamps with little lag mean that the other side sent bursts, which is a finding (bunching), not a fault.
"""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from loadgen.clock import NS_PER_MS
from loadgen.model import Metric, StampQuality
from loadgen.record.hdr import Hdr
from loadgen.record.results import Results

MIN_CONCURRENCY_SHARE: Final = 0.95
MAX_LATENESS_NS: Final = 10 * NS_PER_MS
MAX_LATENESS_SHARE: Final = 0.05
MAX_LATE_SHARE: Final = 0.01
MIN_LATE_SAMPLES: Final = 5
MAX_LAG_SHARE: Final = 0.10
MAX_BOUNDED_SHARE: Final = 0.05
MAX_BOUNDED_LAG_NS: Final = 5 * NS_PER_MS
LATE_LOOP_NS: Final = 5 * NS_PER_MS  # worth a remark even where the stamps are sound


_LEVELS: Final = ("concurrency_mean", "concurrency_mean_asked")


@dataclass(slots=True, kw_only=True)
class GeneratorHealth:
    """What the generator knows of itself, all times in ns.

    ``read_lag``: user stamp - kernel stamp of each read. ``lateness``: actual - intended start, plus connects noticed late.
    ``loop_lag``: how late a task that is due was woken, sampled. ``bounded_width``: how far before its stamp a bounded event
    may have arrived.
    """

    read_lag: Hdr = field(default_factory=Hdr)
    lateness: Hdr = field(default_factory=Hdr)
    loop_lag: Hdr = field(default_factory=Hdr)
    bounded_width: Hdr = field(default_factory=Hdr)
    gc_pauses: Hdr = field(default_factory=Hdr)
    reads: int = 0
    unstamped_reads: int = 0
    clock_steps: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    concurrency_asked: int = 0
    concurrency_mean_asked: float = 0.0
    concurrency_mean: float = 0.0
    concurrency_max: int = 0
    processes: int = 1
    local_failure: str = ""  # a limit of this machine that kept streams from connecting
    lost: list[str] = field(default_factory=list)  # generator processes that died, in words

    def merge(self, other: "GeneratorHealth") -> None:
        """Add another process of the same run. The sum of maxima bounds the most streams open at once from above."""
        for name in ("read_lag", "lateness", "loop_lag", "bounded_width", "gc_pauses"):
            getattr(self, name).add(getattr(other, name))
        for name in (
            "reads", "unstamped_reads", "clock_steps", "cpu_s",
            "concurrency_asked", "concurrency_mean_asked", "concurrency_mean", "concurrency_max",
        ):  # fmt: skip
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.wall_s = max(self.wall_s, other.wall_s)
        self.local_failure = self.local_failure or other.local_failure

    def follow(self, other: "GeneratorHealth") -> None:
        """Add a later round of the same load: what is a level is averaged over time, what is a sum is added."""
        before_s, more_s = self.wall_s, other.wall_s
        mine = {name: getattr(self, name) for name in _LEVELS}
        highest = max(self.concurrency_asked, other.concurrency_asked), max(self.concurrency_max, other.concurrency_max)
        self.merge(other)
        self.wall_s = before_s + more_s
        for name, value in mine.items():
            setattr(self, name, (value * before_s + getattr(other, name) * more_s) / self.wall_s if self.wall_s else 0.0)
        self.concurrency_asked, self.concurrency_max = highest
        self.processes = max(self.processes, other.processes)
        self.lost += other.lost

    @contextmanager
    def watching_gc(self) -> Iterator[None]:
        """Record the collector's pauses meanwhile."""
        began_ns = 0

        def note(when: str, _: dict[str, int]) -> None:
            nonlocal began_ns
            if when == "start":
                began_ns = time.monotonic_ns()
            else:
                self.gc_pauses.record(time.monotonic_ns() - began_ns)

        gc.callbacks.append(note)
        try:
            yield
        finally:
            gc.callbacks.remove(note)

    def summary(self, results: Results) -> dict[str, Any]:
        """The ``generator`` block of summary.json, ``valid`` and ``reasons`` included."""
        reasons, notes = judge(self, results)
        total = sum(results.quality)
        shares = [n / total if total else 0.0 for n in results.quality]
        return {
            "valid": not reasons,
            "reasons": reasons,
            "notes": notes,
            "stamps": "kernel" if shares[StampQuality.USER] < 0.5 and total else "user",
            "stamp_quality": {
                "exact": shares[StampQuality.EXACT],
                "bounded": shares[StampQuality.BOUNDED],
                "user": shares[StampQuality.USER],
            },
            "bounded_width": _in_ms(self.bounded_width),
            "read_lag": _in_ms(self.read_lag),
            "lateness": _in_ms(self.lateness),
            "loop_lag": _in_ms(self.loop_lag),
            "merged_reads_share": results.merged_reads / results.reads if results.reads else 0.0,
            "reads": self.reads,
            "cpu_share": self.cpu_s / self.wall_s if self.wall_s else 0.0,
            "gc_pauses": _in_ms(self.gc_pauses),
            "clock_steps": self.clock_steps,
            "processes": self.processes,
        }


def judge(health: GeneratorHealth, results: Results) -> tuple[list[str], list[str]]:
    """Reasons that make the run invalid, and remarks that do not. Each says what to do."""
    reasons: list[str] = []
    notes: list[str] = []
    total = sum(results.quality)
    user = results.quality[StampQuality.USER]
    bounded_share = results.quality[StampQuality.BOUNDED] / total if total else 0.0
    lag_ns = health.read_lag.percentile(0.99)
    itl = results.metrics.get(Metric.ITL)
    ttft = results.metrics.get(Metric.TTFT)
    reasons += health.lost
    if health.local_failure:
        reasons.append(f"streams could not connect: {health.local_failure}; see what `loadgen check` says of its limits")
    if health.concurrency_mean < MIN_CONCURRENCY_SHARE * health.concurrency_mean_asked:
        reasons.append(
            f"only {health.concurrency_mean:.1f} of {health.concurrency_mean_asked:.1f} streams were open on average; "
            "this machine could not start them fast enough: use more processes or fewer streams"
        )
    bound_ns = max(MAX_LATENESS_NS, MAX_LATENESS_SHARE * ttft.percentile(0.5) if ttft is not None else 0)
    if _exceeds(health.lateness, bound_ns):
        reasons.append(
            f"streams started or connected up to {health.lateness.percentile(0.99) / NS_PER_MS:.1f} ms late (p99, bound "
            f"{bound_ns / NS_PER_MS:.1f} ms), which counts as TTFT: use more processes or fewer streams"
        )
    tls = results.metrics.get(Metric.TLS)
    if tls is not None and tls.count and _exceeds(health.loop_lag, bound_ns):
        reasons.append(
            f"the event loop woke its tasks up to {health.loop_lag.percentile(0.99) / NS_PER_MS:.1f} ms late (p99, bound "
            f"{bound_ns / NS_PER_MS:.1f} ms), so TLS handshakes took longer, which counts as TTFT: use more processes or "
            "fewer streams"
        )
    if total and user > total // 2 and itl is not None and itl.count and health.read_lag.count:
        gap_ns = itl.percentile(0.5)
        if lag_ns > MAX_LAG_SHARE * gap_ns:
            reasons.append(
                f"without kernel stamps reads lagged {lag_ns / NS_PER_MS:.1f} ms (p99) behind gaps of "
                f"{gap_ns / NS_PER_MS:.1f} ms: use Linux, more processes or fewer streams"
            )
    late_reads = health.read_lag.count_above(MAX_BOUNDED_LAG_NS)
    if bounded_share > MAX_BOUNDED_SHARE and late_reads > MAX_BOUNDED_SHARE * health.read_lag.count:
        reasons.append(
            f"{bounded_share:.0%} of the arrivals are only known within bounds because reads lagged "
            f"{lag_ns / NS_PER_MS:.1f} ms (p99): use more processes or fewer streams"
        )
    elif lag_ns > LATE_LOOP_NS and not user:
        notes.append(
            f"the receive loop ran up to {lag_ns / NS_PER_MS:.1f} ms (p99) late; TTFT and ITL are not touched by it, "
            "they come from the kernel's stamps"
        )
    if health.clock_steps:
        notes.append(f"the wall clock was stepped {health.clock_steps} times; reads around it carry our own stamps")
    return reasons, notes


def _exceeds(hdr: Hdr, bound_ns: float) -> bool:
    above = hdr.count_above(bound_ns)
    return above >= MIN_LATE_SAMPLES and above > MAX_LATE_SHARE * hdr.count


def _in_ms(hdr: Hdr) -> dict[str, float]:
    """Count, p50, p99 and max of a histogram of ns, in ms; only the count when it is empty."""
    if not hdr.count:
        return {"count": 0}
    p50, p99 = hdr.percentiles((0.5, 0.99))
    return {"count": hdr.count, "p50_ms": p50 / NS_PER_MS, "p99_ms": p99 / NS_PER_MS, "max_ms": hdr.max / NS_PER_MS}

"""What this machine can generate, and how true its stamps are: loadgen against a sender that says when it sent.

Levels of more and more streams are run until one is not valid any more; between that one and the last valid one a last level
is tried in the middle. It is one generator process that is measured, on what the sender leaves of the machine.
"""

import json
import os
import platform
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np

from loadgen import __version__
from loadgen.clock import NS_PER_US, SystemClock
from loadgen.engine.run import INTERVAL_S, RunData, generate
from loadgen.engine.watch import Progress
from loadgen.record.collector import Batch
from loadgen.record.recorder import Recorder
from loadgen.sim.process import open_server_process
from loadgen.sim.sender import BEFORE_STAMP, STAMP_DIGITS
from loadgen.transport.exchange import Exchange
from loadgen.workload.loader import loads
from loadgen.workload.plan import Target

MEASURED_S: Final = 3.0
RISE_S_PER_STREAM: Final = 0.0015  # paced starts, with some air
PROBE_EVERY: Final = 16  # each so-manieth stream compares its stamps; the others run as they always do
FIRST_STREAMS: Final = 250
MOST_STREAMS: Final = 16_000
SENDER_FULL: Final = 0.95  # of its core
SENDER_LATE_MS: Final = 20.0
_STAMP: Final = re.compile(re.escape(BEFORE_STAMP) + rb"(\d{%d})" % STAMP_DIGITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One step of a calibration. Stamp errors are arrival as recorded - the sender's clock before its send."""

    streams: int
    rate: int  # events/s of each stream
    events_per_s: float
    cpu_share: float  # of a core
    read_lag_p99_ms: float
    exact: float
    stamp_error_p50_us: float
    stamp_error_p99_us: float
    stamp_error_max_us: float
    valid: bool
    reason: str  # why it is not
    sender_limited: bool  # it was the sender that did not keep up


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    at: str
    loadgen: str
    python: str
    machine: str
    levels: list[Level]

    @property
    def best(self) -> Level | None:
        """The most events/s that were valid."""
        return max((level for level in self.levels if level.valid), key=lambda level: level.events_per_s, default=None)

    def save(self, path: Path | None = None) -> Path:
        path = path or stored_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        return path


def stored_path() -> Path:
    """Where this user's calibration of this machine is kept (XDG Base Directory Specification)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "loadgen" / "calibration.json"


def load_calibration(path: Path | None = None) -> Calibration | None:
    """The stored one; None when there is none that this version understands."""
    try:
        data = json.loads((path or stored_path()).read_text(encoding="utf-8"))
        return Calibration(**{**data, "levels": [Level(**level) for level in data["levels"]]})
    except (OSError, ValueError, TypeError, KeyError):
        return None


async def calibrate(rate: int, *, most: int = MOST_STREAMS, on_level: Callable[[Level], None] = lambda _: None) -> Calibration:
    """Run the levels; ``rate`` is events/s of a stream. Takes about a minute."""
    levels: list[Level] = []
    async with open_server_process("loadgen.sim.sender") as sender:
        for streams in _plan_levels(most, levels):
            levels.append(await _run_level(sender.url, streams, rate))
            on_level(levels[-1])
    return Calibration(
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        loadgen=__version__,
        python=platform.python_version(),
        machine=f"{platform.system()} {platform.release()}, {platform.machine()}, {os.cpu_count()} cores",
        levels=levels,
    )


def _plan_levels(most: int, done: list[Level]) -> Iterator[int]:
    """Doubling, then once the middle between the last good one and the first bad one."""
    streams = min(FIRST_STREAMS, most)
    while True:
        yield streams
        if not done[-1].valid or done[-1].sender_limited:
            break
        if streams == most:
            return
        streams = min(streams * 2, most)
    if len(done) > 1 and not done[-1].valid:
        yield (done[-2].streams + done[-1].streams) // 2


class _Marks:
    """A watcher: results, and CPU and events at each tick of the measured part."""

    def __init__(self, recorder: Recorder, after_s: float) -> None:
        self.marks: list[tuple[float, float, int]] = []
        self._recorder = recorder
        self._after_s = after_s
        self._events = 0

    def on_target(self, target: Target) -> None: ...

    def on_batch(self, batch: Batch, progress: Progress | None) -> None:
        self._events += self._recorder.apply(batch).output_events
        if progress is not None and progress.phase is not None and progress.elapsed_s >= self._after_s:
            self.marks.append((time.monotonic(), time.process_time(), self._events))

    def on_draining(self, open_streams: int, drain_ns: int) -> None: ...

    def on_interrupt(self, open_streams: int) -> None: ...


async def _run_level(url: str, streams: int, rate: int) -> Level:
    rise_s = streams * RISE_S_PER_STREAM
    hold_s = rise_s + MEASURED_S + INTERVAL_S
    plan = loads(
        f'loadgen: 1\ntarget: {{url: "{url}/?rate={rate}"}}\nload: [{{hold: {hold_s}s, streams: {streams}}}]\ndrain: 0s'
    ).to_plan()
    recorder = Recorder(plan.phases, SystemClock.now_ns())
    marks, errors = _Marks(recorder, rise_s), list[int]()
    data = RunData(plan=plan, target=plan.target, started_wall_ns=time.time_ns())
    async with httpx.AsyncClient(trust_env=False) as client:
        await client.get(f"{url}/late")
        await generate(
            data, plan, marks, clock=SystemClock(), interrupts=None, on_record=lambda _: None, exchange_type=_probe(errors)
        )
        told = (await client.get(f"{url}/late")).json()
    generator = data.health.summary(recorder.measured())
    (from_s, from_cpu, from_events), (to_s, to_cpu, to_events) = marks.marks[0], marks.marks[-1]
    micros = np.array(errors or [0]) / NS_PER_US
    p50, p99 = np.quantile(micros, (0.5, 0.99))
    return Level(
        streams=streams,
        rate=rate,
        events_per_s=(to_events - from_events) / (to_s - from_s),
        cpu_share=(to_cpu - from_cpu) / (to_s - from_s),
        read_lag_p99_ms=generator["read_lag"]["p99_ms"],
        exact=generator["stamp_quality"]["exact"],
        stamp_error_p50_us=float(p50),
        stamp_error_p99_us=float(p99),
        stamp_error_max_us=float(micros.max()),
        valid=generator["valid"],
        reason="; ".join(generator["reasons"]),
        sender_limited=told["cpu_share"] > SENDER_FULL or told["late_p99_ms"] > SENDER_LATE_MS,
    )


def _probe(errors: list[int]) -> type[Exchange]:
    """An exchange of which each ``PROBE_EVERY``th parses every event and compares its stamp with the sender's."""
    made = 0

    class Probe(Exchange):
        __slots__ = ("_compares",)

        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            nonlocal made
            self._compares = made % PROBE_EVERY == 0
            made += 1

        def on_body(self, body: bytes, at_ns: int, since_ns: int, *, kernel: bool, newest: bool = True) -> None:
            super().on_body(body, at_ns, since_ns, kernel=kernel, newest=newest)
            if self._compares:
                self.repeat = None  # so that the next event comes this way too
                if stamps := _STAMP.findall(body):
                    errors.append(at_ns - int(stamps[-1]))  # the newest in the read is the one that was stamped

    return Probe

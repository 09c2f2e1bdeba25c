"""Who hears of a run while it goes on: those who gather its results, and those who show it."""

from dataclasses import dataclass
from typing import Protocol

from loadgen.record.collector import Batch
from loadgen.record.recorder import Interval, Recorder
from loadgen.workload.plan import Phase, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run is, for those who show it."""

    phase: Phase | None  # None: draining
    elapsed_s: float
    left_s: float  # of the load, without the drain
    open: int
    asked: int


class Observer(Protocol):
    """Shows a run. Synchronous, quick, may not raise."""

    def on_target(self, target: Target) -> None: ...

    def on_interval(self, interval: Interval, progress: Progress, recorder: Recorder) -> None: ...

    def on_draining(self, open_streams: int, drain_ns: int) -> None: ...

    def on_interrupt(self, open_streams: int) -> None: ...

    def on_level(self, words: str) -> None:
        """A level of a capacity search has ended."""
        ...


class Watcher(Protocol):
    """Takes what one generator gathers. Synchronous, quick, may not raise."""

    def on_target(self, target: Target) -> None: ...

    def on_batch(self, batch: Batch, progress: Progress | None) -> None:
        """What happened since the last one; ``progress`` about once a second, None at the edges of phases."""
        ...

    def on_draining(self, open_streams: int, drain_ns: int) -> None: ...

    def on_interrupt(self, open_streams: int) -> None: ...


class Recording:
    """The usual watcher: a recorder takes the batches, an observer shows the intervals."""

    def __init__(self, recorder: Recorder, observer: Observer) -> None:
        self._recorder = recorder
        self._observer = observer
        self.on_target = observer.on_target
        self.on_draining = observer.on_draining
        self.on_interrupt = observer.on_interrupt

    def on_batch(self, batch: Batch, progress: Progress | None) -> None:
        interval = self._recorder.apply(batch)
        if progress is not None:
            self._observer.on_interval(interval, progress, self._recorder)

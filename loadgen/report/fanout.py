"""Several observers of one run."""

from collections.abc import Sequence

from loadgen.engine.watch import Observer, Progress
from loadgen.record.recorder import Interval, Recorder
from loadgen.workload.plan import Target


class FanOut:
    """An observer that tells each of ``observers``, in their order."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)

    def on_target(self, target: Target) -> None:
        for observer in self._observers:
            observer.on_target(target)

    def on_interval(self, interval: Interval, progress: Progress, recorder: Recorder) -> None:
        for observer in self._observers:
            observer.on_interval(interval, progress, recorder)

    def on_draining(self, open_streams: int, drain_ns: int) -> None:
        for observer in self._observers:
            observer.on_draining(open_streams, drain_ns)

    def on_interrupt(self, open_streams: int) -> None:
        for observer in self._observers:
            observer.on_interrupt(open_streams)

    def on_level(self, words: str) -> None:
        for observer in self._observers:
            observer.on_level(words)

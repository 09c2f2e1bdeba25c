"""Several observers of one run."""

import inspect
from typing import Any

from loadgen.engine.watch import Observer
from loadgen.report.fanout import FanOut


class Noting:
    """Writes down every call, in a list that all of them share."""

    def __init__(self, name: str, calls: list[tuple[Any, ...]]) -> None:
        self._name, self._calls = name, calls

    def __getattr__(self, method: str) -> Any:
        return lambda *arguments: self._calls.append((self._name, method, *arguments))


def test_each_hears_everything_in_order() -> None:
    calls: list[tuple[Any, ...]] = []
    both = FanOut([Noting("first", calls), Noting("second", calls)])
    methods = [name for name, _ in inspect.getmembers(Observer, inspect.isfunction) if name.startswith("on_")]
    assert len(methods) >= 5
    for method in methods:
        arguments = [object() for _ in inspect.signature(getattr(Observer, method)).parameters][1:]
        calls.clear()
        getattr(both, method)(*arguments)
        assert calls == [("first", method, *arguments), ("second", method, *arguments)]

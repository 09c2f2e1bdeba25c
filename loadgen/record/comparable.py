"""Which runs may be compared: those of one load. What the load is aimed at may differ; that is what a comparison is for."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

# Where the load goes, what it is called and what is promised of it: not what it is.
_AIM: Final = (
    "name", "slo", "target.url", "target.sim", "target.headers", "target.backend_header", "transport.tls", "transport.unix",
)  # fmt: skip
_ABSENT: Final = object()


class Difference(NamedTuple):
    """A key of the workload (dotted) and what the two runs have there, as text."""

    key: str
    base: str
    other: str

    def __str__(self) -> str:
        return f"{self.key}: {self.base} in the base, {self.other} here"


class WorkloadDifferences(NamedTuple):
    """``load``: the runs carried different loads; ``aim``: the same load on something else."""

    load: list[Difference]
    aim: list[Difference]


def differences(base: Mapping[str, Any], other: Mapping[str, Any]) -> WorkloadDifferences:
    """Of two manifests' workloads, key by key in the order of the base, defaults written out."""
    ours, theirs = dict(_leaves(base, "")), dict(_leaves(other, ""))
    found = WorkloadDifferences([], [])
    for key in [*ours, *(key for key in theirs if key not in ours)]:
        mine, its = ours.get(key, _ABSENT), theirs.get(key, _ABSENT)
        if mine != its:
            (found.aim if _is_aim(key) else found.load).append(Difference(key, _say(mine), _say(its)))
    return found


def reasons_against(runs: Sequence[tuple[str, Mapping[str, Any] | None, Mapping[str, Any] | None]]) -> list[str]:
    """Why these runs should not be compared, each in a sentence. A run: its name, manifest and summary, None if there is none.

    The first one is the base.
    """
    reasons: list[str] = []
    for name, manifest, summary in runs:
        if manifest is None:
            reasons.append(f"{name} has no manifest.json (it was killed?): nobody knows what load it was")
        match summary:
            case None:
                reasons.append(f"{name} has no summary.json (it was killed?): nobody has judged it")
            case {"verdict": "invalid" | "unreachable" as verdict, "verdict_reason": reason}:
                reasons.append(f"{name} is {verdict}: {reason}")
            case _:
                pass
    _, base, _ = runs[0]
    for name, manifest, _ in runs[1:]:
        if base is not None and manifest is not None:
            found = differences(base["workload"], manifest["workload"]).load
            reasons += [f"{name} is another load: {difference}" for difference in found]
    return reasons


def _leaves(data: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Dotted path and value of everything that holds nothing else, empty mappings and lists included."""
    items = data.items() if isinstance(data, Mapping) else enumerate(data) if isinstance(data, list | tuple) else ()
    empty = True
    for key, value in items:
        empty = False
        yield from _leaves(value, f"{path}.{key}" if path else str(key))
    if empty:
        yield path, data


def _is_aim(key: str) -> bool:
    return any(key == aim or key.startswith(f"{aim}.") for aim in _AIM)


def _say(value: object) -> str:
    return "absent" if value is _ABSENT else repr(value) if isinstance(value, str) else str(value)

"""Which runs may be compared: those of one load. What the load is aimed at may differ; that is what a comparison is for."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from loadgen.errors import shorten

# Where the load goes, what it is called and what is promised of it: not what it is.
_AIM: Final = (
    "name", "slo", "target.url", "target.sim", "target.headers", "target.backend_header", "transport.tls", "transport.unix",
)  # fmt: skip
_ABSENT: Final = object()


class Candidate(NamedTuple):
    """A run that is to be compared, as it is called, the folder it is in, and what is known of it."""

    name: str
    folder: str
    workload: Mapping[str, Any] | None  # as in the manifest; of a variant: its own
    summary: Mapping[str, Any] | None


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


def workload_of(manifest: Mapping[str, Any], variant: str = "") -> dict[str, Any]:
    """What a run of this manifest, or one variant of it, followed."""
    whole = {key: value for key, value in manifest["workload"].items() if key != "variants"}
    own: dict[str, Any] = manifest["workload"].get("variants", {}).get(variant, {})
    return whole | own


def differences(base: Candidate, other: Candidate) -> WorkloadDifferences:
    """Key by key in the order of the base, defaults written out. All that variants of one run differ in is aim."""
    found = WorkloadDifferences([], [])
    if base.workload is None or other.workload is None:
        return found
    for key, ours, theirs in _differing(base.workload, other.workload, ""):
        is_aim = base.folder == other.folder or any(key == aim or key.startswith(f"{aim}.") for aim in _AIM)
        (found.aim if is_aim else found.load).append(Difference(key, _say(ours), _say(theirs)))
    return found


def reasons_against(runs: Sequence[Candidate]) -> list[str]:
    """Why these runs should not be compared, each in a sentence. The first one is the base."""
    reasons: list[str] = []
    for run in runs:
        if run.workload is None:
            reasons.append(f"{run.name} has no manifest.json (it was killed?): nobody knows what load it was")
        match run.summary:
            case None:
                reasons.append(f"{run.name} has no summary.json (it was killed?): nobody has judged it")
            case {"verdict": "invalid" | "unreachable" as verdict, "verdict_reason": reason}:
                reasons.append(f"{run.name} is {verdict}: {reason}")
            case {"capacity": {}}:
                reasons.append(f"{run.name} searched for a capacity: its streams are of many loads")
            case _:
                pass
    for run in runs[1:]:
        reasons += [f"{run.name} is another load: {difference}" for difference in differences(runs[0], run).load]
    return reasons


def _differing(base: Any, other: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Dotted path and both values of what differs, as deep as both have it."""
    if base == other:
        return
    ours, theirs = _items(base), _items(other)
    if ours is None or theirs is None or type(base) is not type(other):
        yield path, base, other
        return
    for key in [*ours, *(key for key in theirs if key not in ours)]:
        yield from _differing(ours.get(key, _ABSENT), theirs.get(key, _ABSENT), f"{path}.{key}" if path else str(key))


def _items(data: Any) -> dict[Any, Any] | None:
    """What a mapping or list holds; None: it holds nothing else, or is empty."""
    if isinstance(data, Mapping) and data:
        return dict(data)
    return dict(enumerate(data)) if isinstance(data, list) and data else None


def _say(value: object) -> str:
    if value is _ABSENT:
        return "absent"
    if isinstance(value, str):
        return shorten(value)
    text = str(value)
    return text if len(text) <= 80 else f"{text[:80]}..."

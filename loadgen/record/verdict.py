"""The verdict: one word, one exit code, one sentence. When several hold, the first of 5, 130, 3, 4, 1 wins."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from loadgen.record.results import Results


class Exit(IntEnum):
    """Exit codes of the program: a contract."""

    OK = 0
    SLO_FAILED = 1
    USAGE = 2
    NOTHING_MEASURED = 3
    INVALID = 4
    BUG = 5
    INTERRUPTED = 130


class Verdict(NamedTuple):
    word: str
    exit_code: Exit
    reason: str


def decide(
    *, results: Results, interrupted: bool, unreachable: str, invalid: Sequence[str], slo: Sequence[Mapping[str, Any]]
) -> Verdict:
    """``unreachable``: why no connection could be made; ``invalid``: the generator's reasons; ``slo``: evaluated rules."""
    if interrupted:
        return Verdict("interrupted", Exit.INTERRUPTED, "the run was interrupted; what was measured until then is here")
    if unreachable:
        return Verdict("unreachable", Exit.NOTHING_MEASURED, f"the target cannot be reached: {unreachable}")
    if not results.events:
        return Verdict("unreachable", Exit.NOTHING_MEASURED, f"nothing was measured: {_instead(results)}")
    if invalid:
        return Verdict("invalid", Exit.INVALID, f"the generator was the bottleneck: {'; '.join(invalid)}")
    failed = [rule for rule in slo if not rule["ok"]]
    if failed:
        return Verdict("fail", Exit.SLO_FAILED, f"{len(failed)} of {len(slo)} SLOs failed: {_name_rules(failed)}")
    return Verdict("pass", Exit.OK, f"all {len(slo)} SLOs hold" if slo else "measured; the workload has no SLOs")


def _instead(results: Results) -> str:
    """What happened to the streams, when none of them brought a token."""
    if not results.ended:
        return "no stream of a measured phase ended"
    outcome, count = results.outcomes.most_common(1)[0]
    details = [(n, text) for (kind, text), n in results.details.items() if kind is outcome]
    said = f" ({max(details)[1]})" if details else ""
    return f"no stream brought a token; {count} of {results.ended} ended {outcome}{said}"


def _name_rules(rules: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(
        f"{rule['rule']} (no samples)" if rule["value"] is None else f"{rule['rule']} (was {rule['value']:.4g})"
        for rule in rules
    )

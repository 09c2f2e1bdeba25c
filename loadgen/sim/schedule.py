"""When the tokens of a stream are due, from the script and the stream's number alone: the truth to compare with.

A stream's own pace: the first event ``prefill`` after admission, then one every ``step``, on an absolute schedule (a late
event does not move the next). With ``jitter`` each of these varies by up to that share, from a generator that is seeded with
the script's seed and the stream's number, so that the same number always has the same schedule.
"""

from random import Random

from loadgen.workload.sim_script import Fault, SimScript


class StreamSchedule:
    """The draws of stream ``number``, in the order in which the stream makes them: fault, prefill, gap after gap."""

    __slots__ = ("_rng", "_script", "fault")

    def __init__(self, script: SimScript, number: int) -> None:
        self._script = script
        self._rng = Random(f"{script.seed or 0}/{number}")
        self.fault = self._draw_fault()

    def prefill_ns(self, prompt_tokens: int) -> int:
        prefill = self._script.prefill
        return self._vary(prefill.base + prefill.per_token * prompt_tokens)

    def gap_ns(self) -> int:
        return self._vary(self._script.decode.step)

    def _vary(self, ns: int) -> int:
        return vary(ns, self._script.jitter, self._rng)

    def _draw_fault(self) -> Fault | None:
        draw = self._rng.random()
        for fault in self._script.faults:
            if draw < fault.share:
                return fault
            draw -= fault.share
        return None


def plan_events(script: SimScript, number: int, prompt_tokens: int, max_tokens: int) -> list[int]:
    """When each event of stream ``number`` is due, ns after its admission, in its own pace and if no fault ends it."""
    schedule = StreamSchedule(script, number)
    due = [schedule.prefill_ns(prompt_tokens)]
    for _ in range(1, -(-max_tokens // script.tokens_per_event)):
        due.append(due[-1] + schedule.gap_ns())
    return due


def vary(ns: int, share: float, rng: Random) -> int:
    """``ns``, moved by up to ``share`` of it either way."""
    return round(ns * rng.uniform(1 - share, 1 + share)) if share else ns

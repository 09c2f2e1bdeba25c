"""Prompts recorded in a JSON Lines file, checked when the workload is loaded. Only offsets stay in memory."""

# Three shapes of line are known, and may be mixed:
#   {"prompt": "Say hello."}
#   {"messages": [{"role": "user", "content": "Say hello."}]}             OpenAI's form, sent as it is
#   {"conversations": [{"from": "human", "value": "Say hello."}, ...]}    ShareGPT
# Of a ShareGPT conversation the system text and the first human turn are asked, as vLLM's benchmark does.

import os
from array import array
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from loadgen.errors import Problem, WorkloadError, shorten
from loadgen.workload.prompts import user_message

_SHAPES: Final = '{"prompt": ...}, {"messages": [...]} or {"conversations": [...]}'
_SHOWN: Final = 3  # malformed lines named in one message
_BOM: Final = b"\xef\xbb\xbf"


class PromptFile:
    """A Prompt that picks one line of a file for each stream, every line equally likely."""

    __slots__ = ("_lengths", "_numbers", "_starts", "path", "written")

    def __init__(self, path: Path, written: str) -> None:
        """Reads and checks the whole file. ``written`` is the path as the workload has it, for messages.

        Raises ValueError that names file and line of what is malformed.
        """
        self.path = path
        self.written = written
        self._starts = array("q")
        self._lengths = array("q")
        self._numbers = array("q")
        self._scan()

    def __len__(self) -> int:
        return len(self._starts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PromptFile) and self.path == other.path and self._starts == other._starts

    def __hash__(self) -> int:
        return hash(self.path)

    def pick(self, rng: Random) -> list[dict[str, Any]]:
        """Reads one line from the page cache, as a rule. Raises WorkloadError when the file was changed meanwhile."""
        index = rng.randrange(len(self._starts))
        try:
            # Opened each time: it then needs no closing, and a plan that holds one can go to another process.
            with self.path.open("rb", buffering=0) as file:
                line = os.pread(file.fileno(), self._lengths[index], self._starts[index])
            return parse_line(line)
        except (OSError, ValueError) as error:
            message = f"{self.written}:{self._numbers[index]}: changed while the run was going on: {error}"
            raise WorkloadError(str(self.path), [Problem(path="", message=message)]) from None

    def _scan(self) -> None:
        problems: list[str] = []
        malformed = at = 0
        try:
            with self.path.open("rb") as file:
                for number, line in enumerate(file, start=1):
                    start, at = at, at + len(line)
                    if number == 1 and line.startswith(_BOM):
                        start, line = start + len(_BOM), line[len(_BOM) :]  # noqa: PLW2901 - the line without the mark
                    if not line.strip():
                        continue
                    try:
                        parse_line(line)
                    except ValueError as error:
                        malformed += 1
                        if malformed <= _SHOWN:
                            problems.append(f"{self.written}:{number}: {error}")
                    self._starts.append(start)
                    self._lengths.append(len(line))
                    self._numbers.append(number)
        except OSError as error:
            raise ValueError(f"cannot read {self.path}: {error.strerror}") from None
        if problems:
            more = f" (and {malformed - _SHOWN} more lines)" if malformed > _SHOWN else ""
            raise ValueError("; ".join(problems) + more)
        if not self._starts:
            raise ValueError(f"{self.written} has no prompts: write one JSON object per line, such as " + _SHAPES)


def parse_line(line: bytes) -> list[dict[str, Any]]:
    """The messages that one line asks for. Raises ValueError."""
    try:
        entry = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        hint = "; a JSON array must be written as one object per line" if line.startswith(b"[") else ""
        raise ValueError(f"not JSON: {error}{hint}, got {shorten(line.strip(), 40)}") from None
    match entry:
        case {"prompt": str(text)}:
            return user_message(text)
        case {"messages": [_, *_] as messages}:
            return _check_messages(messages)
        case {"conversations": [_, *_] as turns}:
            return _first_question(turns)
    raise ValueError(f"must be {_SHAPES}, got {shorten(line.strip(), 40)}")


def _check_messages(messages: list[Any]) -> list[dict[str, Any]]:
    for index, message in enumerate(messages):
        match message:
            case {"role": str(), "content": str() | [_, *_]}:
                continue
            case {"role": str(), "tool_calls": list()}:  # an assistant's turn that only calls tools
                continue
        raise ValueError(f"messages[{index}] must have a role and a content, got {shorten(str(message), 40)}")
    return messages


def _first_question(turns: list[Any]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for index, turn in enumerate(turns):
        match turn:
            case {"from": "system", "value": str(text)}:
                messages.append({"role": "system", "content": text})
            case {"from": "human" | "user", "value": str(text)}:
                return [*messages, *user_message(text)]
            case {"from": str(), "value": str()}:
                continue  # conversations cut out of longer ones begin with an answer
            case _:
                raise ValueError(f"conversations[{index}] must have from and value, got {shorten(str(turn), 40)}")
    raise ValueError("conversations has no turn from human")

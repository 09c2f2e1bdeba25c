"""Sources of prompts: fixed text, a JSONL file, synthetic text of a given length. All choices come from the rng passed in."""

import json
from array import array
from pathlib import Path
from random import Random
from typing import Any, Final

from loadgen.errors import shorten
from loadgen.workload.plan import Length

Messages = list[dict[str, Any]]

_WORDS: Final = [
    "river",
    "stone",
    "light",
    "window",
    "garden",
    "letter",
    "winter",
    "music",
    "bridge",
    "market",
    "silver",
    "paper",
    "ocean",
    "story",
    "yellow",
    "morning",
    "engine",
    "forest",
    "people",
    "number",
    "little",
    "always",
    "between",
    "under",
    "second",
    "happen",
    "answer",
    "question",
    "listen",
    "travel",
]
_SHARE_GPT_ROLES: Final = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "system": "system",
}


class TextPrompt:
    """The same user message every time."""

    def __init__(self, text: str) -> None:
        self._messages: Messages = [{"role": "user", "content": text}]

    def pick(self, rng: Random) -> Messages:
        del rng
        return self._messages


class SyntheticPrompt:
    """Random words of a given total length in characters. Different for every stream, so that no prefix cache helps."""

    def __init__(self, characters: Length) -> None:
        self._characters = characters

    def pick(self, rng: Random) -> Messages:
        length = self._characters.pick(rng)
        words = rng.choices(_WORDS, k=length // 4 + 1)  # the shortest word and its space have five characters
        return [{"role": "user", "content": " ".join(words)[:length]}]


class FilePrompt:
    """A JSONL file, one prompt a line, drawn at random; only the lines' offsets stay in memory.

    A line is ``{"prompt": "..."}``, ``{"messages": [...]}`` or ShareGPT's ``{"conversations": [{"from", "value"}]}``.
    The constructor reads the whole file once and raises ValueError naming the first bad line.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offsets = array("q")
        offset = 0
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    try:
                        parse_prompt_line(line)
                    except ValueError as error:
                        raise ValueError(f"{path}:{number}: {error}") from None
                    self._offsets.append(offset)
                offset += len(line)
        if not self._offsets:
            raise ValueError(f"{path} holds no prompt")

    def pick(self, rng: Random) -> Messages:
        with self._path.open("rb") as file:
            file.seek(rng.choice(self._offsets))
            return parse_prompt_line(file.readline())


def parse_prompt_line(line: bytes) -> Messages:
    """The messages of one line of a prompt file. Raises ValueError."""
    try:
        entry = json.loads(line)
    except ValueError as error:
        raise ValueError(f"not JSON ({error}): {shorten(line.strip(), 60)}") from None
    match entry:
        case {"messages": [_, *_] as messages} if all(isinstance(m, dict) and "role" in m for m in messages):
            return messages
        case {"prompt": str(text)}:
            return [{"role": "user", "content": text}]
        case {"conversations": [_, *_] as turns}:
            return _from_share_gpt(turns)
    raise ValueError(
        'expected {"prompt": "..."}, {"messages": [{"role": ..., "content": ...}]} or {"conversations": [...]}, '
        f"got {shorten(line.strip(), 60)}"
    )


def _from_share_gpt(turns: list[Any]) -> Messages:
    """Turns up to the last human one; what the model said after it is what is asked for."""
    messages: Messages = []
    for turn in turns:
        match turn:
            case {"from": str(who), "value": str(text)} if who in _SHARE_GPT_ROLES:
                messages.append({"role": _SHARE_GPT_ROLES[who], "content": text})
            case _:
                raise ValueError(f'expected {{"from": "human", "value": "..."}}, got {shorten(str(turn), 60)}')
    while messages and messages[-1]["role"] == "assistant":
        messages.pop()
    if not messages:
        raise ValueError("a conversation without a human turn")
    return messages

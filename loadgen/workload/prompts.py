"""Where prompts come from: a fixed text, or generated text of a wanted length. Recorded ones: prompt_file.py."""

from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any, Final

from loadgen.workload.plan import Length

# Short common words: about 4.4 characters each with the space, near the 4 characters a token that engines count on.
_WORDS: Final = (  # noqa: SIM905 - reads better than a hundred quoted words
    "the of and to in is it you that he was for on are with as his they be at one have this from or had by not but "
    "some what there we can out other were all your when up use word how said an each she which do their time if "
    "will way about many then them would write like so these her long make thing see him two has look more day could "
    "go come did my sound no most number who over know water than call first people may down side been now find"
).split()
_CORPUS_CHARACTERS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class TextPrompt:
    """The same user message for every stream."""

    text: str

    def pick(self, rng: Random) -> list[dict[str, Any]]:  # noqa: ARG002 - the Prompt protocol
        return user_message(self.text)


@dataclass(frozen=True, slots=True)
class CharactersPrompt:
    """One user message of exactly so many characters of English-looking words, different for every stream.

    The first 17 characters are a random number. Engines cache prompts by their beginnings: without it, streams whose
    texts begin alike would be answered from the cache and TTFT would look better than it is.
    """

    length: Length

    def pick(self, rng: Random) -> list[dict[str, Any]]:
        characters = self.length.pick(rng)
        corpus = _corpus()
        start = rng.randrange(len(corpus))
        text = f"{rng.getrandbits(64):016x} {corpus[start : start + characters]}"
        if len(text) < characters:
            text += corpus * (characters // len(corpus) + 1)
        return user_message(text[:characters])


def user_message(content: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": content}]


@cache
def _corpus() -> str:
    """64 Ki characters, the same in every process. A slice costs a copy, drawing words for each prompt far more."""
    rng = Random(0)
    return " ".join(rng.choices(_WORDS, k=_CORPUS_CHARACTERS // 3))[:_CORPUS_CHARACTERS]

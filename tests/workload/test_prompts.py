from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.workload.lengths import Fixed, Uniform
from loadgen.workload.prompts import CharactersPrompt, TextPrompt


def content(prompt: CharactersPrompt, seed: int) -> str:
    (message,) = prompt.pick(Random(seed))
    assert message["role"] == "user"
    return str(message["content"])


def test_text_is_one_user_message() -> None:
    assert TextPrompt("Say hello.").pick(Random(1)) == [{"role": "user", "content": "Say hello."}]


@given(st.integers(1, 3_000), st.integers(0, 1_000_000))
def test_characters_are_exactly_as_many_as_asked(characters: int, seed: int) -> None:
    assert len(content(CharactersPrompt(Fixed(characters)), seed)) == characters


@pytest.mark.parametrize("characters", [(1 << 16) - 1, 1 << 16, (1 << 16) + 18, 300_000])
def test_characters_past_the_corpus(characters: int) -> None:
    assert len(content(CharactersPrompt(Fixed(characters)), 3)) == characters


def test_characters_follow_the_length() -> None:
    prompt = CharactersPrompt(Uniform(20, 22))
    assert {len(content(prompt, seed)) for seed in range(50)} == {20, 21, 22}


def test_the_same_seed_gives_the_same_prompt() -> None:
    prompt = CharactersPrompt(Uniform(100, 200))
    assert content(prompt, 7) == content(prompt, 7)


def test_no_two_prompts_begin_alike() -> None:
    """Prefix caches of engines work on blocks of 16 tokens: the first 16 characters must differ already."""
    prompt = CharactersPrompt(Fixed(500))
    assert len({content(prompt, seed)[:16] for seed in range(2_000)}) == 2_000


def test_text_reads_like_words() -> None:
    words = content(CharactersPrompt(Fixed(1_000)), 1).split()[2:-1]
    assert 150 < len(words) < 300
    assert all(word.isalpha() for word in words)

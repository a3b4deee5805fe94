"""Prompts of exact lengths: token ids or words drawn at random, with the prefixes and conversations of a load."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InputError
from sightline.simulation.requests import Requests

Content = Any
"""A prompt or a part of one: a list of token ids, or text. Parts of one kind are joined by +."""
TRIED = 4000
"""Entries of a vocabulary that are tried as words."""
FEWEST_WORDS = 16
OWN, SHARED, ANSWER = 0, 1, 2
"""Kinds of drawn tokens: no two kinds, and no two numbers of a kind, begin alike."""


class Row(NamedTuple):
    """One request of a load."""

    number: int
    """From 0, in order of the load."""
    arrival_s: float
    prompt_tokens: int
    output_tokens: int
    prefix_id: int
    prefix_tokens: int
    session_id: int
    think_s: float
    priority: int
    adapter: int


def rows_of(part: Requests, first: int) -> list[Row]:
    """Return the requests of a part one by one, numbered from ``first``."""
    columns = [getattr(part, name).tolist() for name in Row._fields[1:]]
    return [Row(first + i, *values) for i, values in enumerate(zip(*columns, strict=True))]


class PromptEncoding(Protocol):
    """How drawn tokens are written in a request."""

    @property
    def size(self) -> int:
        """Different tokens that can be drawn."""

    @property
    def empty(self) -> Content:
        """Content of no tokens."""

    def write(self, drawn: NDArray[np.int64]) -> Content:
        """Return drawn tokens, numbers below ``size``, as content."""


class TokenIds:
    """Content is a list of token ids: exactly the tokens that are asked for."""

    empty: Final[Content] = []

    def __init__(self, vocabulary: int) -> None:
        # Special tokens stand at either end of vocabularies.
        self._first, self.size = vocabulary // 8, max(vocabulary * 3 // 4, 1)

    def write(self, drawn: NDArray[np.int64]) -> Content:
        """Return the ids of drawn tokens."""
        return (drawn + self._first).tolist()


@dataclass(frozen=True, slots=True)
class Words:
    """Content is text of words that are one token each, wherever they stand."""

    words: Sequence[str]
    empty: str = ""

    @property
    def size(self) -> int:
        """Different words."""
        return len(self.words)

    def write(self, drawn: NDArray[np.int64]) -> Content:
        """Return drawn words, each behind a space."""
        return "".join(f" {self.words[i]}" for i in drawn)


def words_of(folder: Path) -> Words:
    """Return the words of the tokenizer in a model's folder.

    Raises:
        InputError: There is none, or hardly any of its tokens is a word.
    """
    from tokenizers import Tokenizer

    file = folder / "tokenizer.json"
    if not file.is_file():
        raise InputError(f"'{folder}' has no tokenizer.json, which prompts of exact lengths are written with")
    tokenizer: Any = Tokenizer.from_file(str(file))
    size = tokenizer.get_vocab_size()
    found = dict.fromkeys(tokenizer.decode([i]).strip() for i in range(0, size, max(1, size // TRIED)))
    words = [word for word in found if word.isalnum() and _is_one_token(tokenizer, word)]
    if len(words) < FEWEST_WORDS:
        raise InputError(f"'{file}' has {len(words)} words of one token; prompts need {FEWEST_WORDS}")
    return Words(words)


def _is_one_token(tokenizer: Any, word: str) -> bool:
    """Whether every further occurrence adds one token."""
    counts = [len(tokenizer.encode(f" {word}" * n, add_special_tokens=False).ids) for n in (1, 2, 4)]
    return counts[1] - counts[0] == 1 and counts[2] - counts[1] == 2


class Prompts:
    """The prompts of a load; the same seed draws the same ones."""

    def __init__(self, encoding: PromptEncoding, seed: int, *, overhead: int = 0) -> None:
        """Write what is drawn in an encoding; ``overhead`` tokens are what the server itself adds to each prompt."""
        self._encoding, self._seed, self._overhead = encoding, seed, overhead
        self._histories: dict[int, tuple[Content, int]] = {}

    def prompt(self, row: Row) -> Content:
        """Return the prompt of a request; earlier turns of its conversation have ended."""
        wanted = max(row.prompt_tokens - self._overhead, 1)
        begin, there = self._histories.get(row.session_id, (self._encoding.empty, 0))
        if row.session_id < 0 or not there:
            there = min(row.prefix_tokens, wanted) if row.prefix_id >= 0 else 0
            begin = self._drawn(SHARED, row.prefix_id, there) if there else self._encoding.empty
        if there >= wanted:
            return begin[:wanted] if isinstance(begin, list) else begin
        return begin + self._drawn(OWN, row.number, wanted - there)

    def answered(self, row: Row, prompt: Content, text: str, token_ids: Sequence[int]) -> None:
        """Keep what a conversation consists of so far: the prompt and its answer, drawn anew where ids are unknown."""
        if row.session_id < 0:
            return
        answer: Content = text
        if isinstance(prompt, list):
            answer = list(token_ids) or self._drawn(ANSWER, row.number, row.output_tokens)
        tokens = max(row.prompt_tokens - self._overhead, 1) + row.output_tokens
        self._histories[row.session_id] = (prompt + answer, tokens)

    def _drawn(self, kind: int, number: int, tokens: int) -> Content:
        draw = np.random.default_rng((self._seed, kind, number + 1))
        return self._encoding.write(draw.integers(0, self._encoding.size, tokens))

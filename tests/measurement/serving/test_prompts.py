"""Prompts: exact lengths, shared beginnings, conversations."""

import numpy as np
import pytest

from sightline.errors import InputError
from sightline.measurement.serving.load import Prompts, TokenIds, Words, rows_of, words_of
from sightline.simulation.load import Requests


def rows(**columns):
    n = max(len(values) for values in columns.values())
    neutral = {"arrival_s": [0.0] * n, "prompt_tokens": [40] * n, "output_tokens": [5] * n}
    return rows_of(Requests(**{name: np.asarray(values) for name, values in (neutral | columns).items()}), 0)


def test_lengths_are_exact_and_the_same_seed_draws_the_same_prompts():
    asked = rows(prompt_tokens=[1, 17, 300])
    one, same, other = (Prompts(TokenIds(1000), seed) for seed in (0, 0, 1))
    prompts = [one.prompt(row) for row in asked]
    assert [len(prompt) for prompt in prompts] == [1, 17, 300]
    assert prompts == [same.prompt(row) for row in asked]
    assert prompts[2] != other.prompt(asked[2])
    assert all(0 <= token < 1000 for prompt in prompts for token in prompt)


def test_tokens_that_the_server_adds_are_left_out():
    assert len(Prompts(TokenIds(1000), 0, overhead=3).prompt(rows(prompt_tokens=[20])[0])) == 17


def test_prefixes_of_one_number_are_the_same_tokens_and_nothing_else_is():
    a, b, c = (Prompts(TokenIds(1000), 0).prompt(row) for row in rows(prefix_id=[4, 4, 5], prefix_tokens=[16, 16, 16]))
    assert a[:16] == b[:16] != c[:16]
    assert a[16:] != b[16:]


@pytest.mark.parametrize("known", [True, False])
def test_a_turn_begins_with_the_prompt_and_answer_before_it(known):
    first, second = rows(prompt_tokens=[20, 60], session_id=[7, 7])
    prompts = Prompts(TokenIds(1000), 0)
    begin = prompts.prompt(first)
    prompts.answered(first, begin, "", [1, 2, 3, 4, 5] if known else [])
    turn = prompts.prompt(second)
    assert turn[:20] == begin
    assert len(turn) == 60
    assert not known or turn[20:25] == [1, 2, 3, 4, 5]


def test_text_has_as_many_words():
    prompts = Prompts(Words(["one", "two", "three"]), 0)
    first, second = rows(prompt_tokens=[12, 30], session_id=[1, 1])
    begin = prompts.prompt(first)
    prompts.answered(first, begin, " a b c d e", ())
    assert len(begin.split()) == 12
    turn = prompts.prompt(second)
    assert turn.startswith(begin + " a b c d e")
    assert len(turn.split()) == 30


def test_words_of_a_tokenizer_are_one_token_each(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    names = {f"w{i}": i for i in range(100)} | {"two words": 100, "é": 101}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(names, unk_token="w0"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    words = words_of(tmp_path)
    assert "two words" not in words.words
    text = Prompts(words, 0).prompt(rows(prompt_tokens=[50])[0])
    assert len(tokenizer.encode(text).ids) == 50


def test_a_folder_without_a_tokenizer_is_refused(tmp_path):
    pytest.importorskip("tokenizers")
    with pytest.raises(InputError, match=r"has no tokenizer\.json"):
        words_of(tmp_path)

"""Folders that engines serve: random weights whose answers nothing ends, and a tokenizer of words."""

import pytest
from measurement.running import TINY

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("tokenizers")

from sightline.loading import load
from sightline.measurement.serving.case import write_model
from sightline.measurement.serving.load import words_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    work = {"task": "serve", "requests": {"count": 1, "prompt_tokens": 8, "output_tokens": 4}}
    model = load({"model": TINY, "cluster": "1x h100-sxm-80gb", "workload": work, "plan": {"framework": "vllm"}}).model
    made = tmp_path_factory.mktemp("model")
    write_model(model, "fp32", made)
    return made, int(model.vocab_size)


def test_every_word_is_a_token(folder):
    from transformers import AutoTokenizer

    made, size = folder
    tokenizer = AutoTokenizer.from_pretrained(made)
    assert len(tokenizer) == size
    text = " ".join(f"w{number}" for number in (0, 3, size - 1))
    assert tokenizer(text)["input_ids"] == [0, 3, size - 1]
    assert words_of(made).size > 0


def test_no_token_ends_an_answer(folder):
    from transformers import AutoModelForCausalLM, GenerationConfig

    made, size = folder
    model = AutoModelForCausalLM.from_pretrained(made)
    assert model.config.eos_token_id is None
    assert GenerationConfig.from_pretrained(made).eos_token_id is None
    assert model.get_input_embeddings().weight.shape[0] == size

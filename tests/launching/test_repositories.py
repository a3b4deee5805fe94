from dataclasses import replace

import pytest
from generation_scenarios import generation

from sightline import catalog
from sightline.errors import InputError
from sightline.launching import read, save, write
from sightline.launching.hugging_face import model_of, repository_of
from sightline.loading.models import resolve_model

WITH_REPOSITORY = tuple(name for name in catalog.names("models") if repository_of(name))


@pytest.mark.parametrize(
    ("model", "repository"),
    [
        ("llama-2-70b", "meta-llama/Llama-2-70b-hf"),
        ("bloom-176b", "bigscience/bloom"),
        ("qwen3-32b-fp8", "Qwen/Qwen3-32B-FP8"),
        ("deepseek-r1-nvfp4", "nvidia/DeepSeek-R1-NVFP4"),
        ("gemma-4-31b", "google/gemma-4-31B"),
        ("llama-4-scout", "meta-llama/Llama-4-Scout-17B-16E-Instruct"),
        ("gpt-3-175b", ""),
        ("minimax-m3", ""),
        ("no-such-model", ""),
    ],
)
def test_a_repository_is_the_one_of_the_source(model, repository):
    assert repository_of(model) == repository


def test_every_published_config_has_a_repository():
    published = [
        name
        for name in catalog.names("models")
        if catalog.entry("models", name)["source"].startswith("config.json")
        and ", the same shapes" not in catalog.entry("models", name)["source"]
    ]
    assert len(published) > 80
    assert not [name for name in published if not repository_of(name)]


@pytest.mark.parametrize("model", WITH_REPOSITORY)
def test_a_repository_is_read_back_as_the_same_model(model):
    assert repository_of(model_of(repository_of(model))) == repository_of(model)


@pytest.mark.parametrize(
    ("written", "model"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("meta-llama/Llama-2-70b-chat-hf", "llama-2-70b"),
        ("NousResearch/Meta-Llama-3-8B", "llama-3-8b"),
        ("/data/models/Qwen3-32B/", "qwen3-32b"),
        ("BIGSCIENCE/bloom", "bloom-176b"),
        ("llama-3-8b", "llama-3-8b"),
        ("somebody/their-own-model", ""),
    ],
)
def test_variants_and_paths_are_read_as_the_model(written, model):
    assert model_of(written) == model


SAVED = [("tensorrt-llm", "fp8"), ("tensorrt-llm", "none"), ("vllm", "w4a16"), ("llama.cpp", "none")]
"""Formats of weights that somebody has to save before they can be served."""


@pytest.mark.parametrize(("engine", "quantization"), SAVED)
def test_saved_weights_of_every_model_are_read_back_as_the_model(engine, quantization, tmp_path):
    launched = 0
    for name in catalog.names("models"):
        try:
            scenario = generation(model=name, plan={"framework": engine, "quantization": quantization})
            launch = write(scenario)
        except InputError:
            continue
        save(launch, tmp_path, overwrite=True)
        launched += 1
        back = resolve_model(read(tmp_path).scenario["model"], tmp_path).model
        assert replace(back, name=scenario.model.name) == scenario.model, name
    assert launched > 30

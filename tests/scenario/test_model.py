"""Parameters of a model against published counts and formulas."""

from dataclasses import replace

import pytest

from sightline.scenario import Model

GPT3 = Model(
    name="gpt3",
    hidden_size=12288,
    layers=96,
    heads=96,
    kv_heads=96,
    head_dim=128,
    intermediate_size=4 * 12288,
    vocab_size=51200,
    norm="layernorm",
    activation="gelu",
    positions="learned",
    max_positions=2048,
    tied_embeddings=True,
    attention_bias=True,
    output_bias=True,
    mlp_bias=True,
    norm_bias=True,
)
LLAMA2_70B = Model(
    name="llama-2-70b",
    hidden_size=8192,
    layers=80,
    heads=64,
    kv_heads=8,
    head_dim=128,
    intermediate_size=28672,
    vocab_size=32000,
)


def test_gpt_has_the_parameters_of_the_published_formula():
    # Narayanan 2021 (arXiv 2104.04473), equation 2: 12 L h^2 (1 + 13 / 12 h + (V + s) / 12 L h), final norm apart.
    layers, h, v, s = 96, 12288, 51200, 2048
    formula = 12 * layers * h**2 * (1 + 13 / (12 * h) + (v + s) / (12 * layers * h))
    assert GPT3.parameters == pytest.approx(formula + 2 * h, rel=1e-14)


def test_llama_2_70b_has_its_published_parameters():
    assert LLAMA2_70B.parameters == 68_976_648_192


def test_the_parts_are_the_whole():
    for model in (GPT3, LLAMA2_70B, replace(GPT3, embedding_norm=True, tied_embeddings=False)):
        (kind,) = model.kinds
        layer = model.parameters_of(kind)
        assert model.parameters == model.embedding_parameters + model.layers * layer + model.head_parameters
        assert layer == model.mixer_parameters(kind) + model.mlp_parameters_of(kind) + 2 * model.norm_parameters


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"tied_embeddings": False}, 51200 * 12288),
        ({"embedding_norm": True}, 2 * 12288),
        ({"position_offset": 2}, 2 * 12288),
        ({"positions": "rotary"}, -2048 * 12288),
        ({"norm_bias": False}, -(2 * 96 + 1) * 12288),
        ({"attention_bias": False}, -96 * 3 * 12288),
        ({"output_bias": False}, -96 * 12288),
        ({"mlp_bias": False}, -96 * 5 * 12288),
        ({"kv_heads": 8}, -96 * 2 * 88 * 128 * (12288 + 1)),
        ({"activation": "swiglu"}, 96 * 4 * 12288 * (12288 + 1)),
        ({"dropout": 0.1}, 0),
    ],
    ids=lambda x: str(x) if isinstance(x, dict) else "",
)
def test_every_feature_adds_or_takes_its_own(change, difference):
    assert replace(GPT3, **change).parameters - GPT3.parameters == difference


def test_widths_follow_from_heads():
    assert LLAMA2_70B.own_heads.query_width == 8192
    assert LLAMA2_70B.own_heads.key_width == 1024
    assert LLAMA2_70B.gated
    assert not GPT3.gated

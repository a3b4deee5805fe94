"""Models of mixed layers: parameters by part, what a token uses, formats."""

from dataclasses import replace

import pytest

from sightline.scenario import (
    Experts,
    Heads,
    LatentAttention,
    LayerKind,
    LinearAttention,
    Model,
    SparseAttention,
    StateSpace,
)

DENSE = Model(
    name="small",
    hidden_size=64,
    layers=4,
    heads=4,
    kv_heads=2,
    head_dim=16,
    intermediate_size=96,
    vocab_size=100,
)
EXPERTS = Experts(count=8, per_token=2, width=32, shared=1, shared_width=48)
MIXTURE = replace(DENSE, experts=EXPERTS, layer_kinds=(LayerKind(count=1), LayerKind(mlp="experts", count=3)))


def test_a_model_without_kinds_has_one():
    assert DENSE.kinds == (LayerKind(count=4),)
    assert DENSE.parameters == replace(DENSE, layer_kinds=DENSE.kinds).parameters
    assert DENSE.parameters == DENSE.active_parameters


def test_a_token_uses_the_experts_it_is_routed_to():
    expert = 3 * 64 * 32
    assert MIXTURE.expert_parameters == expert
    assert MIXTURE.parameters - MIXTURE.active_parameters == 3 * 6 * expert
    mlp = MIXTURE.mlp_parameters_of(MIXTURE.kinds[1])
    assert mlp == 8 * expert + 3 * 64 * 48 + 8 * 64


def test_experts_in_a_latent_have_projections_to_and_from_it():
    latent = replace(EXPERTS, latent_width=16)
    assert latent.expert_parameters(64, gated=True, bias=False) == 3 * 16 * 32
    assert latent.router_parameters(64, bias=False) == 8 * 64 + 2 * 64 * 16


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        (LayerKind(count=1), 64 * (64 + 2 * 32 + 64)),
        (LayerKind(count=1, attention=Heads(heads=4, kv_heads=1, head_dim=32)), 64 * (128 + 2 * 32 + 128)),
        (LayerKind(count=1, attention=Heads(heads=4, kv_heads=2, head_dim=16, values_are_keys=True)), 64 * 160),
        (LayerKind(count=1, attention=Heads(heads=4, kv_heads=2, head_dim=16, value_head_dim=8)), 64 * (64 + 48 + 32)),
        (LayerKind(mixer="none", count=1), 0),
    ],
)
def test_a_kind_may_have_heads_of_its_own(kind, parameters):
    assert DENSE.mixer_parameters(kind) == parameters


def test_a_gate_doubles_the_query_projection():
    kind = LayerKind(count=1)
    gated = replace(DENSE, attention_gate=True).mixer_parameters(kind)
    assert gated - DENSE.mixer_parameters(kind) == 64 * 64


def test_layers_of_one_block_have_half_the_norms():
    alone = LayerKind(mlp="none", count=1)
    assert DENSE.parameters_of(alone) == DENSE.mixer_parameters(alone) + 64
    assert replace(DENSE, layer_norms=4).parameters_of(alone) == DENSE.mixer_parameters(alone) + 128


def test_latent_attention_of_deepseek_v3():
    latent = LatentAttention(query_rank=1536, kv_rank=512, nope_head_dim=128, rope_head_dim=64, value_head_dim=128)
    # arXiv 2412.19437, the projections of its section 4.2 and two norms.
    expected = 1536 * (7168 + 1 + 128 * 192) + 7168 * 576 + 512 + 512 * 128 * 256 + 128 * 128 * 7168
    kind = LayerKind(mixer="latent", count=4)
    wide = replace(DENSE, hidden_size=7168, heads=128, latent=latent)
    assert wide.mixer_parameters(kind) == expected
    assert latent.head_dim == 192
    direct = replace(latent, query_rank=None)
    narrow = replace(DENSE, hidden_size=2048, heads=16, latent=direct)
    assert narrow.mixer_parameters(kind) == 2048 * 16 * 192 + 2048 * 576 + 512 + 512 * 16 * 256 + 16 * 128 * 2048


def test_an_indexer_counts_only_where_it_is():
    sparse = replace(DENSE, sparse=SparseAttention(heads=2, head_dim=8, selected_tokens=16))
    own, shared = LayerKind(mixer="sparse", count=1, indexed=True), LayerKind(mixer="sparse", count=1)
    assert sparse.indexer_parameters(shared) == 0
    assert sparse.indexer_parameters(own) == 64 * 16 + 64 * (8 + 2) + 16
    assert sparse.mixer_parameters(own) - sparse.mixer_parameters(shared) == sparse.indexer_parameters(own)


def test_states_take_the_place_of_a_cache():
    delta = LinearAttention(key_heads=2, value_heads=4, key_dim=8, value_dim=16, conv_width=4)
    assert (delta.key_width, delta.value_width, delta.conv_channels) == (16, 64, 96)
    assert delta.state_elements == 4 * 8 * 16
    mamba = StateSpace(heads=8, head_dim=16, groups=2, state=4, conv_width=4)
    assert (mamba.inner_width, mamba.conv_channels, mamba.projected_width) == (128, 144, 280)
    assert mamba.state_elements == 128 * 4


def test_formats_by_part():
    model = replace(DENSE, weights="mxfp4", weight_exceptions=(("attention", "bf16"),))
    assert [model.format_of(part) for part in ("attention", "experts", "dense", "head")] == [
        "bf16",
        "mxfp4",
        "mxfp4",
        "bf16",
    ]

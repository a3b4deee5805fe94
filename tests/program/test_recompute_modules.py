"""Recomputation of single modules and of some layers: what runs again, and that nothing is gained or lost."""

import numpy as np
import pytest
from training_scenarios import training

from sightline.prediction.training.step_profile import profile_of
from sightline.program import Block, write_out
from sightline.scenario.techniques import MODULES

S, H, F, Q, KV = 4096, 4096, 14336, 4096, 1024
"""Tokens and widths of Llama 3 8B."""
HIDDEN = 2 * S * H
"""Bytes of one hidden-wide activation."""


def scenario(recompute: object = "none", model: str = "llama-3-8b", **plan: object):
    return training(
        model=model, sequence_length=S, global_batch=64, plan={"micro_batch": 1, "recompute": recompute, **plan}
    )


def layer(recompute: object = "none", model: str = "llama-3-8b", **plan: object) -> Block:
    return write_out(scenario(recompute, model, **plan)).layers[-1]


def again(block: Block) -> set[tuple[str, str]]:
    return {(op.module, op.name) for op in block.recomputed}


@pytest.mark.parametrize(
    ("module", "operators", "freed"),
    [
        ("core_attention", {("attention core", "flash attention")}, 4 * S * 32),
        ("qkv", {("qkv", "matmul"), ("rope", "rope")}, 2 * S * (Q + 2 * KV)),
        (
            "attention",
            {("qkv", "matmul"), ("rope", "rope"), ("attention core", "flash attention")},
            2 * S * (Q + 2 * KV) + 4 * S * 32 + HIDDEN,
        ),
        ("layernorm", {("attention norm", "norm"), ("mlp norm", "norm")}, 2 * HIDDEN),
        ("mlp", {("mlp", "up")}, 2 * 2 * S * F),
    ],
)
def test_a_module_runs_again_and_what_it_put_out_is_not_kept(module, operators, freed):
    none, one = layer(), layer([module])
    assert again(one) == operators
    assert none.saved_bytes - one.saved_bytes == pytest.approx(freed)


def test_without_stopping_early_a_module_runs_again_to_its_end():
    mlp = layer(["mlp"], "gpt-3-175b", framework="megatron")
    assert again(mlp) == {("mlp", "up"), ("mlp", "activation"), ("mlp", "down")}


@pytest.mark.parametrize(
    "module", [m for m in MODULES if m not in ("latent_up", "moe", "moe_activation", "shared_experts")]
)
@pytest.mark.parametrize("model", ["llama-3-8b", "gpt-3-175b", "falcon-7b"])
def test_what_is_kept_and_what_comes_back_are_what_was_kept_before(module, model):
    none, one = layer(model=model), layer([module], model)
    assert one.saved_bytes + one.working_bytes == pytest.approx(none.saved_bytes)
    assert 0 < one.saved_bytes <= none.saved_bytes
    assert sum(op.flops for op in one.backward) == sum(op.flops for op in none.backward)


@pytest.mark.parametrize(
    "module", ["latent_up", "moe", "moe_activation", "shared_experts", "layernorm", "core_attention"]
)
def test_modules_of_mixtures_and_latent_attention_give_up_something(module):
    none, one = layer(model="deepseek-v2-lite"), layer([module], "deepseek-v2-lite")
    assert one.recomputed
    assert one.saved_bytes <= none.saved_bytes
    assert one.saved_bytes + one.working_bytes == pytest.approx(none.saved_bytes)


def test_modules_together_give_up_what_each_does():
    none = layer().saved_bytes
    alone = sum(none - layer([m]).saved_bytes for m in ("qkv", "core_attention", "layernorm"))
    assert none - layer(["qkv", "core_attention", "layernorm"]).saved_bytes == pytest.approx(alone)


def test_per_operator_keeps_every_other_product_and_runs_the_rest_again():
    block = layer(["per_op"])
    # Layer's input, attention's output with a float per row and head; of q, k, v, o, gate, up, down every other.
    kept = HIDDEN + HIDDEN + 4 * S * 32 + 2 * S * (Q + KV + F + H)
    assert block.saved_bytes == pytest.approx(kept)
    flops = sum(op.flops for op in block.recomputed)
    assert flops == pytest.approx(2 * S * H * (KV + H + F))
    assert ("attention core", "flash attention") not in again(block)


def test_selective_means_what_the_framework_means():
    assert again(layer("selective")) == again(layer(["core_attention"]))
    assert again(layer("selective", framework="torchtitan")) == again(layer(["per_op"], framework="torchtitan"))


def test_some_layers_lie_between_none_and_all():
    none, full = (profile_of(scenario(word)) for word in ("none", "full"))
    for how, share in (({"layers": 8}, 0.25), ({"every": 2}, 0.5), ({"layers": 0}, 0.0), ({"layers": 99}, 1.0)):
        some = profile_of(scenario({"modules": "full", **how}))
        expected = (1 - share) * none.phases["recompute"] + share * full.phases["recompute"]
        assert some.phases["recompute"] == pytest.approx(expected)
        blocks = [layer(word).saved_bytes for word in ("none", {"modules": "full", **how}, "full")]
        assert blocks[1] == pytest.approx((1 - share) * blocks[0] + share * blocks[2])


def test_layers_of_a_stage_are_a_larger_share_of_a_longer_pipeline():
    shares = [
        float(
            write_out(
                training(
                    model="llama-3-8b",
                    cluster=f"{p}x h100-sxm-80gb",
                    sequence_length=S,
                    global_batch=64,
                    plan={"micro_batch": 1, "pipeline_parallel": p, "recompute": {"layers": 4}},
                )
            )
            .layers[0]
            .recomputed_share
        )
        for p in (1, 2, 4, 8, 16)
    ]
    assert shares == [0.125, 0.25, 0.5, 1.0, 1.0]


def test_layers_that_run_again_together_keep_one_input_and_come_back_at_once():
    one, four = layer("full"), layer({"together": 4})
    assert four.saved_bytes == pytest.approx(one.saved_bytes / 4)
    assert four.working_bytes > 4 * one.working_bytes * 0.99
    assert again(four) == again(one)


def test_a_share_of_the_layers_may_be_an_array():
    from sightline.scenario.techniques import Recomputation

    shares = Recomputation(layers=4).share_of(32, np.array([1.0, 4.0, 16.0]))
    assert list(shares) == [0.125, 0.5, 1.0]

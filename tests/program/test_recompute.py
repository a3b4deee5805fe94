"""What recomputation keeps and runs again, held to the formulas of Korthikanti 2022 (arXiv 2205.05198, section 4)."""

import pytest
from training_scenarios import training

from sightline.program import Block, Collective, write_out

S, B, H, A = 2048, 4, 6144, 64
MODEL = {
    "model_type": "gpt2",
    "hidden_size": H,
    "num_hidden_layers": 48,
    "num_attention_heads": A,
    "vocab_size": 51200,
    "max_position_embeddings": S,
    "dropout": 0.1,
}
SBH = S * B * H
SCORES = 5 * A * S / H
"""Bytes kept of the attention core in units of s b h."""


def layer(t: int = 1, attention: str = "eager", **plan: object) -> Block:
    """The 22B model's layer under Megatron in fp16."""
    scenario = training(
        model=MODEL,
        cluster=f"{t}x a100-sxm-80gb",
        sequence_length=S,
        global_batch=B,
        plan={
            "framework": "megatron",
            "dtype": "fp16",
            "micro_batch": B,
            "attention": attention,
            "tensor_parallel": t,
            **plan,
        },
    )
    return write_out(scenario).layers[0]


@pytest.mark.parametrize(
    ("plan", "per_sbh"),
    [
        ({}, lambda t: 10 + 24 / t + SCORES / t),
        ({"sequence_parallel": True}, lambda t: (34 + SCORES) / t),
        ({"recompute": "selective"}, lambda t: 10 + 24 / t),
        ({"sequence_parallel": True, "recompute": "selective"}, lambda t: 34 / t),
        ({"recompute": "full"}, lambda _: 2),
        ({"sequence_parallel": True, "recompute": "full"}, lambda t: 2 / t),
    ],
    ids=lambda x: " ".join(f"{k}={v}" for k, v in x.items()) if isinstance(x, dict) else "",
)
@pytest.mark.parametrize("t", [1, 2, 8])
def test_a_layer_keeps_the_published_bytes(plan, per_sbh, t):
    assert layer(t, **plan).saved_bytes / SBH == pytest.approx(per_sbh(t), rel=1e-3)


def names(operators):
    return {(op.module, op.name) for op in operators}


def test_without_recomputation_nothing_runs_again():
    block = layer()
    assert not block.recomputed
    assert block.working_bytes == 0


def test_selective_recomputation_runs_the_attention_core_again_and_nothing_else():
    again = names(layer(recompute="selective").recomputed)
    assert again == {("attention core", n) for n in ("scores", "softmax", "context", "dropout")}
    assert names(layer(recompute="selective", attention="flash").recomputed) == {("attention core", "flash attention")}


def test_full_recomputation_runs_the_whole_forward_pass_again():
    block = layer(recompute="full")
    assert list(block.recomputed) == list(block.forward)


def test_full_recomputation_that_stops_early_leaves_out_only_what_no_gradient_needs():
    block = layer(framework="reference", recompute="full")
    count = len(block.recomputed)
    assert list(block.recomputed) == list(block.forward[:count])
    left_out = [(op.module, op.name) for op in block.forward[count:]]
    assert left_out == [("residual", "residual")]


@pytest.mark.parametrize("attention", ["eager", "flash"])
@pytest.mark.parametrize("t", [1, 8])
def test_backward_is_the_same_whatever_is_recomputed(attention, t):
    kinds = [layer(t, attention, recompute=kind) for kind in ("none", "selective", "full")]
    flops = [sum(op.flops for op in block.backward) for block in kinds]
    assert flops[0] == flops[1] == flops[2]
    assert len({len(block.backward) for block in kinds}) == 1


@pytest.mark.parametrize("attention", ["eager", "flash"])
@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_more_recomputation_keeps_less_and_works_more(attention, sequence_parallel):
    none, selective, full = (
        layer(8, attention, recompute=kind, sequence_parallel=sequence_parallel)
        for kind in ("none", "selective", "full")
    )
    assert none.saved_bytes > selective.saved_bytes > full.saved_bytes
    again = [sum(op.count * op.flops for op in block.recomputed) for block in (none, selective, full)]
    assert again[0] == 0 < again[1] < again[2]


@pytest.mark.parametrize("kind", ["selective", "full"])
@pytest.mark.parametrize("attention", ["eager", "flash"])
def test_a_layer_that_is_recomputed_never_holds_more_than_one_that_is_not(kind, attention):
    # What is kept and what comes back are counted once, so even a single layer gains nothing but loses nothing.
    again = layer(recompute=kind, attention=attention)
    assert again.saved_bytes + again.working_bytes <= layer(attention=attention).saved_bytes * (1 + 1e-12)


def test_recomputed_collectives_are_those_of_the_forward_pass():
    block = layer(8, recompute="full", sequence_parallel=True)
    kinds = [op.kind for op in block.recomputed if isinstance(op, Collective) and op.count > 0]
    assert sorted(kinds) == ["all_gather"] * 2 + ["reduce_scatter"] * 2

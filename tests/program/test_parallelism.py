"""Tensor and sequence parallelism as rewrites of the program: work is split, nothing is lost, degree 1 adds nothing."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_scenarios import behaving, training

from sightline.program import Collective, Matmul, Program, write_out

MODELS = ["gpt-3-175b", "llama-3-8b", "bloom-7b1", "opt-13b", "mpt-7b"]
PLANS = st.fixed_dictionaries(
    {
        "attention": st.sampled_from(["flash", "eager"]),
        "recompute": st.sampled_from(["none", "selective", "full"]),
        "micro_batch": st.sampled_from([1, 2, 8]),
    }
)


def program(model: str, t: int, plan: dict[str, object], framework: str = "reference") -> Program:
    scenario = training(
        model=model,
        cluster=f"{t}x h100-sxm-80gb",
        global_batch=8,
        plan={"framework": framework, "tensor_parallel": t, **plan},
    )
    return write_out(scenario)


def collectives(written: Program, kind: str | None = None) -> list[Collective]:
    operators = [op for block in written.blocks for op in (*block.forward, *block.backward)]
    found = [op for op in operators if isinstance(op, Collective)]
    return [op for op in found if np.any(op.count > 0) and kind in (None, op.kind)]


def network_bytes(operators: list[Collective]) -> float:
    """Bytes a rank of a ring sends, in buffers: twice for an all-reduce."""
    return sum(op.count * op.network_bytes * (2 if op.kind == "all_reduce" else 1) for op in operators)


@given(st.sampled_from(MODELS), PLANS, st.booleans())
def test_one_rank_talks_to_nobody_and_splits_nothing(model, plan, sequence_parallel):
    plain, split = (program(model, 1, plan | {"sequence_parallel": on}) for on in (False, sequence_parallel))
    assert not collectives(plain)
    assert not collectives(split)
    assert [b.saved_bytes for b in plain.blocks] == [b.saved_bytes for b in split.blocks]


@given(st.sampled_from(MODELS), PLANS, st.sampled_from([2, 4, 8]), st.booleans())
def test_the_ranks_of_a_group_do_the_work_of_one_together(model, plan, t, sequence_parallel):
    whole = program(model, 1, plan)
    part = program(model, t, plan | {"sequence_parallel": sequence_parallel})
    for one, share in zip(whole.blocks, part.blocks, strict=True):
        for of in ("forward", "recomputed", "backward"):
            flops = [sum(op.count * op.flops for op in getattr(block, of)) for block in (one, share)]
            assert t * flops[1] == pytest.approx(flops[0], rel=1e-12)


def test_key_heads_that_are_fewer_than_the_ranks_are_computed_by_several():
    model = {
        "model_type": "llama",
        "hidden_size": 1024,
        "num_hidden_layers": 2,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "intermediate_size": 4096,
        "vocab_size": 1000,
    }
    for t, heads in ((1, 16 + 2 * 2), (2, 8 + 2 * 1), (8, 2 + 2 * 1)):
        scenario = training(model=model, cluster=f"{t}x h100-sxm-80gb", plan={"tensor_parallel": t, "micro_batch": 1})
        qkv = next(op for op in write_out(scenario).layers[0].forward if op.module == "qkv" and isinstance(op, Matmul))
        assert qkv.n == heads * 64


@given(st.sampled_from(MODELS), PLANS, st.sampled_from([2, 4, 8]))
def test_sequence_parallelism_replaces_every_all_reduce_by_two_halves(model, plan, t):
    plain, split = (program(model, t, plan | {"sequence_parallel": on}) for on in (False, True))
    assert {op.kind for op in collectives(plain)} == {"all_reduce"}
    assert {op.kind for op in collectives(split)} == {"all_gather", "reduce_scatter"}
    forward = [
        [op for op in p.layers[0].forward if isinstance(op, Collective) and op.count > 0] for p in (plain, split)
    ]
    assert network_bytes(forward[0]) == network_bytes(forward[1]) > 0


@given(st.sampled_from(MODELS), PLANS, st.sampled_from([2, 4, 8]))
def test_sequence_parallel_backward_gathers_again_the_inputs_it_kept_in_pieces(model, plan, t):
    plain, split = (program(model, t, plan | {"sequence_parallel": on}) for on in (False, True))
    backward = [
        [op for op in p.layers[0].backward if isinstance(op, Collective) and op.count > 0] for p in (plain, split)
    ]
    gathered = 2 * backward[1][0].network_bytes
    assert network_bytes(backward[1]) == network_bytes(backward[0]) + gathered


@given(st.sampled_from(MODELS), PLANS, st.sampled_from([2, 4, 8]))
def test_sequence_parallelism_keeps_less_and_computes_the_same(model, plan, t):
    plain, split = (program(model, t, plan | {"sequence_parallel": on}) for on in (False, True))
    assert split.layers[0].saved_bytes < plain.layers[0].saved_bytes
    for of in ("forward", "backward"):
        flops = [sum(op.flops for op in getattr(p.layers[0], of)) for p in (plain, split)]
        assert flops[0] == flops[1]


@pytest.mark.parametrize("t", [1, 2, 4, 8])
def test_a_padded_vocabulary_is_whole_tiles_on_every_rank(t):
    written, plain = (
        program("llama-3-8b", t, {"micro_batch": 1}, framework=framework) for framework in ("megatron", "reference")
    )
    padded, stated = (next(op for op in p.head.forward if op.name == "logits") for p in (written, plain))
    assert padded.n % 128 == 0
    assert t * stated.n == 128256
    assert 0 <= t * (padded.n - stated.n) < 128 * t


@given(st.sampled_from(MODELS), PLANS, st.booleans())
def test_degrees_along_an_axis_write_out_what_each_writes_out(model, plan, sequence_parallel):
    degrees = np.array([1, 2, 4, 8])
    scenario = training(
        model=model,
        cluster="8x h100-sxm-80gb",
        global_batch=8,
        plan={"tensor_parallel": 8, "sequence_parallel": sequence_parallel, **plan},
    )
    mesh = write_out(replace(scenario, plan=replace(scenario.plan, tensor_parallel=degrees)))
    for i, t in enumerate(degrees):
        alone = write_out(replace(scenario, plan=replace(scenario.plan, tensor_parallel=int(t))))
        for many, one in zip(mesh.blocks, alone.blocks, strict=True):
            for attribute in ("saved_bytes", "working_bytes", "parameters"):
                picked = np.broadcast_to(getattr(many, attribute), 4)[i]
                assert picked == pytest.approx(getattr(one, attribute), rel=1e-12)


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_gathered_inputs_are_kept_or_gathered_again(recompute):
    scenario = training(
        model="llama-3-8b",
        cluster="8x h100-sxm-80gb",
        plan={"tensor_parallel": 8, "sequence_parallel": True, "recompute": recompute, "micro_batch": 1},
    )
    framework = behaving(scenario.plan.framework, {"native.keeps_gathered_inputs": True})
    keeping = replace(scenario.plan, framework=framework)
    again, kept = (write_out(each) for each in (scenario, replace(scenario, plan=keeping)))
    gathers = [
        sum(isinstance(op, Collective) and op.kind == "all_gather" for op in p.layers[0].backward)
        for p in (again, kept)
    ]
    assert gathers == [4, 2]
    inputs = 2 * 2.0 * 2048 * 4096  # Two of 16-bit elements.
    layers = [p.layers[0] for p in (again, kept)]
    held = [layer.saved_bytes + layer.working_bytes * (recompute == "full") for layer in layers]
    assert held[1] - held[0] == pytest.approx(inputs * 7 / 8, rel=1e-9)

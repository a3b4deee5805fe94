"""Experts in training: what the exchange carries, capacities, and what stays the same however they are spread."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from open_mesh import open_mesh
from training_scenarios import training

from sightline.prediction import predict
from sightline.prediction.training.priced import price
from sightline.prediction.training.step_profile import profile_of
from sightline.program import Block, Collective, Matmul, write_out
from sightline.program.routing import distinct_ranks
from sightline.scenario import Scenario

SMALL = {
    "model_type": "qwen3_moe",
    "hidden_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "intermediate_size": 3072,
    "moe_intermediate_size": 512,
    "num_experts": 64,
    "num_experts_per_tok": 4,
    "vocab_size": 32000,
}
TOKENS, WIDTH = 4096, 1024


def scenario(model: Any = SMALL, cluster: str = "8x h100-sxm-80gb", **plan: Any) -> Scenario:
    fields = {"micro_batch": 1, "framework": "megatron", "framework_version": "core", **plan}
    fields = {key: value for key, value in fields.items() if value is not None}
    return training(model=model, cluster=cluster, global_batch=64, sequence_length=TOKENS, plan=fields)


def layer(**plan: Any) -> Block:
    return write_out(scenario(**plan)).layers[0]


def exchanged(block: Block, ranks: str = "expert") -> list[Collective]:
    operators = (*block.forward, *block.backward)
    return [op for op in operators if isinstance(op, Collective) and op.ranks == ranks]


def expert_flops(block: Block) -> float:
    operators = (*block.forward, *block.backward)
    return sum(float(op.count * op.flops) for op in operators if op.module == "experts")


@given(
    experts=st.sampled_from([8, 64, 256]),
    chosen=st.integers(1, 8),
    ranks=st.sampled_from([1, 2, 4, 8]),
    seed=st.integers(0, 9),
)
def test_a_token_reaches_as_many_ranks_as_sampling_finds(experts: int, chosen: int, ranks: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    picks = random.random((2000, experts)).argsort(axis=1)[:, :chosen] // (experts // ranks)
    sampled = np.mean([len(set(row)) for row in picks])
    assert distinct_ranks(experts, chosen, ranks) == pytest.approx(sampled, rel=0.05)


def test_groups_of_experts_bound_the_ranks_a_token_reaches() -> None:
    assert distinct_ranks(256, 8, 8, group_share=0.5) <= 4
    assert distinct_ranks(256, 8, 64, group_share=0.5) < distinct_ranks(256, 8, 64)


def test_a_plain_exchange_carries_a_copy_for_each_chosen_expert() -> None:
    sizes = {float(op.buffer_bytes) for op in exchanged(layer(expert_parallel=8))}
    assert sizes == {2.0 * TOKENS * 4 * WIDTH}


def test_a_deduplicated_exchange_carries_one_for_each_rank() -> None:
    (size,) = {float(op.buffer_bytes) for op in exchanged(layer(expert_parallel=8, expert_dispatch="deduplicated"))}
    assert size == pytest.approx(2.0 * TOKENS * WIDTH * float(distinct_ranks(64, 4, 8)))
    assert size < 2.0 * TOKENS * 4 * WIDTH


def test_deduplicated_tokens_cross_the_network_once_for_each_node() -> None:
    plain, once = (
        predict(scenario(cluster="64x h100-sxm-80gb", expert_parallel=64, expert_dispatch=word))
        for word in ("all-to-all", "deduplicated")
    )
    assert once.phases["communication_exposed"] < plain.phases["communication_exposed"]


@pytest.mark.parametrize("word", ["all-to-all", "deduplicated"])
def test_on_one_rank_the_way_to_experts_costs_exactly_nothing(word: str) -> None:
    alone = predict(scenario(cluster="1x h100-sxm-80gb", expert_dispatch=word, expert_overlap=True))
    assert float(alone.step_time_s) == float(predict(scenario(cluster="1x h100-sxm-80gb")).step_time_s)


def test_a_capacity_evens_the_ranks_out() -> None:
    even = expert_flops(layer(expert_parallel=8, expert_capacity=1.0))
    assert even == pytest.approx(expert_flops(layer()), rel=1e-12)
    assert even < expert_flops(layer(expert_parallel=8))
    assert expert_flops(layer(expert_parallel=8, expert_capacity=1.5)) == pytest.approx(1.5 * even)


def test_masks_of_a_capacity_are_five_products_of_a_sequence_by_all_places() -> None:
    plan = {"framework": "maxtext", "framework_version": None, "zero_stage": 3, "recompute": "full"}
    masked = layer(**plan, expert_capacity=1.25)
    products = sum(
        float(op.flops)
        for op in (*masked.forward, *masked.backward)
        if op.module == "experts" and op.part in ("permutation", "weighted sum")
    )
    assert products == 5 * 2.0 * TOKENS * (TOKENS * 4 * 1.25) * WIDTH
    assert not any(op.flops for op in layer(**plan).forward if op.part in ("permutation", "weighted sum"))


@pytest.mark.parametrize(("e", "u"), [(1, 1), (8, 1), (1, 4), (4, 2)])
def test_ranks_together_work_as_much_however_experts_are_spread(e: int, u: int) -> None:
    spread = layer(expert_parallel=e, expert_tensor_parallel=u, expert_capacity=1.0)
    assert expert_flops(spread) == pytest.approx(expert_flops(layer(expert_capacity=1.0)))
    assert float(spread.expert_parameters) == pytest.approx(float(layer().expert_parameters) / (e * u))


def test_a_skew_slows_the_busiest_rank() -> None:
    assert expert_flops(layer(expert_parallel=8, expert_skew=0.3)) > 1.3 * expert_flops(layer(expert_parallel=8))


def test_overlap_hides_the_exchange_but_no_work() -> None:
    plain, hidden = (predict(scenario(expert_parallel=8, expert_overlap=on)) for on in (False, True))
    assert hidden.phases["communication_exposed"] < plain.phases["communication_exposed"]
    assert hidden.phases["backward"] == plain.phases["backward"]
    assert hidden.step_time_s < plain.step_time_s


def test_each_expert_is_a_launch_of_its_own_where_a_library_has_it_so() -> None:
    def launches(block: Block) -> set[float]:
        products = (op for op in (*block.forward, *block.backward) if isinstance(op, Matmul) and op.module == "experts")
        return {float(op.launches) for op in products}

    each = layer(expert_parallel=8)
    assert launches(each) == {8.0}
    reference = layer(framework="reference", framework_version=None, expert_parallel=8)
    assert launches(reference) == {1.0}
    assert expert_flops(each) == pytest.approx(expert_flops(reference))
    assert sum(op.count * op.saved_bytes for op in each.forward) == pytest.approx(
        sum(op.count * op.saved_bytes for op in layer(expert_parallel=8, expert_launches="grouped").forward)
    )


def test_products_of_few_rows_fill_a_device_together_and_not_one_by_one() -> None:
    """A kernel for each expert has whole tiles and waves of its own, which many rows fill."""

    def slowdown(micro_batch: int) -> float:
        plans = ({"micro_batch": micro_batch, "expert_launches": how} for how in ("each", "grouped"))
        each, grouped = (price(scenario(expert_parallel=8, **plan)) for plan in plans)
        products = (
            (float(op.count * of.alone[id(op)].time_s) for op in of.program.layers[0].forward if op.name == "down")
            for of in (each, grouped)
        )
        return sum(next(products)) / sum(next(products))

    assert slowdown(1) > 1.3 > 1.1 > slowdown(8)


def test_without_shared_experts_the_router_keeps_what_it_reads() -> None:
    kept = {op.name: float(op.saved_bytes) for op in layer().forward if op.module == "router"}
    assert kept["router"] == 2.0 * TOKENS * WIDTH
    shared = write_out(scenario(model="deepseek-v2-lite")).layers[-1]
    assert next(float(op.saved_bytes) for op in shared.forward if op.name == "router") == 0.0


def test_meshes_of_experts_equal_single_plans() -> None:
    axes = {"expert_parallel": [1, 2, 8], "tensor_parallel": [1, 2]}
    mesh = profile_of(open_mesh(scenario(expert_dispatch="deduplicated"), axes))
    for i, e in enumerate(axes["expert_parallel"]):
        for j, t in enumerate(axes["tensor_parallel"]):
            one = predict(scenario(expert_parallel=e, tensor_parallel=t, expert_dispatch="deduplicated"))
            assert np.broadcast_to(mesh.step_time_s, (3, 2))[i, j] == pytest.approx(float(one.step_time_s), rel=1e-9)


def test_scales_of_blocks_are_ordered_for_every_experts_operands() -> None:
    def launched(dtype: str) -> dict[str, float]:
        plan = {
            "cluster": "8x b200-sxm-180gb",
            "expert_parallel": 8,
            "dtype": dtype,
            "framework_version": "bridge-26.04",
        }
        operators = write_out(scenario(**plan)).layers[0].forward
        return {op.name: float(op.launches) for op in operators if op.module == "experts"}

    plain, scaled = launched("bf16"), launched("mxfp8")
    assert (plain["up"], scaled["up"]) == (8.0, 24.0)
    assert scaled["input quantization"] >= 8.0

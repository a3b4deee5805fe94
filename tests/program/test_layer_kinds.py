"""Layers of several kinds in one program: parameters add up, experts and latent attention share their work out."""

from typing import Any

import pytest
from training_scenarios import training

from sightline import catalog
from sightline.prediction import predict
from sightline.program import Collective, Program, write_out

MIXTURE = "mixtral-8x7b"


def written(model: str, cluster: str = "1x h100-sxm-80gb", **plan: Any) -> Program:
    fields = {"micro_batch": 1, **plan}
    return write_out(training(model=model, cluster=cluster, global_batch=64, sequence_length=4096, plan=fields))


def flops(program: Program) -> float:
    operators = [(block.count, op) for block in program.layers for op in (*block.forward, *block.backward)]
    return sum(float(count * op.count * op.flops) for count, op in operators)


@pytest.mark.parametrize("name", catalog.names("models"))
def test_parameters_of_all_blocks_are_the_models(name: str) -> None:
    scenario = training(model=name, sequence_length=128, plan={"micro_batch": 1})
    blocks = write_out(scenario).blocks
    added = sum(block.count * float(block.parameters) for block in blocks)
    assert added == pytest.approx(scenario.model.parameters, rel=2e-4)


@pytest.mark.parametrize("degrees", [{"expert_parallel": 8}, {"expert_tensor_parallel": 4}, {"expert_parallel": 2}])
def test_sharing_experts_out_keeps_the_work_of_a_rank_on_average(degrees: dict[str, int]) -> None:
    alone = written(MIXTURE, "8x h100-sxm-80gb")
    shared = written(MIXTURE, "8x h100-sxm-80gb", **degrees)
    # The busiest rank has more than its share, by what a random choice scatters.
    assert flops(alone) <= flops(shared) < 1.06 * flops(alone)
    spread = degrees.get("expert_parallel", 1) * degrees.get("expert_tensor_parallel", 1)
    kept = [program.layers[0].expert_parameters for program in (alone, shared)]
    assert kept[1] == pytest.approx(kept[0] / spread)


def test_experts_on_one_rank_talk_to_nobody() -> None:
    layer = written(MIXTURE, "8x h100-sxm-80gb").layers[0]
    assert not [op for op in (*layer.forward, *layer.backward) if isinstance(op, Collective)]


def test_tokens_travel_to_their_experts_and_back_in_both_passes() -> None:
    layer = written(MIXTURE, "8x h100-sxm-80gb", expert_parallel=8).layers[0]
    for operators in (layer.forward, layer.backward):
        exchanges = [op for op in operators if isinstance(op, Collective)]
        assert [op.kind for op in exchanges] == ["all_to_all", "all_to_all"]
        # Two experts per token, 4,096 tokens of 4,096 elements in two bytes.
        assert {float(op.buffer_bytes) for op in exchanges} == {2 * 4096 * 4096 * 2}


def test_dense_layers_come_before_the_mixtures() -> None:
    program = written("deepseek-v3")
    assert [(block.name, block.count, block.leading) for block in program.layers] == [
        ("latent, dense", 3, True),
        ("latent, experts", 58, False),
    ]
    profile = predict(
        training(
            model="deepseek-v3",
            cluster="64x h100-sxm-80gb",
            global_batch=64,
            plan={"pipeline_parallel": 8, "micro_batch": 1, "expert_parallel": 8},
        )
    )
    first = profile.stages[0].items["layer activations"] / 8
    assert first > 0


def test_windows_cost_less_than_full_attention() -> None:
    full, windowed = (
        training(
            model={"same_as": "mistral-7b", "sliding_window": window}, sequence_length=8192, plan={"micro_batch": 1}
        )
        for window in (8192, 2048)
    )
    assert flops(write_out(windowed)) < flops(write_out(full))
    assert predict(windowed).step_time_s < predict(full).step_time_s

"""Multi-token prediction in training: what a layer of it adds, where it stands, and that without it nothing changes."""

import pytest
from training_scenarios import training

from sightline.errors import InputError
from sightline.prediction import predict
from sightline.prediction.training.stages import stage_contents
from sightline.prediction.training.step_rows import model_flops
from sightline.program import Matmul, write_out
from sightline.scenario import Scenario

LAYERS, HIDDEN, VOCABULARY, TOKENS = 4, 1024, 32000, 2048
MODEL = {
    "model_type": "deepseek_v3",
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "intermediate_size": 2048,
    "moe_intermediate_size": 512,
    "n_routed_experts": 16,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "q_lora_rank": 256,
    "kv_lora_rank": 128,
    "qk_nope_head_dim": 64,
    "qk_rope_head_dim": 32,
    "v_head_dim": 64,
    "vocab_size": VOCABULARY,
    "num_nextn_predict_layers": 1,
}


def scenario(**plan: object) -> Scenario:
    fields = {"micro_batch": 1, "framework": "megatron", "framework_version": "core", **plan}
    return training(model=MODEL, cluster="8x h100-sxm-80gb", global_batch=64, sequence_length=TOKENS, plan=fields)


def test_a_depth_is_a_layer_a_joining_projection_and_the_head_once_more() -> None:
    program = write_out(scenario(prediction_layers=1))
    *_, last, depth = program.layers
    plain = write_out(scenario())

    def flops(operators: object) -> float:
        return sum(float(op.count * op.flops) for op in operators if isinstance(op, Matmul))  # type: ignore[attr-defined]

    joining = 2.0 * TOKENS * 2 * HIDDEN * HIDDEN
    assert flops(depth.forward) == flops(last.forward) + joining + flops(plain.head.forward)
    assert flops(depth.backward) == flops(last.backward) + 2 * joining + flops(plain.head.backward)
    assert depth.parameters == last.parameters + 2 * HIDDEN * HIDDEN + 3 * HIDDEN


def test_model_flops_count_what_a_depth_executes() -> None:
    without, with_one = (scenario(prediction_layers=n) for n in (0, 1))
    depth = write_out(with_one).layers[-1]
    executed = sum(float(op.count * op.flops) for op in (*depth.forward, *depth.backward) if isinstance(op, Matmul))
    more = float(model_flops(with_one) - model_flops(without)) / 64
    # The program's router sends a little more to the busiest rank; attention is no matmul.
    scores = 6.0 * 16 * (96 + 64) * TOKENS * TOKENS
    assert more - scores == pytest.approx(executed, rel=0.02)


@pytest.mark.parametrize("stages", [1, 2, 4])
def test_depths_stand_on_the_last_stage_and_no_layer_is_lost(stages: int) -> None:
    contents = stage_contents(scenario(prediction_layers=1, pipeline_parallel=stages))
    holds = [float(stage.kinds[-1]) for stage in contents]
    assert holds == ([1.0, 0.0, 0.0] if stages == 1 else [0.0, 0.0, 1.0])
    own = [float(sum(stage.kinds[:-1])) for stage in contents]
    if stages <= 2:
        assert sum(own) == LAYERS


def test_the_last_stage_keeps_a_copy_of_the_table() -> None:
    def last(n: int) -> float:
        return float(stage_contents(scenario(prediction_layers=n, pipeline_parallel=2))[2].tied_copy)

    assert (last(0), last(1)) == (0.0, 1.0)


def test_predicting_further_takes_time_and_memory() -> None:
    without, with_one = (predict(scenario(prediction_layers=n)) for n in (0, 1))
    assert with_one.step_time_s > without.step_time_s
    assert with_one.memory_bytes["total"] > without.memory_bytes["total"]


def test_no_more_depths_than_the_model_has() -> None:
    with pytest.raises(InputError, match=r"plan.prediction_layers is 2; allowed: up to 1"):
        scenario(prediction_layers=2)

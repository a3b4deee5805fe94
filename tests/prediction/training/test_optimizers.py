"""What each optimizer keeps and moves per parameter, and what Muon's matrices cost."""

from dataclasses import replace

import numpy as np
import pytest
from training_scenarios import training

from sightline.frameworks import read_framework
from sightline.prediction.training.step_profile import profile_of
from sightline.prediction.training.update import update_traffic
from sightline.profile import Profile
from sightline.program import Matmul, write_out
from sightline.scenario.plan import OPTIMIZERS


def step(optimizer: str, devices: int = 8, **plan: object) -> Profile:
    scenario = training(
        model="llama-2-7b",
        cluster=f"{devices}x h100-sxm-80gb",
        sequence_length=4096,
        global_batch=16,
        plan={"micro_batch": 1, "optimizer": optimizer, **plan},
    )
    return profile_of(scenario)


@pytest.mark.parametrize(
    ("optimizer", "bytes_per_parameter"),
    [("adamw", 12), ("adamw-fused", 12), ("adamw-8bit", 4 + 2 + 8 / 256), ("sgd", 4), ("sgd-momentum", 8)],
)
def test_states_are_master_weights_and_moments(optimizer, bytes_per_parameter):
    profile = step(optimizer)
    parameters = profile.scenario.model.parameters
    assert profile.memory_bytes["optimizer"] == pytest.approx(bytes_per_parameter * parameters, rel=1e-12)


def test_weights_in_fp32_are_their_own_master():
    profile = step("sgd", framework="fsdp", zero_stage=3)
    assert profile.memory_bytes["optimizer"] == 0


def test_muon_keeps_one_moment_of_the_layers_matrices_and_two_of_the_rest():
    profile = step("muon")
    model = profile.scenario.model
    ends = 2 * model.vocab_size * model.hidden_size
    norms = (2 * model.layers + 1) * model.hidden_size
    matrices = model.parameters - ends - norms
    assert profile.memory_bytes["optimizer"] == pytest.approx(8 * matrices + 12 * (ends + norms), rel=1e-12)


def test_fewer_bytes_take_less_time():
    seconds = {name: float(step(name).phases["optimizer"]) for name in OPTIMIZERS if name != "muon"}
    order = ("sgd", "adamw-8bit", "sgd-momentum", "adamw-fused", "adamw-unfused")
    assert [seconds[name] for name in order] == sorted(seconds[name] for name in order)


@pytest.mark.parametrize("framework", ["reference", "megatron", "deepspeed", "fsdp", "transformers"])
def test_the_frameworks_own_update_lies_between_fused_and_separate_kernels(framework):
    behavior = read_framework(framework)
    fused, own, separate = (update_traffic(behavior, "bf16", f"adamw{kind}") for kind in ("-fused", "", "-unfused"))
    assert fused <= own <= separate


def test_muons_products_are_those_of_newton_and_schulz():
    scenario = training(model="llama-2-7b", plan={"optimizer": "muon", "micro_batch": 1})
    (layer,) = write_out(scenario).layers
    h, f = 4096, 11008
    # X X^T, its square and its product with X, five times, for q, k, v, o and gate, up, down.
    square, wide = 6 * h**3, 4 * h**2 * f + 2 * h**3
    products = [op for op in layer.update if isinstance(op, Matmul)]
    assert sum(op.count * op.flops for op in products) == pytest.approx(5 * (4 * square + 3 * wide))
    assert layer.matrix_parameters == 4 * h * h + 3 * h * f


def test_other_optimizers_have_no_products():
    scenario = training(model="llama-2-7b", plan={"optimizer": "adamw", "micro_batch": 1})
    assert not any(block.update for block in write_out(scenario).blocks)


def test_replicas_that_share_states_share_the_products_and_hand_matrices_over():
    alone, shared = step("muon"), step("muon", zero_stage=1)
    assert shared.phases["optimizer"] < alone.phases["optimizer"] / 7
    assert shared.hardware_flops < alone.hardware_flops
    assert shared.phases["communication_exposed"] > step("adamw", zero_stage=1).phases["communication_exposed"]
    rows = {(row.module, row.operator) for row in shared.rows}
    assert ("optimizer", "orthogonalization gram") in rows


def test_muon_on_a_mesh_costs_what_each_plan_costs():
    many = step("muon", devices=8)
    grid = {"zero_stage": np.array([0, 1, 3])}
    together = profile_of(replace(many.scenario, plan=replace(many.scenario.plan, **grid)))
    for i, stage in enumerate((0, 1, 3)):
        one = step("muon", zero_stage=stage)
        assert together.step_time_s[i] == pytest.approx(float(one.step_time_s), rel=1e-12)


def test_sums_of_bf16_gradients_in_fp32_take_a_cast_and_an_addition_every_pass():
    def moved(dtype):
        plan = {"framework": "megatron-deepspeed", "framework_version": "2022-02", "micro_batch": 1, "dtype": dtype}
        program = write_out(training(model="gpt-1.3b", cluster="8x a100-sxm-80gb", global_batch=64, plan=plan))
        return sum(op.bytes for op in program.layers[0].backward if op.part == "accumulation")

    assert moved("bf16") / moved("fp16") == pytest.approx((2 + 4 + 3 * 4) / (3 * 2))

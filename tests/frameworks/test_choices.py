"""Choices of a plan that change a framework's behavior."""

from dataclasses import replace
from typing import Any

import pytest
from training_scenarios import training

from sightline.catalog import names
from sightline.errors import InputError
from sightline.frameworks import read_framework
from sightline.frameworks.choices import CHOICES, choices_of, with_choices
from sightline.loading import scenario_from_mapping
from sightline.loading.written import to_mapping
from sightline.prediction.training.step_profile import profile_of
from sightline.program import write_out
from sightline.scenario import Scenario

NOTHING = dict.fromkeys(CHOICES)


def megatron(**plan: Any) -> Scenario:
    return training(
        model="gpt-1.3b",
        cluster="8x h100-sxm-80gb",
        global_batch=8,
        plan={"framework": "megatron", "micro_batch": 1} | plan,
    )


@pytest.mark.parametrize("name", names("frameworks"))
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32", "fp8"])
def test_what_a_framework_does_anyway_changes_nothing(name: str, dtype: str) -> None:
    framework = read_framework(name)
    if not framework.allows("dtype", dtype):
        return
    own = choices_of(framework, dtype)
    assert with_choices(framework, NOTHING | own, dtype) is framework
    assert all(framework.allows(field, value) for field, value in own.items())


@pytest.mark.parametrize(
    ("choice", "value"),
    [
        ("overlap_gradient_reduce", False),
        ("overlap_parameter_gather", False),
        ("gradient_reduce_dtype", "bf16"),
        ("fused_loss", False),
        ("fused_norm", False),
        ("fused_rope", False),
        ("fused_activation", False),
        ("expert_launches", "grouped"),
        ("fp8_parameter_gather", False),
        ("fp8_transpose_cache", False),
        ("adapter_exchange", "all-to-all"),
    ],
)
def test_a_choice_is_made_and_taken_back(choice: str, value: object) -> None:
    plain = megatron()
    chosen = megatron(**{choice: value})
    assert chosen.plan.framework != plain.plan.framework
    assert chosen.plan.to_dict()[choice] == value != plain.plan.to_dict()[choice]
    assert replace(chosen.plan, **{choice: None}).framework == plain.plan.framework


def test_a_written_plan_states_its_choices_and_loads_as_the_same() -> None:
    for plan in ({"framework_version": "core-serial"}, {"framework_version": "bridge-26.06", "fused_loss": False}):
        scenario = megatron(**plan)
        again = scenario_from_mapping(to_mapping(scenario))
        assert again.plan.to_dict() == scenario.plan.to_dict()
        assert profile_of(again).step_time_s == profile_of(scenario).step_time_s


def test_states_of_one_format_take_and_move_half() -> None:
    wide, half = (
        training(model="gpt-1.3b", plan={"framework": "fsdp", "micro_batch": 1, "state_dtype": dtype}).plan.framework
        for dtype in ("fp32", "bf16")
    )
    assert half.memory.states.weights == wide.memory.states.weights / 2
    assert half.kernels.optimizer_traffic == wide.kernels.optimizer_traffic / 2


def test_unfused_kernels_move_what_their_passes_do() -> None:
    """An RMSNorm in seven kernels, forward: 28 bytes of fp32 and 8 of bf16 an element, instead of 4."""

    def traffic(part: str, **plan: Any) -> list[float]:
        plan = {"framework": "megatron", "micro_batch": 1, **plan}
        layer = write_out(training(model="llama-2-7b", cluster="8x h100-sxm-80gb", global_batch=8, plan=plan)).layers[0]
        return [float(op.bytes) for op in layer.forward if op.part == part]

    for part, choice, times in (
        ("norm", "fused_norm", 9.0),
        ("rope", "fused_rope", 5.0),
        ("activation", "fused_activation", 5 / 3),
    ):
        fused, apart = traffic(part), traffic(part, **{choice: False})
        assert apart == pytest.approx([times * size for size in fused])
        assert traffic(part, framework="transformers", **{choice: True}) == pytest.approx(fused)


@pytest.mark.parametrize(("version", "fused"), [("0.4", False), ("0.5", True), ("0.18", True)])
def test_megatron_rotates_in_one_kernel_from_core_0_5_on(version: str, fused: bool) -> None:
    stated = megatron(framework_version=version).plan.to_dict()
    assert (stated["fused_norm"], stated["fused_rope"], stated["fused_activation"]) == (True, fused, fused)


def test_a_kernel_for_all_experts_waits_for_no_counts() -> None:
    each, grouped = (megatron(expert_launches=how).plan.framework.transformer_engine for how in ("each", "grouped"))
    assert (each.launches_each_expert, each.waits_for_counts) == (True, True)
    assert (grouped.launches_each_expert, grouped.waits_for_counts) == (False, False)


def test_a_stated_attention_kernel_is_the_one_that_runs() -> None:
    times = {
        kernel: profile_of(megatron(attention_kernel=kernel)).phases["backward"] for kernel in ("flash-1", "flash-3")
    }
    assert times["flash-3"] < times["flash-1"]


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({"framework": "litgpt", "state_dtype": "fp32"}, "plan.state_dtype is 'fp32'"),
        (
            {"framework_version": "2022", "fused_loss": True},
            "plan.fused_loss is true",
        ),
        ({"framework": "fsdp", "overlap_gradient_reduce": False}, "plan.overlap_gradient_reduce is false"),
        (
            {"attention_kernel": "triton"},
            "plan.attention_kernel is 'triton'",
        ),
    ],
)
def test_a_choice_that_a_framework_does_not_offer_is_refused(plan: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as refused:
        megatron(**plan)
    assert said in str(refused.value)

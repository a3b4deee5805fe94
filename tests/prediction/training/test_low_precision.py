"""What low precision and interleaving change of a whole step."""

from dataclasses import replace

import pytest
from training_scenarios import behaving, training

from sightline.prediction.training.step_profile import profile_of
from sightline.profile import Profile


def step(groups: bool = True, stages: int = 4, virtual_stages: int = 2, global_batch: int = 64) -> Profile:
    scenario = training(
        model="llama-3-70b",
        cluster="128x b200-sxm-180gb",
        sequence_length=1024,
        global_batch=global_batch,
        plan={
            "framework": "megatron",
            "framework_version": "bridge",
            "dtype": "fp8",
            "micro_batch": 1,
            "zero_stage": 1,
            "tensor_parallel": 8,
            "pipeline_parallel": stages,
            "virtual_stages": virtual_stages,
        },
    )
    framework = behaving(scenario.plan.framework, {"overlap.interleaved_groups": groups})
    return profile_of(replace(scenario, plan=replace(scenario.plan, framework=framework)))


def test_interleaved_stages_hide_transfers_behind_a_group_of_micro_batches() -> None:
    grouped, alone = step(), step(groups=False)
    exposed = "communication_exposed"
    assert grouped.phases[exposed] < alone.phases[exposed]
    assert {k: v for k, v in grouped.phases.items() if k != exposed} == {
        k: v for k, v in alone.phases.items() if k != exposed
    }


@pytest.mark.parametrize("plan", [{"virtual_stages": 1}, {"stages": 1, "virtual_stages": 1}])
def test_without_interleaving_there_is_no_group(plan: dict[str, int]) -> None:
    assert step(**plan).step_time_s == step(groups=False, **plan).step_time_s


def test_a_version_adds_to_what_its_framework_offers() -> None:
    offers = step().scenario.plan.framework.offers
    assert offers["zero_stage"] == (0, 1, 3)
    assert "fp8" in offers["dtype"]

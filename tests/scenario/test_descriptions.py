"""The small rules of clusters, workloads and plans."""

from dataclasses import FrozenInstanceError, replace

import pytest
from training_scenarios import training

from sightline.scenario import Finetune, Pretrain

SCENARIO = training(model="gpt-125m", cluster="8x a100-sxm-80gb", global_batch=8, plan={"micro_batch": 1})


@pytest.mark.parametrize(("devices", "nodes"), [(1, 1), (8, 1), (9, 2), (16, 2), (20, 3)])
def test_the_last_node_may_not_be_full(devices, nodes):
    assert replace(SCENARIO.cluster, devices=devices, per_node=8).nodes == nodes


@pytest.mark.parametrize(("kind", "task"), [(Pretrain, "pretrain"), (Finetune, "finetune")])
def test_a_step_has_the_tokens_of_its_samples(kind, task):
    workload = kind(sequence_length=350, global_batch=16)
    assert workload.tokens_per_step == 5600
    assert workload.task == task
    assert workload.total_tokens is None


def test_descriptions_cannot_be_changed():
    for description, field in (
        (SCENARIO, "name"),
        (SCENARIO.model, "layers"),
        (SCENARIO.cluster, "devices"),
        (SCENARIO.cluster.device, "tdp_w"),
        (SCENARIO.workload, "global_batch"),
        (SCENARIO.plan, "zero_stage"),
        (SCENARIO.plan.framework, "name"),
    ):
        with pytest.raises(FrozenInstanceError):
            setattr(description, field, 1)


def test_descriptions_take_names_and_no_positions():
    with pytest.raises(TypeError):
        Pretrain(350, 16)


def test_an_open_micro_batch_is_no_number():
    assert SCENARIO.plan.sequences == 1
    with pytest.raises(ValueError, match="not set"):
        _ = replace(SCENARIO.plan, micro_batch=None).sequences


def test_a_plan_as_a_mapping_names_its_framework():
    mapping = SCENARIO.plan.to_dict()
    assert mapping["framework"] == "reference"
    assert "framework_version" not in mapping
    assert mapping["data_parallel"] == 8
    core = training(model="gpt-125m", plan={"framework": "megatron", "framework_version": "0.12.1", "micro_batch": 1})
    assert core.plan.to_dict()["framework_version"] == "0.12"

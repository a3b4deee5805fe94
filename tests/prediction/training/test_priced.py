"""Plans that share a micro-batch share its program and prices; what they are predicted to take is what each takes alone."""

from dataclasses import replace
from typing import Any

import pytest
from training_scenarios import training

from sightline.content import forget
from sightline.prediction.training.constants import believed_constants
from sightline.prediction.training.priced import HOST_TIMES, on_host, price
from sightline.prediction.training.step_profile import predict
from sightline.scenario import Scenario
from sightline.scenario.techniques import Recomputation


def scenario(**plan: Any) -> Scenario:
    fields = {"micro_batch": 1, "framework": "megatron", "tensor_parallel": 4, "pipeline_parallel": 4, **plan}
    return training(cluster="64x a100-sxm-80gb", global_batch=64, plan=fields)


CHANGES: list[dict[str, Any]] = [
    {"pipeline_parallel": 8, "data_parallel": 2},
    {"zero_stage": 1},
    {"virtual_stages": 2},
    {"schedule": "zero-bubble"},
    {"schedule": "dualpipe"},
    {"offload": frozenset({"optimizer"})},
    {"data_parallel_shard": 2, "zero_stage": 3},
    {"micro_batch": 2},
    {"recompute": Recomputation(layers=2), "pipeline_parallel": 8, "data_parallel": 2},
    {"sequence_parallel": True},
    {"optimizer": "muon"},
]


@pytest.mark.parametrize("change", CHANGES, ids=" ".join)
def test_a_plan_is_predicted_from_shared_prices_as_if_alone(change):
    first = scenario()
    forget()
    predict(first)
    other = replace(first, plan=replace(first.plan, **change))
    shared = predict(other)
    forget()
    alone = predict(other)
    assert shared.step_time_s == alone.step_time_s
    assert dict(shared.phases) == dict(alone.phases)
    assert dict(shared.memory_bytes) == dict(alone.memory_bytes)


def test_what_a_micro_batch_does_not_depend_on_prices_it_once():
    first = scenario()
    forget()
    one = price(first)
    longer = replace(first, workload=replace(first.workload, global_batch=128), name="longer")
    assert price(longer).program is one.program
    assert price(longer).scenario is longer
    assert price(replace(first, plan=replace(first.plan, tensor_parallel=8))).program is not one.program


def test_a_faster_host_launches_in_less_time():
    constants = believed_constants(scenario())
    host = scenario().cluster.host
    fast = on_host(constants, replace(host, speed=1.6))
    for name in HOST_TIMES:
        assert getattr(fast, name) == pytest.approx(getattr(constants, name) / 1.6)
    assert replace(fast, **{name: getattr(constants, name) for name in HOST_TIMES}) == constants
    assert on_host(constants, replace(host, speed=1.0)) is constants


@pytest.mark.parametrize("framework", ["megatron", "fsdp", "deepspeed", "torchtitan", "transformers"])
def test_a_faster_host_shortens_small_steps_under_every_framework(framework):
    small = training(model="gpt-125m", sequence_length=128, plan={"framework": framework, "micro_batch": 1})

    def host_s(speed: float) -> float:
        host = replace(small.cluster.host, speed=speed)
        return float(predict(replace(small, cluster=replace(small.cluster, host=host))).phases["host"])

    assert host_s(0.75) > host_s(1.0) > host_s(1.5) > 0

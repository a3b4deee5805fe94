"""On a processor the code of fully sharded data parallelism counts; on accelerators and unsharded it costs nothing."""

from dataclasses import replace

import numpy as np
import pytest

from sightline.cost.device_model import Update
from sightline.cost.processor import ProcessorModel
from sightline.cost.processor_constants import ShardingConstants, load_processor
from sightline.loading import scenario_from_mapping
from sightline.prediction.training.data_parallel import Replica, movement, sharding_code_s
from sightline.prediction.training.stages import DenseAndExperts

NOTHING = dict.fromkeys(ShardingConstants.__dataclass_fields__, 0.0)
MACHINE = load_processor("processor", "fp32")
REPLICA = Replica(
    parameters=DenseAndExperts(1e6, 0.0),
    stored_bytes=DenseAndExperts(4e6, 0.0),
    embedding_and_head_bytes=1e6,
    layers=3.0,
    forward_s=0.0,
    backward_s=0.0,
    micro_batches=2.0,
)


def plan_of(framework="fsdp", zero_stage=3):
    return scenario_from_mapping(
        {
            "model": "gpt-125m",
            "cluster": "2x this-machine",
            "workload": {"task": "pretrain", "sequence_length": 128, "global_batch": 2},
            "plan": {"framework": framework, "dtype": "fp32", "data_parallel": 2, "zero_stage": zero_stage},
        }
    )


def seconds(scenario, **constants):
    machine = replace(MACHINE, sharding=ShardingConstants(**{**NOTHING, **constants}))
    moves = movement(REPLICA, scenario.plan)
    return sharding_code_s(
        moves, REPLICA.layers, scenario.plan, ProcessorModel(device=scenario.cluster.device, given=machine)
    )


@pytest.mark.parametrize(("stage", "gathers", "gathered"), [(2, 2 * 4, 2 * 4e6), (3, 2 * 4 + 2 * 3, 2 * 4e6 + 2 * 3e6)])
def test_every_layer_is_a_unit_and_the_root_is_not_gathered_again(stage, gathers, gathered) -> None:
    scenario = plan_of(zero_stage=stage)
    bandwidth = scenario.cluster.device.memory_bandwidth
    assert seconds(scenario, gather_call_s=1.0) == pytest.approx(gathers)
    assert seconds(scenario, reduce_call_s=1.0) == pytest.approx(2 * 4)
    assert seconds(scenario, gather_passes=1.0) == pytest.approx(gathered / bandwidth)
    assert seconds(scenario, reduce_passes=1.0) == pytest.approx(2 * 4e6 / bandwidth)


def test_other_frameworks_and_machines_without_the_constants_have_none() -> None:
    assert seconds(plan_of("deepspeed"), gather_call_s=1.0) == 0
    scenario = plan_of()
    bare = replace(MACHINE, sharding=None)
    moves = movement(REPLICA, scenario.plan)
    model = ProcessorModel(device=scenario.cluster.device, given=bare)
    assert sharding_code_s(moves, 3.0, scenario.plan, model) == 0
    assert updated(model, sharded=1.0) == updated(model, sharded=0.0)


def test_a_mesh_of_stages_is_every_stage() -> None:
    scenario = plan_of()
    each = [seconds(plan_of(zero_stage=s), gather_call_s=1.0, reduce_passes=2.0) for s in (2, 3)]
    mesh = replace(scenario, plan=replace(scenario.plan, zero_stage=np.array([2, 3])))
    assert seconds(mesh, gather_call_s=1.0, reduce_passes=2.0) == pytest.approx(each)


def test_the_update_of_sharded_tensors_takes_longer() -> None:
    machine = replace(MACHINE, sharding=ShardingConstants(**{**NOTHING, "update_call_s": 1.0, "update_tensor_s": 0.5}))
    model = ProcessorModel(device=plan_of().cluster.device, given=machine)
    assert updated(model, sharded=1.0) - updated(model, sharded=0.0) == pytest.approx(3.0)


def updated(model, sharded):
    """Seconds of an update of four tensors."""
    return model.update_s(Update(1e6, 1e5, 4.0, sharded, lambda: 0.0))

"""Constants of sharding come back from steps that were made up with them; what is not measured is not said."""

from dataclasses import replace

import numpy as np
import pytest

from sightline.calibration.processor.operator_constants import NEUTRAL
from sightline.calibration.processor.small_models import (
    KINDS,
    LARGE,
    _communication_s,
    _update_s,
    fewer_cores,
    module_times,
    prices_with,
    sharding_constants,
    sharding_scenarios,
)
from sightline.cost.collectives.libraries import cluster_collectives
from sightline.cost.processor_constants import ShardingConstants, load_processor
from sightline.prediction.training.constants import TrainingConstants
from sightline.program import write_out

KNOWN = ShardingConstants(
    gather_call_s=2e-3,
    gather_passes=4.0,
    reduce_call_s=1e-3,
    reduce_passes=1.5,
    update_call_s=2e-3,
    update_tensor_s=7e-5,
)
MACHINE = replace(load_processor("processor", "fp32"), cores=2.0, sharding=None, fewer_cores={})
LIBRARY = cluster_collectives(sharding_scenarios("fp32")[0].cluster)
CONSTANTS = TrainingConstants.from_mapping(NEUTRAL)


@pytest.fixture(scope="module")
def scenarios():
    """On a processor with two cores, whatever this one has."""
    found = sharding_scenarios("fp32")
    return [
        replace(s, cluster=replace(s.cluster, device=replace(s.cluster.device, compute_units=1, l2_bytes=2e7)))
        for s in found
    ]


def made_up(scenarios, sharding):
    machine = replace(MACHINE, sharding=sharding)
    return [
        {
            "communication_exposed": _communication_s(s, machine, library=LIBRARY, constants=CONSTANTS),
            "optimizer": _update_s(s, machine),
        }
        for s in scenarios
    ]


def test_constants_come_back_from_the_steps_made_up_with_them(scenarios) -> None:
    found = sharding_constants(made_up(scenarios, KNOWN), scenarios, MACHINE, LIBRARY, CONSTANTS)
    assert found == pytest.approx({f: getattr(KNOWN, f) for f in found}, rel=0.01)
    assert set(found) == set(ShardingConstants.__dataclass_fields__)


def test_steps_as_fast_as_their_collectives_leave_nothing_to_sharding(scenarios) -> None:
    found = sharding_constants(made_up(scenarios, None), scenarios, MACHINE, LIBRARY, CONSTANTS)
    assert set(found.values()) == {0.0}


def test_the_root_is_gathered_once_and_layers_twice(scenarios) -> None:
    of_bytes = replace(KNOWN, **dict.fromkeys(ShardingConstants.__dataclass_fields__, 0.0))
    two, three = scenarios[LARGE], scenarios[LARGE + 1]
    again = [
        _communication_s(s, replace(MACHINE, sharding=replace(of_bytes, gather_passes=1.0)), LIBRARY, CONSTANTS)
        for s in (two, three)
    ]
    bare = [_communication_s(s, replace(MACHINE, sharding=of_bytes), LIBRARY, CONSTANTS) for s in (two, three)]
    program = write_out(two)
    layers = sum(block.count * block.stored_bytes(4.0) for block in program.layers)
    more_s = (again[1] - bare[1]) - (again[0] - bare[0])
    assert more_s == pytest.approx(float(layers) / two.cluster.device.memory_bandwidth)


def test_cores_of_their_own_come_back_by_kind_of_operator(scenarios) -> None:
    scenario = scenarios[LARGE]
    shares = {
        way: {kind: float(x) for kind, x in zip(KINDS, values, strict=True)}
        for way, values in (("forward", (1.1, 0.8, 0.9)), ("backward", (0.9, 0.7, 1.0)))
    }
    program = write_out(scenario)
    prices = prices_with(program, scenario, CONSTANTS, replace(MACHINE, fewer_cores=shares))
    (layer,) = program.layers
    rows = [
        {
            "phase": way,
            "block": "layer",
            "module": op.module,
            "time_s": layer.count * float(np.max(op.count * prices[id(op)].time_s)),
        }
        for way in shares
        for op in getattr(layer, way)
    ]
    found = fewer_cores(module_times(rows), scenario, MACHINE, CONSTANTS)
    for way, kinds in shares.items():
        assert found[way] == pytest.approx(kinds, rel=0.01)

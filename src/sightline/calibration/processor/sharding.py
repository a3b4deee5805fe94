"""What sharded training on two processes of this machine tells: the code of sharding, and what fewer cores serve well.

The same models that tell of calls and cold caches are trained once more, each parameter sharded over two
processes. What their communication takes beyond its collectives is sharding's own; the largest one's modules tell how
much more two processes get out of their share of the cores than one process does.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial

import numpy as np
from scipy.optimize import nnls

from sightline.calibration.processor.dispatch import (
    COLD,
    FEW,
    MANY,
    PASSES,
    measured_step,
    model_of,
    operators_alone,
    prices_with,
)
from sightline.cost.collectives.constants import CollectiveConstants
from sightline.cost.processor.constants import ProcessorConstants, ShardingConstants
from sightline.cost.processor.prices import ATTENTION, ELEMENTWISE, PRODUCTS, kind_of
from sightline.prediction.training.constants import TrainingConstants
from sightline.prediction.training.data_parallel import Replica, data_parallel_time, replication
from sightline.prediction.training.stages import program_sizes, stage_contents
from sightline.prediction.training.update import elementwise_s
from sightline.program import Collective, Operator, write_out
from sightline.quantities import significant
from sightline.scenario import Scenario

SUITE = "sharding"
"""Suite that their runs bear."""
PROCESSES = 2
LARGE = -2
"""Where the model that no cache holds stands among the scenarios, with ZeRO-2."""
NAMES = tuple(f.name for f in fields(ShardingConstants))
COMMUNICATION, OPTIMIZER = "communication_exposed", "optimizer"
KINDS: Mapping[str, Sequence[str]] = {
    ELEMENTWISE: ("attention norm", "rope", "mlp norm"),
    ATTENTION: ("attention core",),
    PRODUCTS: ("qkv", "output projection", "mlp"),
}
"""Modules whose time is mostly of one kind of operator; what is not has been told by the kinds before."""
Measured = Mapping[str, float]
"""Seconds of a step's phases (communication_exposed, optimizer) and of its modules (forward layer qkv)."""


def sharding_scenarios(dtype: str) -> list[Scenario]:
    """Return the training steps of two processes that share this machine and a model's parameters."""
    asked = ((FEW, 2), (MANY, 2), (MANY, 3), (COLD, 2), (COLD, 3))
    return [measured_step(model, dtype, PROCESSES, stage) for model, stage in asked]


def sharding_constants(
    steps: Sequence[Measured],
    scenarios: Sequence[Scenario],
    machine: ProcessorConstants,
    library: CollectiveConstants,
    constants: TrainingConstants,
) -> dict[str, float]:
    """Return what sharding takes but for the collectives that ``library`` knows, as the steps of ``scenarios`` tell it.

    Every constant counts in proportion in what is predicted, so that what is left of the measured seconds is a sum of
    them; none is below zero, and each step weighs alike.
    """
    bare = replace(machine, sharding=None)
    alone = [
        replace(bare, sharding=ShardingConstants(**{f.name: float(f.name == name) for f in fields(ShardingConstants)}))
        for name in NAMES
    ]

    def told(phase: str, seconds: Callable[[Scenario, ProcessorConstants], float]) -> dict[str, float]:
        measured = np.array([step[phase] for step in steps])
        known = np.array([seconds(scenario, bare) for scenario in scenarios])
        each = np.array([[seconds(scenario, one) for one in alone] for scenario in scenarios]) - known[:, None]
        used = each.any(axis=0)
        found = nnls(each[:, used] / measured[:, None], np.maximum(measured - known, 0.0) / measured)[0]
        return dict(zip(np.array(NAMES)[used].tolist(), (significant(x) for x in found), strict=True))

    return told(COMMUNICATION, partial(_communication_s, library=library, constants=constants)) | told(
        OPTIMIZER, _update_s
    )


def fewer_cores(
    step: Measured, scenario: Scenario, machine: ProcessorConstants, constants: TrainingConstants
) -> dict[str, dict[str, float]]:
    """Return by pass and kind of operator how long ``step``'s modules took over what a share of the cores predicts.

    Threads of one process wait for each other and for what the others made; single ones have it in their own cache.
    """
    program = write_out(scenario)
    (layer,) = program.layers
    even = replace(machine, fewer_cores={})
    own, whole = (prices_with(program, scenario, constants, m) for m in (operators_alone(even), even))
    found: dict[str, dict[str, float]] = {way: {} for way in PASSES}
    for way in PASSES:
        operators: Sequence[Operator] = getattr(layer, way)
        for kind, modules in KINDS.items():
            here = [op for op in operators if op.module in modules and not isinstance(op, Collective)]
            around_s = sum(float(op.count * (whole[id(op)].time_s - own[id(op)].time_s)) for op in here)
            by_kind = dict.fromkeys(KINDS, 0.0)
            for op in here:
                by_kind[kind_of(op)] += float(op.count * own[id(op)].time_s)
            others_s = sum(by_kind[other] * factor for other, factor in found[way].items())
            measured_s = sum(step[f"{way} layer {module}"] for module in modules) / layer.count
            found[way][kind] = significant(max(measured_s - around_s - others_s, 0.0) / by_kind[kind])
    return found


def _communication_s(
    scenario: Scenario, machine: ProcessorConstants, library: CollectiveConstants, constants: TrainingConstants
) -> float:
    """Seconds of a step's collectives and of sharding's own code."""
    plan, cluster = scenario.plan, scenario.cluster
    stage = stage_contents(scenario).first
    program = program_sizes(write_out(scenario), plan)
    sizes = program.of(stage)
    replica = Replica(
        parameters=sizes.trained,
        stored_bytes=sizes.stored,
        embedding_and_head_bytes=program.embedding_and_head_bytes(stage),
        layers=stage.layers,
        forward_s=0.0,
        backward_s=0.0,
        micro_batches=1.0,
    )
    on = replication(plan, cluster, library, constants, model_of(machine, scenario))
    return float(data_parallel_time(replica, on).exposed_s)


def _update_s(scenario: Scenario, machine: ProcessorConstants) -> float:
    """Seconds of a step's update."""
    program = write_out(scenario)
    stage = stage_contents(scenario).first
    parameters = program_sizes(program, scenario.plan).of(stage).trained.total / scenario.plan.shards
    traffic_bytes = parameters * scenario.plan.framework.kernels.optimizer_traffic
    return float(elementwise_s(scenario, program, model_of(machine, scenario), stage.layers, traffic_bytes))

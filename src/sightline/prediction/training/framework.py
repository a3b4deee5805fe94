"""What a training framework makes of its operators' prices."""

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from sightline.cost.collectives.groups import Group, data_group, pipeline_boundary, ring_neighbours, tensor_group
from sightline.cost.device_model import DeviceModel
from sightline.cost.l2 import least_s
from sightline.cost.operator_cost import OperatorCost
from sightline.cost.prices import Prices
from sightline.frameworks.own_groups import Ideal
from sightline.prediction.pass_times import in_setting
from sightline.prediction.training.constants import TrainingConstants
from sightline.program import Collective, Elementwise, Matmul, Operator
from sightline.program.address import GRADIENTS_OF_LINEAR
from sightline.program.techniques.context_parallel import head_ranks
from sightline.quantities import Number, either, larger
from sightline.scenario import Scenario

HEAD = "head"


def in_framework(
    operators: Iterable[Operator],
    prices: Prices,
    scenario: Scenario,
    constants: TrainingConstants,
    model: DeviceModel,
) -> Prices:
    """Return the prices of operators as they run inside a training step on devices of ``model``."""
    ideal = scenario.plan.framework.ideal
    inside = partial(_time_s, scenario=scenario, c=constants)
    return in_setting(
        operators, prices, inside if ideal is None else partial(_ideal_time_s, ideal=ideal, model=model, others=inside)
    )


def _ideal_time_s(
    op: Operator,
    cost: OperatorCost,
    ideal: Ideal,
    model: DeviceModel,
    others: Callable[[Operator, OperatorCost], Number],
) -> Number:
    """Seconds of the largest leg: arithmetic, bytes of the memory, bytes across L2."""
    if isinstance(op, Collective):
        return others(op, cost)
    return least_s(op, cost, model, peak_share=ideal.peak, bandwidth_share=ideal.bandwidth)


def _time_s(op: Operator, cost: OperatorCost, scenario: Scenario, c: TrainingConstants) -> Number:
    match op:
        case Elementwise():
            return cost.time_s
        case Matmul():
            slowdown = c.matmul_slowdown * c.format_slowdown(op.kernel) * _slowdown_of_module(op, scenario, c)
            # A board that clocks above its datasheet has a slowdown below 1, but stays behind the datasheet's peak.
            return larger(cost.time_s * slowdown, cost.compute_s)
        case Collective():
            # A stage waits for the one before it in the pipeline's schedule, not here.
            if op.ranks == "stages":
                return c.collective_slowdown * cost.time_s
            ranks = training_groups(scenario)(op.ranks).size
            return c.collective_slowdown * cost.time_s + c.synchronization_s * np.log2(ranks)
    return cost.time_s * c.attention_slowdown


def _slowdown_of_module(op: Matmul, scenario: Scenario, c: TrainingConstants) -> Number:
    """Time of a product over that of others, by the module that it belongs to and the pass."""
    slowdown: Number = 1.0
    if op.module == HEAD:
        slowdown = either(scenario.plan.tensor_parallel == 1, c.unsharded_head_slowdown, 1.0)
    elif op.module == "experts" and scenario.plan.framework.transformer_engine.launches_each_expert:
        slowdown = c.expert_matmul_slowdown
    if op.kernel == "fp8" and op.direction in GRADIENTS_OF_LINEAR:
        slowdown = slowdown * c.exact_gradients_slowdown
    return slowdown


def training_groups(scenario: Scenario) -> Callable[[str], Group]:
    """Return who takes part in the collectives of a training pass, by the kind of ranks.

    Ranks are numbered tensor-parallel first, then context-parallel, then data-parallel.
    """
    plan, cluster = scenario.plan, scenario.cluster

    def group(ranks: str) -> Group:
        match ranks:
            case "expert":
                return data_group(plan.expert_tensor_parallel, plan.expert_parallel, cluster)
            case "expert tensor":
                return data_group(1, plan.expert_tensor_parallel, cluster)
            case "context" | "context heads":
                by_heads = ranks == "context heads"
                split = head_ranks(plan, scenario.model, cluster.per_node) if by_heads else plan.context_parallel
                return data_group(plan.tensor_parallel, split, cluster)
            case "stages":
                return pipeline_boundary(plan.tensor_parallel, plan.replicas, cluster)
            case "context ring":
                return ring_neighbours(plan.tensor_parallel * plan.context_parallel, cluster)
        return tensor_group(plan.tensor_parallel, cluster)

    return group

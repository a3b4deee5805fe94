"""What a training framework makes of its operators' prices: slowdowns by what an operator is and where it stands."""

from collections.abc import Callable, Iterable

import numpy as np

from sightline.cost.collectives.groups import Group, data_group, ring_neighbours, tensor_group
from sightline.cost.operator_cost import OperatorCost
from sightline.cost.prices import Prices
from sightline.prediction.framework_constants import TrainingConstants
from sightline.program import Collective, Elementwise, Matmul, Operator
from sightline.program.address import GRADIENTS_OF_LINEAR
from sightline.quantities import Count, Number, either, larger
from sightline.scenario import Scenario
from sightline.scenario.context_exchange import head_ranks

HEAD = "head"


def in_framework(
    operators: Iterable[Operator], prices: Prices, scenario: Scenario, constants: TrainingConstants
) -> Prices:
    """Return the prices of operators as they run inside a training step."""
    group = training_groups(scenario)
    return {id(op): _in_step(op, prices[id(op)], scenario.plan.tensor_parallel, group, constants) for op in operators}


def _in_step(
    op: Operator, cost: OperatorCost, tensor_parallel: Count, group: Callable[[str], Group], c: TrainingConstants
) -> OperatorCost:
    match op:
        case Elementwise():
            return cost
        case Matmul():
            slowdown = c.matmul_slowdown * c.format_slowdown(op.kernel) * _slowdown_of_module(op, tensor_parallel, c)
            # A board that clocks above its datasheet has a slowdown below 1, but stays behind the datasheet's peak.
            return OperatorCost(larger(cost.time_s * slowdown, cost.compute_s), cost.compute_s, cost.memory_s)
        case Collective():
            time_s = c.collective_slowdown * cost.time_s + c.meeting_s * np.log2(group(op.ranks).size)
            return OperatorCost(time_s, cost.compute_s, cost.memory_s)
    return OperatorCost(cost.time_s * c.attention_slowdown, cost.compute_s, cost.memory_s)


def _slowdown_of_module(op: Matmul, tensor_parallel: Count, c: TrainingConstants) -> Number:
    """Time of a product over that of others, by the module that it belongs to and the pass."""
    slowdown: Number = 1.0
    if op.module == HEAD:
        slowdown = either(tensor_parallel == 1, c.unsharded_head_slowdown, 1.0)
    elif op.module == "experts":
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
            case "context":
                return data_group(plan.tensor_parallel, plan.context_parallel, cluster)
            case "context heads":
                shared = head_ranks(plan, scenario.model, cluster.per_node)
                return data_group(plan.tensor_parallel, shared, cluster)
            case "context ring":
                return ring_neighbours(plan.tensor_parallel * plan.context_parallel, cluster)
        return tensor_group(plan.tensor_parallel, cluster)

    return group

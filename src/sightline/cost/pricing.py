"""The price of every operator of a program: operators of one kind are stacked and priced in one call."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from sightline.cost.alike import stacked
from sightline.cost.attention.constants import load_attention
from sightline.cost.attention.fused import attention_cost
from sightline.cost.collectives.collective import collective_time
from sightline.cost.collectives.families import cluster_collectives
from sightline.cost.collectives.groups import Group, data_group, ring_neighbours, tensor_group
from sightline.cost.elementwise import elementwise_cost
from sightline.cost.families import family_of
from sightline.cost.matmul.constants import load_matmul
from sightline.cost.matmul.dense import matmul_cost
from sightline.cost.mixers.prices import (
    price_convolution,
    price_gated_delta,
    price_indexer,
    price_selected,
    price_state_space,
)
from sightline.cost.operator_cost import OperatorCost
from sightline.cost.processor.constants import load_processor, processor_family
from sightline.cost.processor_pricing import price_on_processor
from sightline.cost.training_constants import TrainingConstants
from sightline.program import Collective, Elementwise, FlashAttention, Matmul, Operator, Program
from sightline.program.address import GRADIENTS_OF_LINEAR
from sightline.program.expert_exchange import MODULE as EXPERTS
from sightline.program.mixer_operators import GatedDelta, Indexer, SelectedAttention, ShortConvolution, StateSpaceScan
from sightline.program.routing import distinct_ranks
from sightline.quantities import Number, identity
from sightline.scenario import Device, Scenario
from sightline.scenario.context_exchange import head_ranks
from sightline.scenario.low_precision import rate_dtype

Prices = dict[int, OperatorCost]
"""Price by the operator's identity (a recomputed operator is the forward's own object)."""


def mesh_axes(scenario: Scenario) -> int:
    """Number of axes that the plan's degrees and the device's numbers span; 0 for a single plan on one device."""
    plan, d = scenario.plan, scenario.cluster.device
    degrees = (
        *(plan.tensor_parallel, plan.sequences, plan.sequence_parallel),
        *(plan.context_parallel, plan.expert_parallel, plan.expert_tensor_parallel),
        # Operators are the same on a pipeline of any length, but for what whole gradients move.
        *((plan.pipeline_parallel,) if plan.framework.native.pipeline_accumulation_traffic else ()),
    )
    rates = (
        *(d.peak_flops[dtype] for dtype in (rate_dtype(plan.dtype), plan.wide_dtype)),
        *(d.memory_bandwidth, d.vector_flops, d.l2_bandwidth, d.l2_bytes, d.compute_units),
    )
    return max(np.ndim(x) for x in (*degrees, *rates))


def price_program(program: Program, scenario: Scenario, constants: TrainingConstants) -> Prices:
    """Return the price of each distinct operator of ``program`` on the scenario's device and links."""
    operators = program.operators
    prices: Prices = {}
    pricing = {
        Matmul: _price_matmuls,
        FlashAttention: _price_attention,
        Elementwise: _price_elementwise,
        Collective: _price_collectives,
        **dict.fromkeys(_MIXERS, _price_mixers),
    }
    family = processor_family(scenario.cluster.device)
    if family is not None:
        prices = price_on_processor(program, scenario, constants, load_processor(family, scenario.plan.dtype))
        pricing = {Collective: _price_collectives, **dict.fromkeys(_MIXERS, _price_mixers)}
    for kind, price in pricing.items():
        chosen = [op for op in operators if type(op) is kind]
        for alike in _by_format(chosen):
            costs = price(alike, scenario, constants)
            for i, op in enumerate(alike):
                prices[id(op)] = OperatorCost(costs.time_s[i], costs.compute_s[i], costs.memory_s[i])  # type: ignore[index]
    return prices


def _by_format(operators: Sequence[Operator]) -> Iterable[Sequence[Operator]]:
    """Part products whose operands have different formats; all other operators stay together."""
    groups: dict[tuple[str, str], list[Operator]] = {}
    for op in operators:
        groups.setdefault((op.kernel, op.dtype) if isinstance(op, Matmul) else ("", ""), []).append(op)
    return groups.values()


def _price_matmuls(operators: Sequence[Operator], scenario: Scenario, constants: TrainingConstants) -> OperatorCost:
    axes = mesh_axes(scenario)
    device, first = scenario.cluster.device, cast(Matmul, operators[0])
    cost = matmul_cost(
        stacked(operators, "m", axes),
        stacked(operators, "n", axes),
        stacked(operators, "k", axes),
        stacked(operators, "batch", axes),
        row=stacked(operators, "row", axes),
        dtype=first.dtype,
        element_bytes=first.element_bytes,
        output_bytes=stacked(operators, "output_bytes", axes),
        device=device,
        # What quantizes operands is an operator of its own.
        constants=load_matmul(family_of(device, "matmul"), first.kernel).without_quantization().without_surface(),
    )
    in_head = np.array([op.module == "head" for op in operators]).reshape((-1,) + (1,) * axes)
    unsharded = in_head & (np.asarray(scenario.plan.tensor_parallel) == 1)
    of_experts = np.array([op.module == EXPERTS for op in operators]).reshape(in_head.shape)
    slowdown = np.where(unsharded, constants.unsharded_head_slowdown, 1.0) * constants.matmul_slowdown
    slowdown = slowdown * np.where(of_experts, constants.expert_matmul_slowdown, 1.0)
    slowdown = slowdown * constants.format_slowdown(first.kernel)
    if first.kernel == "fp8" and constants.exact_gradients_slowdown != 1.0:
        gradients = np.array([op.direction in GRADIENTS_OF_LINEAR for op in operators]).reshape(in_head.shape)
        slowdown = slowdown * np.where(gradients, constants.exact_gradients_slowdown, 1.0)
    # A board that clocks above its datasheet has a slowdown below 1, but stays behind the datasheet's peak.
    return cost._replace(time_s=np.maximum(cost.time_s * slowdown, cost.compute_s))


def _price_attention(operators: Sequence[Operator], scenario: Scenario, constants: TrainingConstants) -> OperatorCost:
    axes = mesh_axes(scenario)
    device = scenario.cluster.device
    backward = stacked(operators, "backward", axes) > 0
    cost = attention_cost(
        stacked(operators, "batch", axes),
        stacked(operators, "heads", axes),
        stacked(operators, "kv_heads", axes),
        # Kernels take as long as if both products were of the mean width.
        0.5 * (stacked(operators, "head_dim", axes) + stacked(operators, "value_dim", axes)),
        stacked(operators, "query_tokens", axes),
        stacked(operators, "context_tokens", axes),
        causal=stacked(operators, "causal", axes) > 0,
        backward=backward,
        dtype=scenario.plan.wide_dtype,
        device=device,
        constants=load_attention(family_of(device, "attention"), constants.attention_kernel),
    )
    return cost._replace(time_s=cost.time_s * constants.attention_slowdown)


def _price_elementwise(operators: Sequence[Operator], scenario: Scenario, constants: TrainingConstants) -> OperatorCost:
    axes = mesh_axes(scenario)
    return elementwise_cost(
        stacked(operators, "traffic_bytes", axes),
        stacked(operators, "arithmetic", axes),
        stacked(operators, "kernels", axes),
        device=scenario.cluster.device,
        constants=constants,
    )


_MIXERS: Mapping[type[Operator], Callable[[Any, Device, int], OperatorCost]] = {
    GatedDelta: price_gated_delta,
    StateSpaceScan: price_state_space,
    ShortConvolution: price_convolution,
    SelectedAttention: price_selected,
    Indexer: price_indexer,
}
"""Operators of mixers that no run of training was fitted to; processors have none of their kernels and take these."""


def _price_mixers(operators: Sequence[Operator], scenario: Scenario, constants: TrainingConstants) -> OperatorCost:
    axes = mesh_axes(scenario)
    cost = _MIXERS[type(operators[0])](operators, scenario.cluster.device, axes)
    legs = (np.broadcast_to(leg, np.broadcast_shapes(np.shape(leg), (len(operators),) + (1,) * axes)) for leg in cost)
    time_s, compute_s, memory_s = legs
    return OperatorCost(time_s * constants.attention_slowdown, compute_s, memory_s)


def _price_collectives(operators: Sequence[Operator], scenario: Scenario, constants: TrainingConstants) -> OperatorCost:
    """Tensor-parallel collectives of one kind mostly carry the same buffer, so each distinct one is priced once."""
    cluster = scenario.cluster
    library = cluster_collectives(cluster)
    found: dict[tuple[object, ...], Number] = {}
    times = []
    for op in operators:
        key = (op.kind, op.ranks, op.choices, identity(op.network_bytes))  # type: ignore[attr-defined]
        if key not in found:
            group = _group(op.ranks, scenario)  # type: ignore[attr-defined]
            alone_s = collective_time(
                op.kind,  # type: ignore[attr-defined]
                op.network_bytes,
                group=group,
                cluster=cluster,
                constants=library,
                across=_across(op.choices, group),  # type: ignore[attr-defined]
            )
            found[key] = constants.collective_slowdown * alone_s + constants.meeting_s * np.log2(group.size)
        times.append(found[key])
    nothing = [0.0 * t for t in times]
    return OperatorCost(times, nothing, nothing)  # type: ignore[arg-type]


def _across(choices: tuple[float, float, float] | None, group: Group) -> Number:
    """Copies that cross the network of those for each rank, where a node's ranks share one."""
    if choices is None:
        return 1.0
    chosen, of, share = choices
    nodes = -(-group.size // group.ranks_per_node)
    reached = distinct_ranks(of, chosen, group.size, group_share=share)
    return distinct_ranks(of, chosen, nodes, group_share=share) / reached


def _group(ranks: str, scenario: Scenario) -> Group:
    """The ranks that take part in a collective of a training pass.

    Ranks are numbered tensor-parallel first, then context-parallel, then data-parallel.
    """
    plan, cluster = scenario.plan, scenario.cluster
    match ranks:
        case "expert":
            size, inside = plan.expert_parallel, plan.expert_tensor_parallel
        case "expert tensor":
            size, inside = plan.expert_tensor_parallel, 1
        case "context":
            size, inside = plan.context_parallel, plan.tensor_parallel
        case "context heads":
            size, inside = head_ranks(plan, scenario.model, cluster.per_node), plan.tensor_parallel
        case "context ring":
            return ring_neighbours(plan.tensor_parallel * plan.context_parallel, cluster)
        case _:
            return tensor_group(plan.tensor_parallel, cluster)
    return data_group(inside, size, cluster)

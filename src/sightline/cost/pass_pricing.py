"""The price of every operator of inference passes: operators of one kind and shape are stacked and priced in one call.

Prefill and decode are priced together, so one prediction takes few NumPy calls; operators whose sizes span different
axes of a mesh are kept apart, so that nothing is computed twice.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sightline.cost.attention import attention_cost
from sightline.cost.attention_constants import load_prefill_attention
from sightline.cost.attention_families import attention_family
from sightline.cost.collective_constants import CollectiveConstants
from sightline.cost.collectives import Group, collective_time, data_group, tensor_group
from sightline.cost.decode_attention import decode_attention_cost, load_decode_attention
from sightline.cost.decode_attention_constants import vector_attention
from sightline.cost.elementwise import elementwise_cost
from sightline.cost.elementwise_constants import ElementwiseConstants, KernelGeneration, elementwise_constants
from sightline.cost.families import family_of, full_rate_family
from sightline.cost.grouped_matmul import grouped_matmul_cost
from sightline.cost.grouped_matmul_constants import GroupedLayout, load_grouped
from sightline.cost.inference_constants import UNIT_BANDWIDTH
from sightline.cost.linear_attention import gated_delta_cost
from sightline.cost.linear_attention_constants import load_linear
from sightline.cost.matmul import load_matmul, matmul_cost
from sightline.cost.operator_cost import OperatorCost
from sightline.cost.pricing import Prices, stacked
from sightline.cost.short_convolution import short_convolution_cost
from sightline.cost.sparse_attention import indexer_cost, sparse_attention_cost
from sightline.cost.sparse_attention_constants import load_sparse
from sightline.cost.state_space import state_space_cost
from sightline.program import Collective, Elementwise, Matmul, Operator
from sightline.program.inference import (
    CachedAttention,
    GatedDelta,
    GroupedMatmul,
    Indexer,
    MatrixVector,
    SelectedAttention,
    ShortConvolution,
    StateSpaceScan,
)
from sightline.program.matmul_formats import HALF_SUMS
from sightline.quantities import Count, Number
from sightline.scenario import Cluster, Device


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ranks:
    """Where a pass runs: the cluster, the degrees, the library of collectives, how kernels were written."""

    cluster: Cluster
    tensor_parallel: Count
    data_parallel: Count
    library: CollectiveConstants
    stream_kernels: KernelGeneration

    @property
    def device(self) -> Device:
        """The device of every rank."""
        return self.cluster.device

    def group(self, ranks: str) -> Group:
        """The ranks that take part in a collective."""
        if ranks == "tensor":
            return tensor_group(self.tensor_parallel, self.cluster)
        return data_group(self.tensor_parallel, self.data_parallel, self.cluster)


def price_operators(operators: Sequence[Operator], ranks: Ranks, axes: int) -> Prices:
    """Return the price of each operator; ``axes`` is the number of axes that the plans span, 0 for a single one."""
    prices: Prices = {}
    for (kind, *_), alike in _alike(operators).items():
        costs = _PRICING[kind](alike, ranks, axes)  # type: ignore[index]
        legs = (_one_by_one(leg, len(alike)) for leg in costs)
        prices |= {id(op): OperatorCost(*each) for op, *each in zip(alike, *legs, strict=True)}
    return prices


def _one_by_one(values: Number | list[Number], count: int) -> Sequence[Number]:
    """Each operator's value out of those of its stack; plain floats where they are numbers, which adds up faster."""
    if isinstance(values, list):
        return values
    stack = np.asarray(values)
    if stack.ndim == 0 or (stack.shape[0] == 1 and count > 1):
        stack = np.broadcast_to(stack, (count, *stack.shape[1:]))
    return stack.tolist() if stack.ndim == 1 else stack  # type: ignore[return-value]


_KEYS: Mapping[type[Operator], Sequence[str]] = {
    Matmul: ("kernel", "dtype"),
    MatrixVector: ("kernel", "dtype"),
    CachedAttention: ("decode", "shared_kv", "heads_apart", "window", "dtype"),
    GroupedMatmul: ("kernel", "dtype", "decode"),
    GatedDelta: ("decode", "dtype"),
    StateSpaceScan: ("decode", "dtype"),
    ShortConvolution: ("decode",),
    Indexer: ("dtype",),
    SelectedAttention: ("decode", "dtype"),
    Elementwise: (),
    Collective: ("kind", "ranks"),
}
"""Attributes that choose a kernel, so that only operators equal in them are priced in one call."""
_SIZES: Mapping[type[Operator], Sequence[str]] = {
    Matmul: ("m", "n", "k", "batch"),
    MatrixVector: ("m", "n", "k", "batch"),
    CachedAttention: ("batch", "heads", "query_tokens", "context_tokens"),
    GroupedMatmul: ("rows", "experts", "active", "n"),
    GatedDelta: ("sequences", "new_tokens", "key_heads"),
    StateSpaceScan: ("sequences", "new_tokens", "heads"),
    ShortConvolution: ("sequences", "new_tokens", "channels"),
    Indexer: ("sequences", "new_tokens", "context_tokens"),
    SelectedAttention: ("sequences", "new_tokens", "context_tokens", "heads"),
    Elementwise: ("traffic_bytes",),
    Collective: ("buffer_bytes",),
}
"""Attributes that may be arrays."""


def _alike(operators: Sequence[Operator]) -> dict[tuple[Hashable, ...], list[Operator]]:
    """Operators by kind, kernel and the shape of their sizes."""
    groups: dict[tuple[Hashable, ...], list[Operator]] = {}
    for op in operators:
        kind = type(op)
        sizes = [size for name in _SIZES[kind] if not isinstance(size := getattr(op, name), float)]
        shape = np.broadcast_shapes(*map(np.shape, sizes)) if sizes else ()
        key = (kind, *(getattr(op, name) for name in _KEYS[kind]), shape)
        groups.setdefault(key, []).append(op)
    return groups


def _price_matmuls(operators: Sequence[Matmul], ranks: Ranks, axes: int) -> OperatorCost:
    first, device = operators[0], ranks.device
    family = (full_rate_family if first.dtype == HALF_SUMS else family_of)(device, "matmul")
    return matmul_cost(
        *(stacked(operators, name, axes) for name in ("m", "n", "k", "batch")),
        dtype=first.dtype,
        element_bytes=first.element_bytes,
        weight_bytes=first.weight_bytes,
        output_bytes=first.output_bytes,
        device=device,
        # What quantizes inputs is an operator of the pass, or part of the kernel before.
        constants=load_matmul(family, first.kernel).without_quantization(),
    )


def _price_matrix_vector(operators: Sequence[MatrixVector], ranks: Ranks, axes: int) -> OperatorCost:
    """The time of few rows is what the compute units need at ``UNIT_BANDWIDTH`` each; of many, a matmul's."""
    device, m = ranks.device, stacked(operators, "m", axes)
    many = _price_matmuls(operators, ranks, axes)
    units_s = many.memory_s * device.memory_bandwidth / (device.compute_units * UNIT_BANDWIDTH)
    return many._replace(time_s=np.where(np.less_equal(m, operators[0].most_rows), units_s, many.time_s))


def _price_attention(operators: Sequence[CachedAttention], ranks: Ranks, axes: int) -> OperatorCost:
    return (_price_decode if operators[0].decode else _price_prefill)(operators, ranks, axes)


def _attention_sizes(operators: Sequence[CachedAttention], axes: int) -> list[Number]:
    names = ("batch", "heads", "kv_heads", "head_dim", "query_tokens", "context_tokens")
    return [stacked(operators, name, axes) for name in names]


def _price_prefill(operators: Sequence[CachedAttention], ranks: Ranks, axes: int) -> OperatorCost:
    first, device = operators[0], ranks.device
    return attention_cost(
        *_attention_sizes(operators, axes),
        causal=True,
        backward=False,
        dtype=first.dtype,
        device=device,
        constants=load_prefill_attention(attention_family(device, "prefill")),
        value_dim=stacked(operators, "value_dim", axes),
        kv_bytes=first.cache_bytes,
        window=first.window,
    )


def _price_decode(operators: Sequence[CachedAttention], ranks: Ranks, axes: int) -> OperatorCost:
    first, device = operators[0], ranks.device
    if first.heads_apart:
        constants = vector_attention(device.vector_flops / device.compute_units)
    else:
        family = attention_family(device, "mla-decode" if first.shared_kv else "decode")
        constants = load_decode_attention(family, "mla" if first.shared_kv else "mha")
    return decode_attention_cost(
        *_attention_sizes(operators, axes),
        value_dim=stacked(operators, "value_dim", axes),
        shared_kv=first.shared_kv,
        kv_bytes=first.cache_bytes,
        dtype=first.dtype,
        device=device,
        constants=constants,
        window=first.window,
        heads_apart=first.heads_apart,
    )


def _price_experts(operators: Sequence[GroupedMatmul], ranks: Ranks, axes: int) -> OperatorCost:
    first, device = operators[0], ranks.device
    layout: GroupedLayout = "masked" if first.decode else "contiguous"
    return grouped_matmul_cost(
        *(stacked(operators, name, axes) for name in ("rows", "experts", "n", "k")),
        active=stacked(operators, "active", axes),
        dtype=first.dtype,
        element_bytes=first.element_bytes,
        weight_bytes=first.weight_bytes,
        output_bytes=first.output_bytes,
        device=device,
        constants=load_grouped(family_of(device, "grouped"), first.kernel, layout)[0],
    )


def _price_elementwise(operators: Sequence[Elementwise], ranks: Ranks, axes: int) -> OperatorCost:
    family = family_of(ranks.device, "elementwise")
    constants = elementwise_constants([op.kind for op in operators], family, ranks.stream_kernels)
    return elementwise_cost(
        stacked(operators, "traffic_bytes", axes),
        stacked(operators, "arithmetic", axes),
        stacked(operators, "kernels", axes),
        device=ranks.device,
        constants=_shaped(constants, axes),
    )


def _shaped(constants: ElementwiseConstants, axes: int) -> ElementwiseConstants:
    """The constants of several kernels with room for the plans' axes."""
    if not axes:
        return constants

    def shaped(values: Number) -> Number:
        return np.reshape(values, (-1,) + (1,) * axes)

    return replace(
        constants,
        memory_fraction=shaped(constants.memory_fraction),
        cache_gain=shaped(constants.cache_gain),
        vector_fraction=shaped(constants.vector_fraction),
        kernel_latency_s=shaped(constants.kernel_latency_s),
    )


def _price_gated_delta(operators: Sequence[GatedDelta], ranks: Ranks, axes: int) -> OperatorCost:
    first, device = operators[0], ranks.device
    names = ("sequences", "new_tokens", "key_heads", "value_heads", "key_dim", "value_dim")
    return gated_delta_cost(
        *(stacked(operators, name, axes) for name in names),
        decode=first.decode,
        dtype=first.dtype,
        element_bytes=first.element_bytes,
        device=device,
        constants=load_linear(family_of(device, "linear"), "gated-delta")[0],
    )


def _price_state_space(operators: Sequence[StateSpaceScan], ranks: Ranks, axes: int) -> OperatorCost:
    first, device = operators[0], ranks.device
    names = ("sequences", "new_tokens", "heads", "head_dim", "groups", "state")
    return state_space_cost(
        *(stacked(operators, name, axes) for name in names),
        decode=first.decode,
        dtype=first.dtype,
        element_bytes=first.element_bytes,
        device=device,
        constants=load_linear(family_of(device, "linear"), "state-space")[0],
    )


def _price_convolution(operators: Sequence[ShortConvolution], ranks: Ranks, axes: int) -> OperatorCost:
    first, device = operators[0], ranks.device
    return short_convolution_cost(
        *(stacked(operators, name, axes) for name in ("sequences", "new_tokens", "channels", "width")),
        decode=first.decode,
        element_bytes=first.element_bytes,
        device=device,
        constants=load_linear(family_of(device, "linear"))[0],
    )


def _price_indexer(operators: Sequence[Indexer], ranks: Ranks, axes: int) -> OperatorCost:
    first, device = operators[0], ranks.device
    names = ("sequences", "new_tokens", "context_tokens", "heads", "head_dim")
    return indexer_cost(
        *(stacked(operators, name, axes) for name in names),
        dtype=first.dtype,
        key_bytes=first.key_bytes,
        device=device,
        constants=load_sparse(family_of(device, "sparse")),
    )


def _price_selected(operators: Sequence[SelectedAttention], ranks: Ranks, axes: int) -> OperatorCost:
    first, device = operators[0], ranks.device
    names = ("sequences", "new_tokens", "context_tokens", "selected_tokens", "heads", "key_dim", "value_dim")
    return sparse_attention_cost(
        *(stacked(operators, name, axes) for name in names),
        decode=first.decode,
        dtype=first.dtype,
        element_bytes=first.element_bytes,
        cache_bytes=first.cache_bytes,
        device=device,
        constants=load_sparse(family_of(device, "sparse")),
    )


def _price_collectives(operators: Sequence[Collective], ranks: Ranks, axes: int) -> OperatorCost:
    first = operators[0]
    time_s = collective_time(
        first.kind,
        stacked(operators, "buffer_bytes", axes),
        group=ranks.group(first.ranks),
        cluster=ranks.cluster,
        constants=ranks.library,
    )
    return OperatorCost(time_s, 0.0 * time_s, 0.0 * time_s)


_PRICING: Mapping[type[Operator], Callable[[Any, Ranks, int], OperatorCost]] = {
    Matmul: _price_matmuls,
    MatrixVector: _price_matrix_vector,
    CachedAttention: _price_attention,
    GroupedMatmul: _price_experts,
    GatedDelta: _price_gated_delta,
    StateSpaceScan: _price_state_space,
    ShortConvolution: _price_convolution,
    Indexer: _price_indexer,
    SelectedAttention: _price_selected,
    Elementwise: _price_elementwise,
    Collective: _price_collectives,
}

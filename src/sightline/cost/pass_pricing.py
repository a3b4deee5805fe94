"""The price of every operator of inference passes: operators of one kind and shape are stacked and priced in one call.

Prefill and decode are priced together, so one prediction takes few NumPy calls; operators whose sizes span different
axes of a mesh are kept apart, so that nothing is computed twice.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sightline.cost.attention import attention_cost
from sightline.cost.attention_constants import load_prefill_attention
from sightline.cost.attention_families import attention_family
from sightline.cost.collective_constants import CollectiveConstants
from sightline.cost.collectives import Group, collective_time, data_group, tensor_group
from sightline.cost.decode_attention import decode_attention_cost, load_decode_attention
from sightline.cost.elementwise import elementwise_cost
from sightline.cost.families import family_of
from sightline.cost.grouped_matmul import grouped_matmul_cost
from sightline.cost.grouped_matmul_constants import GroupedLayout, load_grouped
from sightline.cost.matmul import load_matmul, matmul_cost
from sightline.cost.operator_cost import OperatorCost
from sightline.cost.pricing import Prices, stacked
from sightline.cost.training_constants import load_training
from sightline.program import Collective, Elementwise, Matmul, Operator
from sightline.program.inference import CachedAttention, GatedDelta, GroupedMatmul, Indexer, StateSpaceScan
from sightline.quantities import Count, Number
from sightline.scenario import Cluster, Device


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ranks:
    """Where a pass runs: the cluster, the degrees, the library of collectives."""

    cluster: Cluster
    tensor_parallel: Count
    data_parallel: Count
    library: CollectiveConstants

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
    CachedAttention: ("decode", "shared_kv", "window", "dtype"),
    GroupedMatmul: ("kernel", "dtype", "decode"),
    GatedDelta: ("decode",),
    StateSpaceScan: ("decode",),
    Indexer: ("decode",),
    Elementwise: (),
    Collective: ("kind", "ranks"),
}
"""Attributes that choose a kernel, so that only operators equal in them are priced in one call."""
_SIZES: Mapping[type[Operator], Sequence[str]] = {
    Matmul: ("m", "n", "k", "batch"),
    CachedAttention: ("batch", "heads", "query_tokens", "context_tokens"),
    GroupedMatmul: ("rows", "experts", "active", "n"),
    GatedDelta: ("sequences", "new_tokens", "key_heads"),
    StateSpaceScan: ("sequences", "new_tokens", "heads"),
    Indexer: ("sequences", "new_tokens", "context_tokens"),
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
    return matmul_cost(
        *(stacked(operators, name, axes) for name in ("m", "n", "k", "batch")),
        dtype=first.dtype,
        element_bytes=first.element_bytes,
        weight_bytes=first.weight_bytes,
        output_bytes=first.output_bytes,
        device=device,
        constants=load_matmul(family_of(device, "matmul"), first.kernel),
    )


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
    family = attention_family(device, "mla-decode" if first.shared_kv else "decode")
    return decode_attention_cost(
        *_attention_sizes(operators, axes),
        value_dim=stacked(operators, "value_dim", axes),
        shared_kv=first.shared_kv,
        kv_bytes=first.cache_bytes,
        dtype=first.dtype,
        device=device,
        constants=load_decode_attention(family, "mla" if first.shared_kv else "mha"),
        window=first.window,
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
    return elementwise_cost(
        stacked(operators, "traffic_bytes", axes),
        stacked(operators, "arithmetic", axes),
        stacked(operators, "kernels", axes),
        device=ranks.device,
        constants=load_training(family_of(ranks.device, "training"), "reference")[0],
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
    CachedAttention: _price_attention,
    GroupedMatmul: _price_experts,
    Elementwise: _price_elementwise,
    Collective: _price_collectives,
}

"""The price of every operator of inference passes: operators of one kind and shape are stacked and priced in one call.

Prefill and decode are priced together, so one prediction takes few NumPy calls; operators whose sizes span different
axes of a mesh are kept apart, so that nothing is computed twice.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np

from sightline.cost.alike import stacked
from sightline.cost.collectives.collective import collective_time
from sightline.cost.elementwise import ElementwiseConstants, elementwise_constants, elementwise_cost
from sightline.cost.families import family_of
from sightline.cost.mixers.prices import (
    price_convolution,
    price_gated_delta,
    price_indexer,
    price_selected,
    price_state_space,
)
from sightline.cost.operator_cost import OperatorCost
from sightline.cost.pass_attention import price_attention
from sightline.cost.pass_matmuls import price_experts, price_matmuls, price_matrix_vector
from sightline.cost.pricing import Prices
from sightline.cost.ranks import Ranks
from sightline.program import Collective, Elementwise, Matmul, Operator
from sightline.program.inference import CachedAttention, GroupedMatmul, MatrixVector
from sightline.program.mixer_operators import GatedDelta, Indexer, SelectedAttention, ShortConvolution, StateSpaceScan
from sightline.quantities import PLAIN, Number
from sightline.scenario import Device


def price_operators(operators: Sequence[Operator], ranks: Ranks, axes: int) -> Prices:
    """Return the price of each operator; ``axes`` is the number of axes that the plans span, 0 for a single one."""
    prices: Prices = {}
    for (kind, *_), alike in _alike(operators).items():
        costs = _PRICING[kind](alike, ranks, axes)  # type: ignore[index]
        legs = (_one_by_one(leg, len(alike)) for leg in costs)
        prices.update(zip(map(id, alike), map(OperatorCost._make, zip(*legs, strict=True)), strict=True))
    return prices


def _one_by_one(values: Number | list[Number], count: int) -> Sequence[Number]:
    """Each operator's value out of those of its stack; plain floats where they are numbers, which adds up faster."""
    if isinstance(values, list):
        return values
    stack = np.asarray(values)
    if stack.ndim == 0:
        return [stack.item()] * count
    if stack.shape[0] == 1 and count > 1:
        stack = np.broadcast_to(stack, (count, *stack.shape[1:]))
    return stack.tolist() if stack.ndim == 1 else stack  # type: ignore[return-value]


_KEYS: Mapping[type[Operator], Sequence[str]] = {
    Matmul: ("kernel", "dtype", "element_bytes", "weight_bytes", "output_bytes"),
    MatrixVector: ("kernel", "dtype", "element_bytes", "weight_bytes", "output_bytes"),
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


def _reading(names: Sequence[str]) -> Callable[[Operator], tuple[Any, ...]]:
    """What reads these attributes of an operator as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda op: tuple(getattr(op, name) for name in names)


_SIZES_OF = {kind: _reading(names) for kind, names in _SIZES.items()}
_KEY_OF = {kind: _reading(names) for kind, names in _KEYS.items()}


def _alike(operators: Sequence[Operator]) -> dict[tuple[Hashable, ...], list[Operator]]:
    """Operators by kind, kernel and the shape of their sizes."""
    groups: dict[tuple[Hashable, ...], list[Operator]] = {}
    for op in operators:
        kind = type(op)
        sizes = _SIZES_OF[kind](op)
        shape = () if {*map(type, sizes)} <= PLAIN else np.broadcast_shapes(*map(np.shape, sizes))
        key = (kind, shape, *_KEY_OF[kind](op))
        groups.setdefault(key, []).append(op)
    return groups


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


def _on_device(price: Callable[[Any, Device, int], OperatorCost]) -> Callable[[Any, Ranks, int], OperatorCost]:
    """A price that looks at nothing but the device."""
    return lambda operators, ranks, axes: price(operators, ranks.device, axes)


_PRICING: Mapping[type[Operator], Callable[[Any, Ranks, int], OperatorCost]] = {
    Matmul: price_matmuls,
    MatrixVector: price_matrix_vector,
    CachedAttention: price_attention,
    GroupedMatmul: price_experts,
    GatedDelta: _on_device(price_gated_delta),
    StateSpaceScan: _on_device(price_state_space),
    ShortConvolution: _on_device(price_convolution),
    Indexer: _on_device(price_indexer),
    SelectedAttention: _on_device(price_selected),
    Elementwise: _price_elementwise,
    Collective: _price_collectives,
}

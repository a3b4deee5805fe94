"""The price of every operator: one registry of the kinds of operators, for training and inference alike.

A price is the time of one execution on a device of its own, whatever framework or engine runs it. Operators of one
kind, kernel and shape are stacked and priced in one call. What an entry names is imported when its kind is first met.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any

import numpy as np

from sightline.cost.operator_cost import Alike, OperatorCost, Ranks, unstacked
from sightline.on_demand import named
from sightline.program import Operator
from sightline.quantities import PLAIN, Number

Prices = dict[int, OperatorCost]
"""Price by the operator's identity (a recomputed operator is the forward's own object)."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """How one kind of operator is priced."""

    accelerator: str
    """Function of operators that are alike and of the ranks, as ``module:function`` below this package."""
    kernel: tuple[str, ...]
    """Attributes that choose a kernel: only operators equal in them are priced in one call."""
    sizes: tuple[str, ...]
    """Attributes in which they may differ, and which may be arrays."""
    l2: str
    """Function of one operator that returns the bytes that cross L2 (``sightline.cost.l2``)."""
    processor: str | None = None
    """Function of one operator, the one before it and the pass; None where no processor was measured with the kind."""


_MATMUL = ("kernel", "dtype", "element_bytes", "weight_bytes")
_MATMUL_SIZES = ("m", "n", "k", "batch", "row", "output_bytes")
_ATTENTION_SIZES = ("batch", "heads", "kv_heads", "head_dim", "value_dim", "query_tokens", "context_tokens")
_TOKENS = ("sequences", "new_tokens")
REGISTRY: Mapping[str, Entry] = {
    "Matmul": Entry("matmul:price_matmuls", _MATMUL, _MATMUL_SIZES, "l2:matmul_bytes", "processor:price_product"),
    "MatrixVector": Entry("matmul:price_matrix_vector", _MATMUL, _MATMUL_SIZES, "l2:matmul_bytes"),
    "GroupedMatmul": Entry(
        "grouped_matmul:price_experts",
        ("kernel", "dtype"),
        ("rows", "experts", "active", "n", "k", "in_slots"),
        "l2:grouped_bytes",
    ),
    "FlashAttention": Entry(
        "attention:price_fused",
        ("dtype", "causal", "direction"),
        _ATTENTION_SIZES,
        "l2:flash_bytes",
        "processor:price_attention",
    ),
    "CachedAttention": Entry(
        "attention:price_cached",
        ("decode", "shared_kv", "heads_apart", "window", "dtype"),
        _ATTENTION_SIZES,
        "l2:cached_bytes",
        "processor:price_cached_attention",
    ),
    "Elementwise": Entry(
        "elementwise:price_streams",
        (),
        ("traffic_bytes", "arithmetic", "unit_cycles", "kernels"),
        "l2:bytes_once",
        "processor:price_kernels",
    ),
    "Collective": Entry("collectives.collective:price_collectives", ("kind", "ranks"), ("buffer_bytes",), "l2:none"),
    "GatedDelta": Entry(
        "recurrent:price_gated_delta",
        ("decode", "dtype", "direction"),
        (*_TOKENS, "key_heads", "value_heads", "key_dim", "value_dim"),
        "l2:bytes_once",
    ),
    "StateSpaceScan": Entry(
        "recurrent:price_state_space",
        ("decode", "dtype", "direction"),
        (*_TOKENS, "heads", "head_dim", "groups", "state"),
        "l2:bytes_once",
    ),
    "ShortConvolution": Entry(
        "recurrent:price_convolution", ("decode", "direction"), (*_TOKENS, "channels", "width"), "l2:bytes_once"
    ),
    "Indexer": Entry(
        "recurrent:price_indexer",
        ("dtype", "direction"),
        (*_TOKENS, "context_tokens", "heads", "head_dim"),
        "l2:bytes_once",
    ),
    "SelectedAttention": Entry(
        "recurrent:price_selected",
        ("decode", "dtype", "direction"),
        (*_TOKENS, "context_tokens", "selected_tokens", "heads", "key_dim", "value_dim"),
        "l2:selected_bytes",
    ),
}
"""By the name of the operator's class."""


def price(operators: Iterable[Operator], on: Ranks, known: Prices | None = None) -> Prices:
    """Return the price of each operator, in order of execution; one that comes twice, or is ``known``, only once."""
    distinct = list({id(op): op for op in operators}.values())
    prices = dict(known or {}) if on.device_model.asynchronous else _called_one_by_one(distinct, on)
    for (kind, shape, *_), members in _alike(op for op in distinct if id(op) not in prices).items():
        alike, sizes = zip(*members, strict=True)
        axes = max(len(shape), on.device_model.axes)
        entry = REGISTRY[kind.__name__]
        costs = function(entry.accelerator)(Alike(alike, entry.sizes, sizes, axes), on)
        legs = (unstacked(leg, len(alike)) for leg in costs)
        prices.update(zip(map(id, alike), map(OperatorCost._make, zip(*legs, strict=True)), strict=True))
    return prices


def _called_one_by_one(operators: Sequence[Operator], on: Ranks) -> Prices:
    """Prices of those operators that the constants of a processor know."""
    from sightline.cost.processor import ProcessorPass

    of = ProcessorPass.on(on)
    prices: Prices = {}
    for before, op in zip([None, *operators], operators, strict=False):
        path = REGISTRY[type(op).__name__].processor
        cost = None if path is None else function(path)(op, before, of)
        if cost is not None:
            prices[id(op)] = cost
    return prices


def _alike(operators: Iterable[Operator]) -> dict[tuple[Any, ...], list[tuple[Operator, tuple[Number, ...]]]]:
    """Operators with their sizes, by kind, shape of these sizes, and kernel."""
    groups: dict[tuple[Hashable, ...], list[tuple[Operator, tuple[Number, ...]]]] = {}
    for op in operators:
        kind: Any = type(op)
        read_kernel, read_sizes = _readers(kind)
        sizes = read_sizes(op)
        shape = () if {*map(type, sizes)} <= PLAIN else np.broadcast_shapes(*map(np.shape, sizes))
        groups.setdefault((kind, shape, *read_kernel(op)), []).append((op, sizes))
    return groups


@cache
def _readers(kind: Any) -> tuple[Any, Any]:
    """What reads the attributes of a kind's entry as tuples."""
    entry = REGISTRY[kind.__name__]
    return _reader(entry.kernel), _reader(entry.sizes)


def _reader(names: tuple[str, ...]) -> Any:
    if not names:
        return lambda _: ()
    read = attrgetter(*names)
    return read if len(names) > 1 else lambda op: (read(op),)


def function(path: str) -> Any:
    """Return the function that an entry names."""
    return named(f"sightline.cost.{path}")

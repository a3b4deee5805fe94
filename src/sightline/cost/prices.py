"""The price of every operator: its time and the two roofline legs behind it, by one registry of the kinds of operators.

A price is the time of one execution on a device of its own, whatever framework or engine runs it; operators run on
ranks: every rank's device, the links between ranks, and who takes part in a collective. Operators of one kind, kernel
and shape are stacked and priced in one call. What an entry names is imported when its kind is first met.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from sightline.content import record
from sightline.cost.collectives.libraries import CollectiveConstants, Group, Links
from sightline.cost.device_model import DeviceModel
from sightline.on_demand import named
from sightline.program import Operator
from sightline.quantities import PLAIN, Number, larger


class OperatorCost(NamedTuple):
    """Seconds of one execution on a device, without the host's launch time."""

    time_s: Number
    """The kernel's time: at least the larger leg, plus its fixed latency."""
    compute_s: Number
    """Arithmetic at the datasheet's peak: the compute leg of the roofline."""
    memory_s: Number
    """Compulsory bytes at the datasheet's bandwidth: the memory leg of the roofline."""
    least_s: Number = 0.0
    """What no framework and no engine is faster than: arithmetic at the peak, bytes beyond L2 at the full bandwidth.
    0 where devices have no such bound of their own: collectives, processors."""
    arithmetic_s: Number = 0.0
    """The leg that a long product is bound by: its arithmetic at the rate that the kernel reaches. 0 for others, and of
    few rows, which go to kernels of their own."""

    @classmethod
    def on_roofline(cls, time_s: Number, compute_s: Number, memory_s: Number) -> "OperatorCost":
        """A kernel that is never faster than either leg, because little of what it reads is in L2 before it."""
        least_s = larger(compute_s, memory_s)
        return cls(larger(time_s, least_s), compute_s, memory_s, least_s)


L2_EDGE = 8.0
"""Steepness of the change from L2 to device memory as what is read again outgrows the L2."""


def kept_in_l2(read_bytes: Number, room_bytes: Number) -> Number:
    """Return the share of what was read that L2 still holds when ``read_bytes`` have passed through ``room_bytes``."""
    return 1 / (1 + (read_bytes / room_bytes) ** L2_EDGE)


@dataclass(frozen=True, eq=False)
class Alike:
    """Operators that differ in sizes only."""

    operators: Sequence[Any]
    sizes: tuple[str, ...]
    """Attributes that may differ."""
    of_each: Sequence[tuple[Number, ...]]
    """Their values of each operator."""
    axes: int
    """Axes that sizes and the device's numbers span; 0 for plain numbers."""

    @property
    def first(self) -> Any:
        """One of them, for what they all have in common."""
        return self.operators[0]

    @cached_property
    def together(self) -> Any:
        """The operator that stands for all: its sizes are theirs along a new first axis, then come a mesh's axes.

        A single operator without a mesh stands for itself: NumPy calculates several times faster with plain numbers.
        """
        if len(self.operators) == 1 and not self.axes:
            return self.first
        stacks: Iterable[Number]
        if self.axes:
            stacks = (stacked(values, self.axes) for values in zip(*self.of_each, strict=True))
        else:
            stacks = np.array(self.of_each, dtype=float).T.copy()
        # ``row`` is read where it may follow from ``k``; it is stated as ``input_row``.
        fields = ("input_row" if name == "row" else name for name in self.sizes)
        return replace(self.first, **dict(zip(fields, stacks, strict=True)))


def stacked(values: Sequence[Number], axes: int) -> Number:
    """Return one size of several operators along a new first axis, followed by the mesh's ``axes``."""
    if {*map(type, values)} <= PLAIN or not any(map(np.ndim, values)):
        return np.array(values, dtype=float).reshape((-1,) + (1,) * axes)
    first = np.stack(np.broadcast_arrays(*values))
    return first.reshape(len(values), *(1,) * (axes + 1 - first.ndim), *first.shape[1:])


def unstacked(values: Number | list[Number], count: int) -> Sequence[Number]:
    """Return each operator's value out of those of its stack.

    Numbers become plain floats, which add up faster.
    """
    if isinstance(values, list):
        return values
    stack = np.asarray(values)
    if stack.ndim == 0:
        return [stack.item()] * count
    if stack.shape[0] == 1 and count > 1:
        stack = np.broadcast_to(stack, (count, *stack.shape[1:]))
    return stack.tolist() if stack.ndim == 1 else stack  # type: ignore[return-value]


@record
class Execution:
    """What a pass is, for devices whose caches hold what one operator leaves for the next."""

    touched_bytes: Number = 0.0
    """Bytes that pass through the caches between two executions of an operator."""
    recorded: bool = False
    """A graph is recorded for a backward pass."""
    backward: frozenset[int] = frozenset()
    """Identities of the operators of a backward pass."""


@record
class Ranks:
    """Equal devices and the groups that they form."""

    device_model: DeviceModel
    cluster: Links
    library: CollectiveConstants
    """What collectives reach on these links."""
    group: Callable[[str], Group]
    """The ranks that take part in a collective, by ``Collective.ranks``."""
    execution: Callable[[], Execution] = Execution


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
        ("rows", "experts", "active", "n", "k", "empty_rows"),
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

    passing = ProcessorPass.on(on)
    prices: Prices = {}
    for before, op in zip([None, *operators], operators, strict=False):
        path = REGISTRY[type(op).__name__].processor
        cost = None if path is None else function(path)(op, before, passing)
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


def priced_with(cost: Any, constants: Any, *which: Any) -> Any:
    """Return an entry's function that takes ``cost`` of operators, by ``constants`` that a device model resolves."""

    def priced(alike: Alike, on: Ranks) -> OperatorCost:
        model = on.device_model
        prices: OperatorCost = cost(alike.together, model.device, model.constants(constants, *which))
        return prices

    return priced


def function(path: str) -> Any:
    """Return the function that an entry names."""
    return named(f"sightline.cost.{path}")

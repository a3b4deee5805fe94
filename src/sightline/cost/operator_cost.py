"""The price of an operator - its time and the two roofline legs behind it -, operators that one call prices, and where.

Operators run on ranks: every rank's device, the links between ranks, and who takes part in a collective.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from sightline.content import record
from sightline.cost.collectives.libraries import CollectiveConstants, Group, Links
from sightline.cost.device_model import DeviceModel
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

    @classmethod
    def on_roofline(cls, time_s: Number, compute_s: Number, memory_s: Number) -> "OperatorCost":
        """A kernel that is never faster than either leg, because little of what it reads is in L2 before it."""
        least_s = larger(compute_s, memory_s)
        return cls(larger(time_s, least_s), compute_s, memory_s, least_s)


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

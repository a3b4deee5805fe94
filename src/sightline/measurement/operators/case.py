"""A measured operator: a numbered call, and sets of operands, together larger than the cache, used in rotation."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from sightline.errors import InputError, nearest
from sightline.measurement.machine.devices import Machine, import_torch
from sightline.quantities import BYTES, format_quantity

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An operator ready to be called again and again."""

    call: Callable[[int], object]
    implementation: str
    sets: int
    """Sets of operands that are used in rotation."""
    operators: int = 1
    """Executions of the operator in a call."""
    remarks: Mapping[str, Any] = field(default_factory=dict)
    """What the scenario leaves open and was chosen, for the record."""


def chosen(operator: str, asked: str | None, known: tuple[str, ...]) -> str:
    """Return the implementation asked for, or the first one; raises `InputError` naming those there are."""
    if asked is None:
        return known[0]
    if asked not in known:
        raise InputError(
            f"--implementation is '{asked}'; of {operator} there are: {', '.join(known)}{nearest(asked, known)}"
        )
    return asked


Tensors: TypeAlias = "tuple[Tensor, ...]"


def rotating(
    sets: Sequence[tuple[Any, ...]], apply: Callable[..., object], implementation: str, **remarks: Any
) -> Case:
    """Return ``apply`` to the next of the sets in each call."""
    count = len(sets)
    return Case(
        call=lambda number: apply(*sets[number % count]), implementation=implementation, sets=count, remarks=remarks
    )


TIMES_CACHE = 2.5
MOST_SETS = 2048
MOST_OF_MEMORY = 0.6
SEED = 2311


def rotated(machine: Machine, bytes_per_set: float, build: Callable[[], Tensors]) -> Sequence[Tensors]:
    """Return sets of operands; the first is built from random numbers, the others are copies of it elsewhere.

    Raises `InputError` where one set does not fit into memory.
    """
    torch = import_torch()
    sets = sets_of(machine, bytes_per_set)
    torch.manual_seed(SEED)
    first = build()
    return [first, *(tuple(t.clone() for t in first) for _ in range(sets - 1))]


def cache_flush(machine: Machine) -> Callable[[], object]:
    """Return what drives everything out of the caches: operands, results, and the code that works on them.

    A step of training comes back to an operator when all the others have passed through the caches.
    """
    torch = import_torch()
    other = torch.ones(int(TIMES_CACHE * machine.cache_bytes) // 4, device=machine.kind)
    sweep: Callable[[], object] = other.sum
    return sweep


def sets_of(machine: Machine, bytes_per_set: float) -> int:
    """Return how many sets of operands fill the cache several times, one where they are to stay in it.

    Raises `InputError` where one set does not fit into memory.
    """
    room = MOST_OF_MEMORY * machine.memory_bytes
    if bytes_per_set > room:
        needs, has = (format_quantity(float(x), BYTES) for x in (bytes_per_set, machine.memory_bytes))
        raise InputError(f"the operands take {needs}; this machine has {has} of memory, of which 60 % are used")
    if not machine.cache_bytes:
        return 1
    wanted = math.ceil(TIMES_CACHE * machine.cache_bytes / max(bytes_per_set, 1.0)) + 1
    return max(1, min(wanted, MOST_SETS, int(room // max(bytes_per_set, 1.0))))

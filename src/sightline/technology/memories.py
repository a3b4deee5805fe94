"""Memories outside the die: what one stack or chip of a generation holds, moves and costs in energy and area."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sightline import catalog
from sightline.content import fix_mappings
from sightline.errors import InputError
from sightline.kinds import Kind, choice, quantity
from sightline.quantities import (
    BITS_PER_SECOND,
    BYTES,
    COUNT,
    JOULES_PER_BIT,
    METRES,
    SQUARE_METRES,
    Number,
    parse_quantity,
    show,
)
from sightline.technology.entries import read_entry, year

MemoryFamily = Literal["gddr", "hbm", "lpddr", "ddr", "later"]
"""How a memory connects: chips on the board (gddr, lpddr, ddr), stacks on the package (hbm), or what may follow."""

BITS_PER_BYTE = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemoryUse:
    """What a product of the catalog has of a memory."""

    count: Number
    """Stacks or chips; of chips on both sides of a board, their interfaces."""
    pin_rate: Number
    """Bits per second over one pin as the product runs it."""


def _uses(value: Any) -> dict[str, MemoryUse]:
    """Counts and pin rates by the name of a product, each written as "5 x 5.23 Gbit/s"."""
    if not isinstance(value, Mapping) or not all(" x " in str(written) for written in value.values()):
        raise InputError(f"is {show(value)}; allowed: a mapping of devices to texts such as '5 x 5.23 Gbit/s'")
    return {device: _use(written) for device, written in value.items()}


def _use(written: object) -> MemoryUse:
    count, _, rate = str(written).partition(" x ")
    return MemoryUse(count=parse_quantity(count, COUNT), pin_rate=parse_quantity(rate, BITS_PER_SECOND))


_KEYS: Mapping[str, Kind] = {
    "family": choice(*get_args(MemoryFamily)),
    "year": year,
    "pin_rate": quantity(BITS_PER_SECOND),
    "fastest_pin_rate": quantity(BITS_PER_SECOND),
    "pins": quantity(COUNT),
    "capacity": quantity(BYTES),
    "energy": quantity(JOULES_PER_BIT),
    "edge": quantity(METRES),
    "area": quantity(SQUARE_METRES),
    "products": _uses,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Memory:
    """A generation of memory; the figures are of one stack (HBM) or one chip (all others)."""

    name: str
    family: MemoryFamily | NDArray[np.str_]
    """One, or that of each of several memories."""
    year: Number
    """First year in products."""
    pin_rate: Number
    """Bits per second over one data pin, as the fastest products run it."""
    fastest_pin_rate: Number
    """That of the fastest grade specified or announced, which products may not run."""
    pins: Number
    """Data pins of one stack or chip."""
    capacity_bytes: Number
    """Of the largest stack or chip that is usual in products."""
    energy_j_per_bit: Number
    """Energy of a bit read or written, with the interfaces of both sides."""
    edge_m: Number
    """Length of the processor's die edge that the interface of one stack or chip takes."""
    area_m2: Number
    """Area of the interface (PHY) and the memory controller of one stack or chip on a processor's die in 7 nm."""
    products: Mapping[str, MemoryUse] = field(default_factory=dict)
    """What devices of the catalog have of it, by their names."""

    def __post_init__(self) -> None:
        fix_mappings(self)

    @property
    def bandwidth(self) -> Number:
        """Bytes per second to and from one stack or chip: ``pins * pin_rate / 8``."""
        return self.pins * self.pin_rate / BITS_PER_BYTE


NUMBERS = ("year", "pin_rate", "fastest_pin_rate", "pins", "capacity_bytes", "energy_j_per_bit", "edge_m", "area_m2")
"""Fields of a memory that are numbers."""


@cache
def memory(name: str) -> Memory:
    """Return a memory of the catalog; raise `InputError` for a name that it lacks."""
    values = read_entry("memories", name, _KEYS, ["products"])
    return Memory(
        name=catalog.name_of("memories", name),
        family=values["family"],
        year=values["year"],
        pin_rate=values["pin_rate"],
        fastest_pin_rate=values["fastest_pin_rate"],
        pins=values["pins"],
        capacity_bytes=values["capacity"],
        energy_j_per_bit=values["energy"],
        edge_m=values["edge"],
        area_m2=values["area"],
        products=values.get("products", {}),
    )


def memories_along(names: Sequence[str]) -> Memory:
    """Return several memories as one whose numbers are arrays along one axis, in the order of their names."""
    each = [memory(name) for name in names]
    arrays: dict[str, Any] = {name: np.array([getattr(one, name) for one in each], dtype=float) for name in NUMBERS}
    return Memory(
        name=", ".join(one.name for one in each), family=np.array([str(one.family) for one in each]), **arrays
    )

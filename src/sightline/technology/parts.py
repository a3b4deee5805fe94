"""What a device of the future is made of: logic nodes, memories and links of the catalog."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from math import inf, log
from typing import Annotated, Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from sightline import catalog, quantities
from sightline.content import fix_mappings
from sightline.errors import InputError, nearest, refuse
from sightline.validators import Key, Kind, declared, description_of, keys_of, quantity, text, whole

ABOUT = frozenset(("source", "date", "evidence", "sources", "evidences", "note"))
"""Keys that say where figures come from."""


year = whole(1990, 2100)
"""A year of the calendar."""
_ENERGY = Key(quantity(quantities.JOULES_PER_BIT), "energy")
_EDGE, _AREA = Key(quantity(quantities.METRES), "edge"), Key(quantity(quantities.SQUARE_METRES), "area")
T = TypeVar("T")


def read_entry(kind: str, name: str, keys: Mapping[str, Kind], optional: Collection[str] = ()) -> dict[str, Any]:
    """Return the figures of an entry by key, in SI units; keys that are ``optional`` may be absent.

    Raises:
        InputError: For a name that the catalog lacks, or with every key of the entry that is unknown, absent or wrong.
    """
    name = catalog.name_of(kind, name)
    stated = catalog.entry(kind, name)
    place = f"catalog.{kind}.{name}"
    problems = [
        f"{place}.{key} is not a known key{nearest(key, tuple(keys))}" for key in stated if key not in {*keys, *ABOUT}
    ]
    values: dict[str, Any] = {}
    for key, read in keys.items():
        if stated.get(key) is None:
            problems += [] if key in optional else [f"{place}.{key} is missing"]
            continue
        try:
            values[key] = read(stated[key])
        except InputError as error:
            problems.append(f"{place}.{key} {error}")
    refuse(problems)
    return values


def part_of(kind: str, name: str, description: type[T], **others: Any) -> T:
    """Return an entry as the description whose fields declare its keys; keys of fields with a default may be absent."""
    cls: Any = description
    given = {f.name for f in fields(cls) if f.default is not MISSING or f.default_factory is not MISSING}
    optional = [key for key, (field, _) in declared(cls).items() if field in given]
    values = read_entry(kind, name, keys_of(cls), optional)
    return description_of(description, values, name=catalog.name_of(kind, name), **others)


Scaling = Literal["vendor", "ideal"]
"""How nodes scale: as foundries claim, or by the same factors at every step."""
SCALINGS: tuple[Scaling, ...] = get_args(Scaling)
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:nm?)?\s*", re.ASCII | re.IGNORECASE)
REFERENCE_NODE = "7nm"
"""The node that energy, speed and the area of interfaces are relative to."""

_FIGURES = {
    "logic_density": quantity(quantities.TRANSISTORS_PER_SQUARE_METRE),
    "sram_density": quantity(quantities.BITS_PER_SQUARE_METRE),
    "energy": quantity(quantities.COUNT),
    "speed": quantity(quantities.COUNT),
    "interface_area": quantity(quantities.COUNT),
    "voltage": quantity(quantities.VOLTS),
}
"""What a scaling model says of a node."""


def _scaled(value: Any) -> dict[str, float]:
    """The figures of one scaling model."""
    if not isinstance(value, dict) or set(value) != set(_FIGURES):
        raise InputError(f"is {quantities.show(value)}; allowed: a mapping with {', '.join(_FIGURES)}")
    return {key: read(value[key]) for key, read in _FIGURES.items()}


_NODE_KEYS: dict[str, Kind] = {
    "process": text,
    "year": year,
    "wafer_price": quantity(quantities.USD),
    "defect_density": quantity(quantities.DEFECTS_PER_SQUARE_METRE),
    **dict.fromkeys(SCALINGS, _scaled),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """A logic node under one scaling model; the numbers may be arrays, so that nodes are an axis."""

    name: str
    scaling: Scaling
    logic_density: quantities.Number
    """Transistors per square metre of the densest logic cells."""
    sram_density: quantities.Number
    """Bits per square metre of SRAM, with the circuits that read it."""
    energy: quantities.Number
    """Energy of the same operation at the same speed, over that at 7 nm."""
    speed: quantities.Number
    """Speed of the same circuit at the same power, over that at 7 nm."""
    interface_area: quantities.Number
    """Area of the same interface (memory controllers, links), over that at 7 nm."""
    voltage: quantities.Number
    """Nominal supply voltage."""
    wafer_price: quantities.Number
    """USD of a processed wafer of 300 mm."""
    defect_density: quantities.Number
    """Defects per square metre that kill what they hit."""

    def at(self, positions: NDArray[np.integer[Any]]) -> "Node":
        """Return the nodes at positions of this one's arrays, in the positions' shape."""
        return replace(self, **{name: np.asarray(getattr(self, name))[positions] for name in NODE_NUMBERS})


NODE_NUMBERS = tuple(f.name for f in fields(Node) if f.name not in {"name", "scaling"})
"""Fields of a node that are numbers."""


@cache
def node(name: str, scaling: str = "vendor") -> Node:
    """Return a node of the catalog; raise `InputError` for a name or a scaling model that there is not."""
    if scaling not in SCALINGS:
        raise InputError(
            f"scaling is {quantities.show(scaling)}; allowed: {', '.join(SCALINGS)}{nearest(scaling, SCALINGS)}"
        )
    if catalog.name_of("nodes", name) not in catalog.names("nodes"):
        raise InputError(
            f"unknown node {quantities.show(name)}{nearest_nodes(name)}; list all with `sightline catalog nodes`"
        )
    values = read_entry("nodes", name, _NODE_KEYS)
    return Node(
        name=catalog.name_of("nodes", name),
        scaling=next(known for known in SCALINGS if known == scaling),
        wafer_price=values["wafer_price"],
        defect_density=values["defect_density"],
        **values[scaling],
    )


def node_names() -> tuple[str, ...]:
    """Return the nodes of the catalog from the oldest to the newest: by the density of their logic."""
    return tuple(sorted(catalog.names("nodes"), key=lambda name: (node(name).logic_density, -float(node(name).energy))))


def nearest_nodes(value: object) -> str:
    """Return `` - did you mean 'x' or 'y'?`` for the nodes next to a size, the nearest first, or nearest to a text."""
    written = _SIZE.fullmatch(str(value))
    wanted = float(written[1]) if written else 0.0
    if not 0.0 < wanted < inf:
        return nearest(value, node_names())
    sizes = {float(found[1]): name for name in reversed(node_names()) if (found := _SIZE.fullmatch(name))}
    around = [max((s for s in sizes if s <= wanted), default=None), min((s for s in sizes if s > wanted), default=None)]
    ordered = sorted((size for size in around if size), key=lambda size: abs(log(size / wanted)))
    named = " or ".join(f"'{sizes[size]}'" for size in ordered)
    return f" - did you mean {named}?"


def nodes_along(names: Sequence[str], scaling: str = "vendor") -> Node:
    """Return several nodes as one whose numbers are arrays along one axis, in the order of their names."""
    each = [node(name, scaling) for name in names]
    arrays = {field: np.array([getattr(one, field) for one in each], dtype=float) for field in NODE_NUMBERS}
    return Node(name=", ".join(one.name for one in each), scaling=each[0].scaling, **arrays)


MemoryFamily = Literal["gddr", "hbm", "lpddr", "ddr", "later"]
"""How a memory connects: chips on the board (gddr, lpddr, ddr), stacks on the package (hbm), or what may follow."""

BITS_PER_BYTE = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemoryUse:
    """What a product of the catalog has of a memory."""

    count: quantities.Number
    """Stacks or chips; of chips on both sides of a board, their interfaces."""
    pin_rate: quantities.Number
    """Bits per second over one pin as the product runs it."""


def _uses(value: Any) -> dict[str, MemoryUse]:
    """Counts and pin rates by the name of a product, each written as "5 x 5.23 Gbit/s"."""
    if not isinstance(value, Mapping) or not all(" x " in str(written) for written in value.values()):
        raise InputError(
            f"is {quantities.show(value)}; allowed: a mapping from device to text such as '5 x 5.23 Gbit/s'"
        )
    return {device: _use(written) for device, written in value.items()}


def _use(written: object) -> MemoryUse:
    count, _, rate = str(written).partition(" x ")
    return MemoryUse(
        count=quantities.parse_quantity(count, quantities.COUNT),
        pin_rate=quantities.parse_quantity(rate, quantities.BITS_PER_SECOND),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Memory:
    """A generation of memory; the figures are of one stack (HBM) or one chip (all others)."""

    name: str
    family: MemoryFamily | NDArray[np.str_]
    """One, or that of each of several memories."""
    year: Annotated[quantities.Number, year]
    """First year in products."""
    pin_rate: Annotated[quantities.Number, quantity(quantities.BITS_PER_SECOND)]
    """Bits per second over one data pin, as the fastest products run it."""
    fastest_pin_rate: Annotated[quantities.Number, quantity(quantities.BITS_PER_SECOND)]
    """That of the fastest grade specified or announced, which products may not run."""
    pins: Annotated[quantities.Number, quantity(quantities.COUNT)]
    """Data pins of one stack or chip."""
    capacity_bytes: Annotated[quantities.Number, Key(quantity(quantities.BYTES), "capacity")]
    """Of the largest stack or chip that is usual in products."""
    energy_j_per_bit: Annotated[quantities.Number, _ENERGY]
    """Energy of a bit read or written, with the interfaces of both sides."""
    edge_m: Annotated[quantities.Number, _EDGE]
    """Length of the processor's die edge that the interface of one stack or chip takes."""
    area_m2: Annotated[quantities.Number, _AREA]
    """Area of the interface (PHY) and the memory controller of one stack or chip on a processor's die in 7 nm."""
    products: Annotated[Mapping[str, MemoryUse], _uses] = field(default_factory=dict)
    """What devices of the catalog have of it, by their names."""

    def __post_init__(self) -> None:
        fix_mappings(self)

    @property
    def bandwidth(self) -> quantities.Number:
        """Bytes per second to and from one stack or chip: ``pins * pin_rate / 8``."""
        return self.pins * self.pin_rate / BITS_PER_BYTE


MEMORY_NUMBERS = tuple(f.name for f in fields(Memory) if f.name not in {"name", "family", "products"})
"""Fields of a memory that are numbers."""


@cache
def memory(name: str) -> Memory:
    """Return a memory of the catalog; raise `InputError` for a name that it lacks."""
    return part_of("memories", name, Memory)


def memories_along(names: Sequence[str]) -> Memory:
    """Return several memories as one whose numbers are arrays along one axis, in the order of their names."""
    each = [memory(name) for name in names]
    arrays: dict[str, Any] = {
        name: np.array([getattr(one, name) for one in each], dtype=float) for name in MEMORY_NUMBERS
    }
    return Memory(
        name=", ".join(one.name for one in each), family=np.array([str(one.family) for one in each]), **arrays
    )


LinkScope = Literal["on-package", "off-package", "optics"]
"""How far a link reaches: to a neighbouring die, over a board or copper cable, or over optical fibre."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Link:
    """A generation of links between dies; the figures are of one link or port."""

    name: str
    scope: LinkScope
    year: Annotated[int, year]
    """First year in products."""
    bandwidth: Annotated[quantities.Number, quantity(quantities.BYTES_PER_SECOND)]
    """Bytes per second and direction of one link or port."""
    lanes: Annotated[quantities.Number, quantity(quantities.COUNT)]
    """Lanes (differential pairs, wires or wavelengths) per direction of one link or port."""
    energy_j_per_bit: Annotated[quantities.Number, _ENERGY]
    """Energy of a bit sent, with the transmitter, the receiver and, of ports, the transceivers."""
    edge_m: Annotated[quantities.Number, _EDGE]
    """Length of die edge that one link or port takes."""
    area_m2: Annotated[quantities.Number, _AREA]
    """Area of one link's or port's interface on a die in 7 nm."""
    latency_s: Annotated[quantities.Number, Key(quantity(quantities.SECONDS), "latency")]
    """Time of a small message from die to die over one link, without software."""
    usual_count: Annotated[quantities.Number | None, quantity(quantities.COUNT)] = None
    """Links that a device made for them has; None for ports, of which servers have as many as they want."""


@cache
def link(name: str) -> Link:
    """Return a link of the catalog; raise `InputError` for a name that it lacks."""
    return part_of("links", name, Link)

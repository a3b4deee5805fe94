"""Logic nodes: what area and energy a transistor and a bit take, under a named model of how nodes scale.

    node("3nm", "vendor")                     a node of the catalog
    nodes_along(["7nm", "5nm", "3nm"])        several, as one whose numbers are arrays
    nodes_along([...]).at(positions)          those numbers at positions of any shape: an axis of a study

``vendor`` holds what foundries claim, with SRAM that stalls after 5 nm; ``ideal`` lets area, energy and voltage shrink
by the same factors at every step. Both are the same at 7 nm.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from math import inf, log
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sightline import catalog
from sightline.errors import InputError, nearest
from sightline.kinds import Kind, quantity, text
from sightline.quantities import (
    BITS_PER_SQUARE_METRE,
    COUNT,
    DEFECTS_PER_SQUARE_METRE,
    TRANSISTORS_PER_SQUARE_METRE,
    USD,
    VOLTS,
    Number,
    show,
)
from sightline.technology.entries import read_entry, year

Scaling = Literal["vendor", "ideal"]
"""How nodes scale: as foundries claim, or by the same factors at every step."""
SCALINGS: tuple[Scaling, ...] = get_args(Scaling)
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:nm?)?\s*", re.ASCII | re.IGNORECASE)
REFERENCE_NODE = "7nm"
"""The node that energy, speed and the area of interfaces are relative to."""

_FIGURES = {
    "logic_density": quantity(TRANSISTORS_PER_SQUARE_METRE),
    "sram_density": quantity(BITS_PER_SQUARE_METRE),
    "energy": quantity(COUNT),
    "speed": quantity(COUNT),
    "interface_area": quantity(COUNT),
    "voltage": quantity(VOLTS),
}
"""What a scaling model says of a node."""


def _scaled(value: Any) -> dict[str, float]:
    """The figures of one scaling model."""
    if not isinstance(value, dict) or set(value) != set(_FIGURES):
        raise InputError(f"is {show(value)}; allowed: a mapping with {', '.join(_FIGURES)}")
    return {key: read(value[key]) for key, read in _FIGURES.items()}


_KEYS: dict[str, Kind] = {
    "process": text,
    "year": year,
    "wafer_price": quantity(USD),
    "defect_density": quantity(DEFECTS_PER_SQUARE_METRE),
    **dict.fromkeys(SCALINGS, _scaled),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """A logic node under one scaling model; the numbers may be arrays, so that nodes are an axis."""

    name: str
    scaling: Scaling
    logic_density: Number
    """Transistors per square metre of the densest logic cells."""
    sram_density: Number
    """Bits per square metre of SRAM, with the circuits that read it."""
    energy: Number
    """Energy of the same operation at the same speed, over that at 7 nm."""
    speed: Number
    """Speed of the same circuit at the same power, over that at 7 nm."""
    interface_area: Number
    """Area of the same interface (memory controllers, links), over that at 7 nm."""
    voltage: Number
    """Nominal supply voltage."""
    wafer_price: Number
    """USD of a processed wafer of 300 mm."""
    defect_density: Number
    """Defects per square metre that kill what they hit."""

    def at(self, positions: NDArray[np.integer[Any]]) -> "Node":
        """Return the nodes at positions of this one's arrays, in the positions' shape."""
        return replace(self, **{name: np.asarray(getattr(self, name))[positions] for name in NUMBERS})


NUMBERS = tuple(f.name for f in fields(Node) if f.name not in {"name", "scaling"})
"""Fields of a node that are numbers."""


@cache
def node(name: str, scaling: str = "vendor") -> Node:
    """Return a node of the catalog; raise `InputError` for a name or a scaling model that there is not."""
    if scaling not in SCALINGS:
        raise InputError(f"scaling is {show(scaling)}; allowed: {', '.join(SCALINGS)}{nearest(scaling, SCALINGS)}")
    if catalog.name_of("nodes", name) not in catalog.names("nodes"):
        raise InputError(f"unknown node {show(name)}{nearest_nodes(name)}; `sightline catalog nodes` lists all")
    values = read_entry("nodes", name, _KEYS)
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
    arrays = {field: np.array([getattr(one, field) for one in each], dtype=float) for field in NUMBERS}
    return Node(name=", ".join(one.name for one in each), scaling=each[0].scaling, **arrays)

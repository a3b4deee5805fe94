"""Links that leave a die: what one link or port of a generation moves, and what it costs in energy, area and edge."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

from sightline import catalog
from sightline.kinds import Kind, choice, quantity
from sightline.quantities import BYTES_PER_SECOND, COUNT, JOULES_PER_BIT, METRES, SECONDS, SQUARE_METRES, Number
from sightline.technology.entries import read_entry, year

LinkScope = Literal["on-package", "off-package", "optics"]
"""How far a link reaches: to a neighbouring die, over a board or copper cable, or over optical fibre."""

_KEYS: Mapping[str, Kind] = {
    "scope": choice(*get_args(LinkScope)),
    "year": year,
    "bandwidth": quantity(BYTES_PER_SECOND),
    "lanes": quantity(COUNT),
    "energy": quantity(JOULES_PER_BIT),
    "edge": quantity(METRES),
    "area": quantity(SQUARE_METRES),
    "latency": quantity(SECONDS),
    "usual_count": quantity(COUNT),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Link:
    """A generation of links between dies; the figures are of one link or port."""

    name: str
    scope: LinkScope
    year: int
    """First year in products."""
    bandwidth: Number
    """Bytes per second and direction of one link or port."""
    lanes: Number
    """Lanes (differential pairs, wires or wavelengths) per direction of one link or port."""
    energy_j_per_bit: Number
    """Energy of a bit sent, with the transmitter, the receiver and, of ports, the transceivers."""
    edge_m: Number
    """Length of die edge that one link or port takes."""
    area_m2: Number
    """Area of one link's or port's interface on a die in 7 nm."""
    latency_s: Number
    """Time of a small message from die to die over one link, without software."""
    usual_count: Number | None = None
    """Links that a device made for them has; None for ports, of which servers have as many as they want."""


@cache
def link(name: str) -> Link:
    """Return a link of the catalog; raise `InputError` for a name that it lacks."""
    values = read_entry("links", name, _KEYS, ["usual_count"])
    return Link(
        name=catalog.name_of("links", name),
        scope=values["scope"],
        year=values["year"],
        bandwidth=values["bandwidth"],
        lanes=values["lanes"],
        energy_j_per_bit=values["energy"],
        edge_m=values["edge"],
        area_m2=values["area"],
        latency_s=values["latency"],
        usual_count=values.get("usual_count"),
    )

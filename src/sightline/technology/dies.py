"""Dies of real devices: V100 and A100, which the law of synthesis is fixed on, and those that it is tested with."""

from dataclasses import dataclass
from functools import cache

from sightline import catalog
from sightline.kinds import quantity, text
from sightline.quantities import (
    BYTES,
    BYTES_PER_SECOND,
    COUNT,
    FLOPS,
    HERTZ,
    SQUARE_METRES,
    WATTS,
    parse_quantity,
)
from sightline.technology.budget import Budget
from sightline.technology.entries import read_entry
from sightline.technology.links import link
from sightline.technology.memories import memory
from sightline.technology.nodes import node

_KEYS = {
    "device": text,
    "node": text,
    "die_area": quantity(SQUARE_METRES),
    "dies": quantity(COUNT),
    "units": quantity(COUNT),
    "enabled_units": quantity(COUNT),
    "frequency": quantity(HERTZ),
    "memory": text,
    "stacks": quantity(COUNT),
    "link": text,
    "link_bandwidth": quantity(BYTES_PER_SECOND),
    "die_link": text,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RealDie:
    """A device on the market: what it is made of, and what its datasheet says of it."""

    name: str
    device: str
    """Its name among the devices of the catalog."""
    budget: Budget
    """Without a power cap."""
    units: float
    """Compute units on all dies, those disabled too."""
    matmul_flops: float
    """Dense peak FLOP/s in fp16."""
    vector_flops: float
    compute_units: float
    memory_bandwidth: float
    l2_bytes: float
    l2_bandwidth: float
    tdp_w: float
    idle_w: float

    @property
    def frequency_hz(self) -> float:
        """Boost clock, at which the datasheet's peak holds."""
        return float(self.budget.frequency_hz or 0.0)


@cache
def real_die(name: str) -> RealDie:
    """Return the die of a real device; raise `InputError` for a name that the catalog lacks."""
    values = read_entry("dies", name, _KEYS, ["die_link"])
    budget = Budget(
        node=node(values["node"]),
        die_area_m2=values["die_area"],
        dies=values["dies"],
        memory=memory(values["memory"]),
        stacks=values["stacks"],
        link=link(values["link"]),
        link_bandwidth=values["link_bandwidth"],
        die_link=link(values["die_link"]) if "die_link" in values else None,
        enabled=values["enabled_units"] / values["units"],
        frequency_hz=values["frequency"],
    )
    sheet = catalog.entry("devices", values["device"])
    return RealDie(
        name=catalog.name_of("dies", name),
        device=values["device"],
        budget=budget,
        units=values["units"],
        matmul_flops=parse_quantity(sheet["peak_flops"]["fp16"], FLOPS),
        vector_flops=parse_quantity(sheet["vector_flops"], FLOPS),
        compute_units=float(sheet["compute_units"]),
        memory_bandwidth=parse_quantity(sheet["memory_bandwidth"], BYTES_PER_SECOND),
        l2_bytes=parse_quantity(sheet["l2"], BYTES),
        l2_bandwidth=parse_quantity(sheet["l2_bandwidth"], BYTES_PER_SECOND),
        tdp_w=parse_quantity(sheet["tdp"], WATTS),
        idle_w=parse_quantity(sheet["idle_power"], WATTS),
    )

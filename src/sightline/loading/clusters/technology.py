"""``cluster.device.technology``: a device made of a node, dies, memory, links and power instead of a datasheet.

What is not stated is that of a real device: of ``same_as`` or of the cluster's device where its die is in the catalog
(`sightline catalog dies`), else of the die whose node is nearest. Where an area is stated, it is that of one die.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import log
from typing import Any, NamedTuple

from sightline import catalog, quantities
from sightline.errors import InputError, nearest
from sightline.loading.checks import Complaints, check, dotted, each
from sightline.loading.clusters.hardware import (
    DEVICE,
    SYNTHESIZED,
    Values,
    device_to_mapping,
    merged,
    read_part,
    stated_over,
)
from sightline.technology.budget import FORMATS, PARTS, Budget, Split
from sightline.technology.law import RealDie, fastest_clock, real_die, with_area
from sightline.technology.limits import ROUNDING, problems_of
from sightline.technology.parts import BITS_PER_BYTE, SCALINGS, Node, link, memory, nearest_nodes, node, node_names
from sightline.technology.synthesis import made_of, said_of_device
from sightline.validators import Keys, Kind, choice, is_fraction, quantity, text, whole


def _named(kind: str) -> Kind:
    """A name of the catalog; nodes are listed from old to new."""

    def check_name(value: Any) -> str:
        known = node_names() if kind == "nodes" else catalog.names(kind)
        name = catalog.name_of(kind, value) if isinstance(value, str) else ""
        if name not in known:
            near = nearest_nodes(value) if kind == "nodes" else nearest(value, known)
            raise InputError(f"is {quantities.show(value)}; allowed: {', '.join(known)}{near}")
        return name

    return check_name


def _share(value: Any) -> float:
    """A share of a whole, which may be all of it."""
    if value == 1 and not isinstance(value, bool):
        return 1.0
    if not is_fraction(value):
        raise InputError(f"is {quantities.show(value)}; allowed: a number from 0 to 1")
    return float(value)


def _some(value: Any) -> float:
    """A share that is more than nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise InputError(f"is {quantities.show(value)}; allowed: a number above 0 and up to 1")
    return _share(value)


def _shares(*parts: str) -> Kind:
    """A mapping of parts to shares."""

    def check_shares(value: Any) -> dict[str, float]:
        if not isinstance(value, Mapping) or not value or not set(value) <= set(parts):
            raise InputError(
                f"is {quantities.show(value)}; allowed: a mapping from {', '.join(parts)} to shares that sum to 1"
            )
        shares = {}
        for part, share in value.items():
            try:
                shares[part] = _share(share)
            except InputError as error:
                raise InputError(f"has {part}, which {error}") from None
        if (total := sum(shares.values())) > 1 + ROUNDING:
            raise InputError(
                f"is {quantities.show(value)}, whose shares sum to {total:g}; allowed: shares that sum to at most 1"
            )
        return shares

    return check_shares


def _formats(value: Any) -> dict[str, float]:
    """Dtypes of the matrix units."""
    names = value if isinstance(value, list) else [value]
    return {name: FORMATS[name] for name in map(str, map(choice(*FORMATS), names))}


KEYS: Keys = {
    "node": _named("nodes"),
    "scaling": choice(*SCALINGS),
    "die_area": quantity(quantities.SQUARE_METRES),
    "dies": whole(1, 64),
    "power": quantity(quantities.WATTS),
    "memory": _named("memories"),
    "stacks": whole(1, 1024),
    "pin_rate": quantity(quantities.BITS_PER_SECOND),
    "memory_capacity": quantity(quantities.BYTES),
    **each(_named("links"), "link die_link"),
    "link_bandwidth": quantity(quantities.BYTES_PER_SECOND, zero=True),
    "split": _shares(*PARTS),
    "edge_split": _shares("memory", "network"),
    "power_split": _shares(*PARTS),
    "enabled": _some,
    "frequency": quantity(quantities.HERTZ),
    "voltage": quantity(quantities.VOLTS),
    "formats": _formats,
    "name": text,
}
"""What a device may be made of; every key may be left out."""


def read_made(stated: object, below: object, complaints: Complaints) -> Values | None:
    """Return the figures of a device that states ``technology``, under those that it states next to it.

    None with mistakes noted.
    """
    key = f"cluster.{DEVICE.key}"
    read = stated_over(DEVICE, stated, below, key, complaints)
    if read is None:
        return None
    values, base = read
    made = synthesized_values(values.pop("technology"), base, dotted(key, "technology"), complaints)
    return None if made is None else merged(DEVICE, values, made, key, complaints)


def synthesized_values(stated: object, below: Values, key: str, complaints: Complaints) -> Values | None:
    """Return the figures of a device that technology makes, over those of the device ``below``; None with mistakes."""
    read = read_budget(stated, below, key, complaints)
    if read is None:
        return None
    budget, below, values = read.budget, read.below, read.values
    problems = problems_of(budget)
    complaints.add(*(f"{key}: {problem}" for problem in problems))
    if problems:
        return None
    found = made_of(budget)
    made = device_to_mapping(found.device)
    made.pop("price")
    source = (
        f"{SYNTHESIZED} {budget.node.name} ({budget.node.scaling} scaling) and {budget.memory.name}: "
        f"{said_of_device(budget, found)}"
    )
    kept = {name: value for name, value in below.items() if name not in {"price", "sources", "evidences", "note"}}
    return {**kept, **made, "server": _server(values, below), "source": source, "evidence": "estimated"}


class ReadBudget(NamedTuple):
    """A budget as a mapping states it."""

    budget: Budget
    below: Values
    """Figures of the device below it."""
    values: Values
    """The mapping's own, checked."""
    die: RealDie
    """What gives the rest."""


def read_budget(stated: object, below: Values, key: str, complaints: Complaints) -> ReadBudget | None:
    """Return the budget that a mapping states over the figures of a device.

    None with mistakes noted. Whether the budget can be built is not asked.
    """
    before = len(complaints.problems)
    values = check(KEYS, stated, key, complaints).values
    if len(complaints.problems) > before:
        return None
    if "node" not in values and _own_die(below) is None:
        complaints.add(f"{key}.node is missing; needed: a logic node (`sightline catalog nodes`)")
        return None
    die = _die_of(values, below)
    below = below or _figures_of(die.device)
    return ReadBudget(budget=budget_of(values, die, below), below=below, values=values, die=die)


def budget_of(values: Values, die: RealDie, below: Values) -> Budget:
    """Return the budget that checked keys state over a real die and over the figures of a device."""
    real = die.budget
    chosen = node(values.get("node", real.node.name), values.get("scaling", real.node.scaling))
    rate, held = _memory_of(values, die, below)
    budget = Budget(
        node=chosen,
        die_area_m2=values.get("die_area", real.die_area_m2),
        dies=float(values.get("dies", 1 if "die_area" in values else real.dies)),
        power_w=values.get("power") or below["tdp"],
        memory=memory(values["memory"]) if "memory" in values else real.memory,
        stacks=float(values.get("stacks", real.stacks)),
        pin_rate=values.get("pin_rate", rate),
        memory_bytes=values.get("memory_capacity", held),
        link=link(values["link"]) if "link" in values else real.link,
        link_bandwidth=values.get("link_bandwidth", real.link_bandwidth),
        die_link=link(values["die_link"]) if "die_link" in values else real.die_link,
        edge=Split(**values["edge_split"]) if "edge_split" in values else None,
        power=Split(**values["power_split"]) if "power_split" in values else None,
        enabled=values.get("enabled", real.enabled),
        voltage=values.get("voltage"),
        formats=values.get("formats", FORMATS),
        name=values.get("name", f"{chosen.name}-{values.get('memory', real.memory.name)}"),
        relatives=_families(below),
    )
    budget = replace(budget, frequency_hz=values.get("frequency", usual_clock(budget, die)))
    return with_area(budget, **values["split"]) if "split" in values else budget


def usual_clock(budget: Budget, die: RealDie) -> quantities.Number:
    """Return the clock where none is stated: the real die's where the node allows it at the budget's voltage."""
    return quantities.smaller(die.frequency_hz, fastest_clock(budget))


def _memory_of(values: Values, die: RealDie, below: Values) -> tuple[float | None, float | None]:
    """The rate of a pin and the capacity of all stacks where the memory is that of the device below; else None."""
    real = die.budget
    if die.device != below.get("name") or values.get("memory", real.memory.name) != real.memory.name:
        return None, None
    stacks = float(real.stacks)
    rate = below["memory_bandwidth"] * BITS_PER_BYTE / (stacks * float(real.memory.pins))
    return rate, below["memory"] / stacks * values.get("stacks", stacks)


def _die_of(values: Values, below: Values) -> RealDie:
    """The die of the device below, else the one whose node is nearest to the stated one."""
    if (own := _own_die(below)) is not None:
        return own
    wanted = node(values["node"])
    return min(map(real_die, catalog.names("dies")), key=lambda die: _distance(die.budget.node, wanted))


def _own_die(below: Values) -> RealDie | None:
    """The die of a device, where the catalog has it."""
    dies = map(real_die, catalog.names("dies"))
    return next((die for die in dies if die.device == below.get("name")), None)


def _distance(one: Node, other: Node) -> float:
    """How far two nodes are apart in density and energy, in logarithms."""
    density = abs(log(float(one.logic_density) / float(other.logic_density)))
    return density + abs(log(float(one.energy) / float(other.energy)))


def _figures_of(device: str) -> Values:
    """The figures of a device of the catalog."""
    complaints = Complaints()
    found = read_part(DEVICE, device, None, complaints)
    complaints.raise_any()
    return dict(found or {})


def _families(below: Values) -> tuple[str, ...]:
    """Families whose constants stand in: that of the device below, then its relatives."""
    named = (below.get("calibration", "generic"), *below.get("relatives", ()))
    return tuple(family for family in named if family != "generic")


def _server(values: Values, below: Values) -> Values:
    """The usual server of the device below; its links between devices as fast as the technology states."""
    server = dict(below.get("server") or {})
    if "link_bandwidth" in values and values["link_bandwidth"] and isinstance(server.get("intra_node"), str):
        links = {"same_as": server["intra_node"], "bandwidth": values["link_bandwidth"]}
        server["intra_node"] = {
            **links,
            "name": values.get("link", server["intra_node"]),
            "source": "stated in the scenario",
        }
    return server

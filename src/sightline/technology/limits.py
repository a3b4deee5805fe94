"""What a device cannot have: more area, edge, power or clock than there is. Where a budget can be built, and why not.

found = buildable(budget)
found.mask        True where it can be built: a bool, or an array where the budget's numbers are arrays
found.reasons     the reason of each place, such as "edge"; "" where it can be built
found.counts()    how many places each reason rules out
problems_of(b)    a sentence for each limit that a budget of plain numbers exceeds
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Literal

import numpy as np

from sightline import quantities
from sightline.technology.budget import (
    PARTS,
    Budget,
    Split,
    interface_watts,
    memory_area,
    memory_edge,
    network_area,
    network_edge,
)
from sightline.technology.law import asked_clock, fastest_clock, least_watts, logic_share, memory_bandwidth

Reason = Literal["number", "split", "area", "edge", "power", "voltage", "clock"]
"""What rules a device out; where several do, the first in this order is its reason."""
RETICLE_M2 = 858e-6
"""Area that one exposure prints: 26 mm by 33 mm."""
LOGIC = ("compute", "registers", "l2")
LEAST_SHARE = 0.001
"""Of the area, for each part that a device cannot do without."""
HIGHEST_VOLTAGE = 1.3
"""Of the nominal voltage: what circuits withstand for years (assumed)."""
LOWEST_HZ = 1e8
"""Clock that a voltage must allow."""
LEAST: Mapping[str, float] = {
    "die_area_m2": 1e-9,
    "dies": 1.0,
    "power_w": 0.0,
    "stacks": 0.0,
    "pin_rate": 0.0,
    "memory_bytes": 0.0,
    "link_bandwidth": 0.0,
    "enabled": 1e-3,
    "frequency_hz": 1.0,
    "voltage": 0.0,
}
"""The least of each number of a budget, in SI units."""
ROUNDING = 1e-6
"""By how much a sum of shares may differ from 1, and a need from what there is."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Limit:
    """One need held against what there is."""

    reason: Reason
    what: str
    """The need as a sentence begins."""
    of: str
    """What there is, as a sentence ends."""
    needed: quantities.Number
    there: quantities.Number
    dimension: quantities.Dimension | None = None
    """None for shares."""

    @property
    def exceeded(self) -> Any:
        """Whether more is needed than there is, place by place."""
        return self.needed > self.there + ROUNDING * np.abs(self.there)

    @property
    def sentence(self) -> str:
        """What is exceeded, and by how much; of plain numbers."""
        if self.dimension is None:
            return f"{self.reason} is invalid: {self.what} {float(self.needed):.4g}; {self.of}"
        needed, there, over = (
            quantities.format_quantity(float(value), self.dimension)
            for value in (self.needed, self.there, self.needed - self.there)
        )
        return f"{self.reason} exceeded by {over}: {self.what} {needed}, and {self.of} {there}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Buildable:
    """Where a budget can be built."""

    mask: Any
    """True where it can be; of the shape of the budget's numbers together."""
    reasons: Any
    """The reason of each place, an empty text where it can be built."""

    def counts(self) -> dict[str, int]:
        """Return how many places each reason rules out."""
        found, counts = np.unique(np.asarray(self.reasons), return_counts=True)
        return {str(reason): int(count) for reason, count in zip(found, counts, strict=True) if reason}


def buildable(budget: Budget) -> Buildable:
    """Return where a budget can be built, and the reason where it cannot."""
    reasons: Any = np.array("", dtype="<U7")
    for limit in limits_of(budget):
        fresh = limit.exceeded & (reasons == "")
        reasons = np.where(fresh, limit.reason, reasons)
    mask = reasons == ""
    return Buildable(mask=mask, reasons=reasons) if mask.ndim else Buildable(mask=bool(mask), reasons=str(reasons))


def problems_of(budget: Budget) -> list[str]:
    """Return a sentence for each limit that a budget exceeds; none where its numbers are arrays."""
    if not _is_plain(budget):
        return []
    return [limit.sentence for limit in limits_of(budget) if quantities.anywhere(limit.exceeded)]


def limits_of(budget: Budget) -> list[Limit]:
    """Return every limit of a budget, in the order of their reasons."""
    with np.errstate(divide="ignore", invalid="ignore"):
        numbers = list(_numbers(budget))
        if any(np.all(limit.exceeded) for limit in numbers):
            return numbers
        return [*numbers, *_splits(budget), *_areas(budget), *_edges(budget), *_powers(budget), *_clocks(budget)]


def _numbers(budget: Budget) -> Iterator[Limit]:
    """What no device has: a number below its least, or none at all, and more units enabled than there are."""
    for name, least in LEAST.items():
        value = getattr(budget, name)
        if value is None:
            continue
        below = least - np.asarray(value, dtype=float)
        yield Limit(
            reason="number",
            what=f"{name} is below its minimum by",
            of=f"the minimum is {least:g}",
            needed=np.where(np.isnan(below), np.inf, below),
            there=0.0,
        )
    what = "the share of active units is above 1 by"
    yield Limit(reason="number", what=what, of="the maximum is 1", needed=budget.enabled - 1.0, there=0.0)


def _splits(budget: Budget) -> Iterator[Limit]:
    for name, split in (("area", budget.area), ("edge", budget.edge), ("power", budget.power)):
        if split is None:
            continue
        apart = np.abs(split.total - 1.0) - ROUNDING
        yield Limit(
            reason="split",
            what=f"the sum of the shares of {name} differs from 1 by",
            of="they must sum to 1",
            needed=apart,
            there=0.0,
        )
        for part in PARTS:
            least = LEAST_SHARE if name == "area" and part in LOGIC else 0.0
            yield Limit(
                reason="split",
                what=f"the share of {part} in the {name} is below {least:g} by",
                of="a device needs compute units, registers and L2" if least else "no share may be negative",
                needed=least - _number(split, part),
                there=0.0,
            )


def _areas(budget: Budget) -> Iterator[Limit]:
    whole = budget.total_area_m2
    memory, network = memory_area(budget), network_area(budget, memory_bandwidth(budget))
    area = partial(Limit, reason="area", dimension=quantities.SQUARE_METRES)
    yield area(what="a die takes", of="the reticle allows", needed=budget.die_area_m2, there=RETICLE_M2)
    if budget.area is None:
        what = f"the interfaces of {_stacks(budget)} and the links take"
        yield area(what=what, of="the dies have", needed=memory + network, there=whole)
        return
    yield area(
        what=f"the interfaces of {_stacks(budget)} take",
        of="the memory's share of the area is",
        needed=memory,
        there=whole * budget.area.memory,
    )
    of = "the network's share of the area is"
    yield area(what="the links take", of=of, needed=network, there=whole * budget.area.network)


def _edges(budget: Budget) -> Iterator[Limit]:
    whole = budget.total_edge_m
    memory, network = memory_edge(budget), network_edge(budget, memory_bandwidth(budget))
    edge = partial(Limit, reason="edge", dimension=quantities.METRES)
    if budget.edge is None:
        yield edge(
            what=f"{_stacks(budget)} and the links need", of="the dies have", needed=memory + network, there=whole
        )
        return
    of = "the memory's share of the edge is"
    yield edge(what=f"{_stacks(budget)} need", of=of, needed=memory, there=whole * budget.edge.memory)
    of = "the network's share of the edge is"
    yield edge(what="the links need", of=of, needed=network, there=whole * budget.edge.network)


def _powers(budget: Budget) -> Iterator[Limit]:
    watts = interface_watts(budget, memory_bandwidth(budget))
    links = watts["network"] + watts["dies"]
    power = partial(Limit, reason="power", dimension=quantities.WATTS)
    if budget.power is None:
        of = "the cap of the whole device is"
        yield power(what="memory and links draw", of=of, needed=watts["memory"] + links, there=budget.power_w)
        slowest = watts["memory"] + links + least_watts(budget)
        what = "memory, links, and units at a tenth of their clock draw"
        yield power(
            what=what, of=of, needed=slowest * (watts["memory"] + links <= budget.power_w), there=budget.power_w
        )
        return
    # The memory's share slows it down until it fits (`law.memory_bandwidth`).
    units = budget.power_w * logic_share(budget.power)
    what = "units at a tenth of their clock draw"
    yield power(what=what, of="their share of power is", needed=least_watts(budget), there=units)
    of = "the network's share of power is"
    yield power(what="the links draw", of=of, needed=links, there=budget.power_w * budget.power.network)


def _clocks(budget: Budget) -> Iterator[Limit]:
    if budget.voltage is not None:
        yield Limit(
            reason="voltage",
            what="the voltage is",
            of=f"{budget.node.name} allows",
            needed=budget.voltage,
            there=HIGHEST_VOLTAGE * budget.node.voltage,
            dimension=quantities.VOLTS,
        )
    fastest = fastest_clock(budget)
    yield Limit(
        reason="clock",
        what="the frequency is",
        of=f"{budget.node.name} allows, at this voltage,",
        needed=quantities.larger(asked_clock(budget), LOWEST_HZ),
        there=fastest,
        dimension=quantities.HERTZ,
    )


def _number(split: Split, part: str) -> quantities.Number:
    value: quantities.Number = getattr(split, part)
    return value


def _stacks(budget: Budget) -> str:
    if np.ndim(budget.stacks):
        return "the memory"
    stacked = np.asarray(budget.memory.family) == "hbm"
    unit = "stacks" if stacked.all() else "stacks or chips" if stacked.any() else "chips"
    return f"{float(budget.stacks):g} {unit} of {budget.memory.name}"


def _is_plain(budget: Budget) -> bool:
    """Whether no number of a budget is an array."""
    parts = (budget, budget.node, budget.memory, budget.area, budget.link, budget.die_link, budget.edge, budget.power)
    numbers = (getattr(part, f.name) for part in parts if part is not None for f in fields(part))
    return not any(isinstance(number, np.ndarray) and number.ndim for number in numbers)

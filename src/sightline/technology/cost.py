"""What making a device costs: good dies of a wafer, and memory. An option; every figure under it is an estimate.

    made_for(budget)                                USD of dies and memory of one device, part by part
    made_for(budget, Making(yield_model="poisson")) under other assumptions

Left out: interposer and package, assembly and test, board, cooling, design, and everybody's margins.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import pi
from typing import Literal

import numpy as np

from sightline.content import fix_mappings
from sightline.quantities import Number, either, larger
from sightline.technology.budget import Budget
from sightline.technology.law import split_of
from sightline.technology.parts import Memory

YieldModel = Literal["negative-binomial", "murphy", "poisson"]
"""How defects spread over a wafer: in clusters, with a density that varies evenly, or each anywhere."""
WAFER_M = 0.3
"""Diameter of a wafer."""
USD_PER_GB: Mapping[str, float] = {"hbm": 13.0, "gddr": 4.0, "lpddr": 3.5, "ddr": 3.0, "later": 13.0}
"""Price of a GB of memory by family: orders of magnitude of 2024 and 2025, recalled; prices of DRAM move by halves."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Making:
    """What is assumed of making a device; every number may be an array."""

    yield_model: YieldModel = "negative-binomial"
    clustering: Number = 3.0
    """Of the negative binomial model: the smaller, the more defects sit together (2 to 3 is usual)."""
    spares_repair: bool = True
    """A defect in compute units costs a spare unit and not the die, where some units are not enabled."""
    wafer_price: Number | None = None
    """USD; None for the node's."""
    defect_density: Number | None = None
    """Defects per square metre; None for the node's."""
    usd_per_gb: Mapping[str, float] = field(default_factory=lambda: dict(USD_PER_GB))
    """By family of memory."""

    def __post_init__(self) -> None:
        fix_mappings(self)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MakingCost:
    """What the parts of one device cost to make."""

    dies_usd: Number
    """Good dies."""
    memory_usd: Number
    yield_share: Number
    """Share of dies that are good."""
    dies_per_wafer: Number
    """Good and bad."""

    @property
    def usd(self) -> Number:
        """The sum."""
        return self.dies_usd + self.memory_usd


def made_for(budget: Budget, making: Making | None = None) -> MakingCost:
    """Return what dies and memory of a device cost to make."""
    assumed = making or Making()
    price = budget.node.wafer_price if assumed.wafer_price is None else assumed.wafer_price
    per_wafer, good = dies_per_wafer(budget.die_area_m2), yield_of(budget, assumed)
    held = budget.stacks * budget.memory.capacity_bytes if budget.memory_bytes is None else budget.memory_bytes
    return MakingCost(
        dies_usd=budget.dies * price / (per_wafer * good),
        memory_usd=held / 1e9 * _usd_per_gb(budget.memory, assumed.usd_per_gb),
        yield_share=good,
        dies_per_wafer=per_wafer,
    )


def _usd_per_gb(memory: Memory, prices: Mapping[str, float]) -> Number:
    """The price of a GB of a memory, or of each of several."""
    if isinstance(memory.family, str):
        return prices[memory.family]
    return np.array([prices[family] for family in memory.family.ravel()]).reshape(memory.family.shape)


def dies_per_wafer(die_area_m2: Number) -> Number:
    """Return how many dies fit on a wafer: ``pi d^2 / 4 A - pi d / sqrt(2 A)``, the second term for its rim."""
    fitting = pi * WAFER_M**2 / (4 * die_area_m2) - pi * WAFER_M / (2 * die_area_m2) ** 0.5
    return larger(fitting, 1.0)


def yield_of(budget: Budget, making: Making) -> Number:
    """Return the share of dies without a defect that kills them.

    Negative binomial ``(1 + A D / c)^-c``, Murphy ``((1 - e^-AD) / AD)^2``, Poisson ``e^-AD``, with the area ``A`` in
    which defects kill. Where units are spare that leaves out all units; that a die may have more defects than spare
    units is ignored.
    """
    density = budget.node.defect_density if making.defect_density is None else making.defect_density
    defects = _killing_area(budget, making) * density
    if making.yield_model == "poisson":
        good: Number = np.exp(-defects)
    elif making.yield_model == "murphy":
        good = ((1 - np.exp(-defects)) / larger(defects, 1e-12)) ** 2
    else:
        good = (1 + defects / making.clustering) ** -making.clustering
    return good


def _killing_area(budget: Budget, making: Making) -> Number:
    split = split_of(budget)
    repaired = (split.compute + split.registers) * either(budget.enabled < 1, 1.0, 0.0) if making.spares_repair else 0.0
    return budget.die_area_m2 * (1 - repaired)

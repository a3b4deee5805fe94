"""The law of synthesis: what a square metre of a node computes, holds and draws, fixed on V100 and A100 alone.

FLOP per cycle and area of the compute units follow the density of logic with an exponent: two numbers, from two
devices. The energy of a cycle and area follows the density times the energy per operation that the foundry states: one
number, the geometric mean of the two devices'. Each further number is one that the two devices, or A100 alone, give.
No later device is looked at.
"""

from dataclasses import dataclass, replace
from functools import cache
from math import log, sqrt

from sightline import catalog, quantities
from sightline.technology.budget import (
    AREA_OF_A100,
    INTERFACES,
    PARTS,
    Budget,
    Split,
    interface_watts,
    memory_area,
    network_area,
)
from sightline.technology.parts import BITS_PER_BYTE, REFERENCE_NODE, Node, link, memory, node, read_entry
from sightline.validators import Keys, quantity, text

_DIE_KEYS: Keys = {
    "device": text,
    "node": text,
    "die_area": quantity(quantities.SQUARE_METRES),
    "dies": quantity(quantities.COUNT),
    "units": quantity(quantities.COUNT),
    "enabled_units": quantity(quantities.COUNT),
    "frequency": quantity(quantities.HERTZ),
    "memory": text,
    "stacks": quantity(quantities.COUNT),
    "link": text,
    "link_bandwidth": quantity(quantities.BYTES_PER_SECOND),
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
    values = read_entry("dies", name, _DIE_KEYS, ["die_link"])
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
        matmul_flops=quantities.parse_quantity(sheet["peak_flops"]["fp16"], quantities.FLOPS),
        vector_flops=quantities.parse_quantity(sheet["vector_flops"], quantities.FLOPS),
        compute_units=float(sheet["compute_units"]),
        memory_bandwidth=quantities.parse_quantity(sheet["memory_bandwidth"], quantities.BYTES_PER_SECOND),
        l2_bytes=quantities.parse_quantity(sheet["l2"], quantities.BYTES),
        l2_bandwidth=quantities.parse_quantity(sheet["l2_bandwidth"], quantities.BYTES_PER_SECOND),
        tdp_w=quantities.parse_quantity(sheet["tdp"], quantities.WATTS),
        idle_w=quantities.parse_quantity(sheet["idle_power"], quantities.WATTS),
    )


FIXED_ON = ("v100", "a100")
"""The older and the newer device that the law is fixed on."""
THRESHOLD = 0.25
"""Share of the nominal voltage at which transistors stop switching. A foundry states for one step the power at the same
speed and the speed at the same power; if the clock follows the voltage above a threshold linearly, and energy its
square, each such pair gives the threshold: 0.11 to 0.39 for the steps of TSMC from 10FF to A16, and this is the
middle."""
LOWEST_VOLTAGE = 0.7
"""Share of the nominal voltage that circuits of SRAM and logic still work at; below, only the clock falls (assumed)."""


SLOWEST = 0.1
"""Share of its clock below which a device is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """The constants; areas are of silicon in square metres, of all dies together."""

    flops_per_cycle: float
    """Of a square metre of enabled compute units at 7 nm, in fp16 with the split of A100."""
    flops_exponent: float
    """With which FLOP per cycle and area follow the density of logic."""
    units: float
    """Compute units of a square metre of dies at 7 nm."""
    units_exponent: float
    vector_flops_per_cycle: float
    """Of one unit, in fp32."""
    joules_per_cycle: float
    """Of a square metre of enabled dies at 7 nm, without interfaces."""
    pin_share: float
    """Rate of the memory's pins in a product over the fastest that the generation knows."""
    l2_bits: float
    """Bits of L2 that a product offers over those that its area holds at the density of SRAM (A100 alone)."""
    l2_bytes_per_cycle: float
    """Of a square metre of L2 (A100 alone)."""
    idle_share: float
    """Power without work over the power at the peak."""
    frequency_hz: float
    """Clock where none is stated: the geometric mean."""
    fastest_hz: float
    """The faster clock of the two; a node allows so much more than this as it is faster than 7 nm."""


@cache
def law() -> Law:
    """Return the constants that V100 and A100 determine."""
    old, new = (real_die(name) for name in FIXED_ON)
    step = log(_density(new.budget.node) / _density(old.budget.node))
    flops = [_flops_per_cycle(die) / units_area(die.budget) for die in (old, new)]
    flops_exponent = log(flops[1] / flops[0]) / step
    units = [die.units / float(die.budget.total_area_m2) for die in (old, new)]
    units_exponent = log(units[1] / units[0]) / step
    l2_area = float(new.budget.total_area_m2 * AREA_OF_A100.l2)
    return Law(
        flops_per_cycle=float(flops[1] / _density(new.budget.node) ** flops_exponent),
        flops_exponent=flops_exponent,
        units=units[1] / _density(new.budget.node) ** units_exponent,
        units_exponent=units_exponent,
        vector_flops_per_cycle=_mean(*(die.vector_flops / die.compute_units / die.frequency_hz for die in (old, new))),
        joules_per_cycle=_mean(*(_joules_per_cycle(die) for die in (old, new))),
        pin_share=_mean(*(_pin_share(die) for die in (old, new))),
        l2_bits=new.l2_bytes * BITS_PER_BYTE / (l2_area * float(new.budget.node.sram_density)),
        l2_bytes_per_cycle=new.l2_bandwidth / new.frequency_hz / l2_area,
        idle_share=_mean(*(die.idle_w / die.tdp_w for die in (old, new))),
        frequency_hz=_mean(old.frequency_hz, new.frequency_hz),
        fastest_hz=max(old.frequency_hz, new.frequency_hz),
    )


def split_of(budget: Budget) -> Split:
    """Return the split of the area that is stated, or else that of A100 with room for the interfaces.

    Where memory or links need more than their share of A100's die, the share grows, and the others shrink in
    proportion, down to nothing.
    """
    if budget.area is not None:
        return budget.area
    a, whole = AREA_OF_A100, budget.total_area_m2
    between = memory_bandwidth(budget) if budget.die_link is not None else 0.0
    memory = quantities.larger(memory_area(budget) / whole, a.memory)
    network = quantities.larger(network_area(budget, between) / whole, a.network)
    shrunk = quantities.larger(1 - memory - network, 0.0) / logic_share(a)
    return Split(
        compute=a.compute * shrunk, registers=a.registers * shrunk, l2=a.l2 * shrunk, memory=memory, network=network
    )


def with_area(budget: Budget, **shares: quantities.Number) -> Budget:
    """Return a budget with stated shares of the area.

    Interfaces that are not named keep what they have in `split_of`; other parts that are not named keep their
    proportions in what is left. Where all of those are named, the interfaces do.
    """
    base = split_of(budget)
    unnamed = [part for part in PARTS if part not in shares]
    flexible = [part for part in unnamed if part not in INTERFACES] or unnamed
    fixed = {part: getattr(base, part) for part in unnamed if part not in flexible}
    whole = sum(getattr(base, part) for part in flexible)
    left = 1 - sum(shares.values()) - sum(fixed.values())
    scaled = {part: getattr(base, part) / whole * left for part in flexible}
    return replace(budget, area=Split(**shares, **fixed, **scaled))


def with_l2_share(split: Split, share: quantities.Number) -> Split:
    """Return a split with another share of L2 in the area of the logic; units and registers keep their proportion."""
    logic, units = logic_share(split), split.compute + split.registers
    left = (1.0 - share) * logic / units
    return replace(split, compute=split.compute * left, registers=split.registers * left, l2=share * logic)


def units_area(budget: Budget) -> quantities.Number:
    """Return the area of the enabled compute units with the registers and L1 that they can use, over A100's share.

    Units need registers and L1 in the proportion of A100; the scarcer of the two limits how many work.
    """
    a, split = AREA_OF_A100, split_of(budget)
    share = quantities.smaller(split.compute / a.compute, split.registers / a.registers)
    return budget.total_area_m2 * budget.enabled * share


def switched_area(budget: Budget) -> quantities.Number:
    """Return the area that draws power with the clock, over A100's share of it: enabled units, registers and L2."""
    split = split_of(budget)
    share = (split.compute + split.registers) * budget.enabled + split.l2
    return budget.total_area_m2 * share / logic_share(AREA_OF_A100)


def logic_share(split: Split) -> quantities.Number:
    """Return the share of units, registers and L2."""
    return split.compute + split.registers + split.l2


def fastest_clock(budget: Budget) -> quantities.Number:
    """Return the highest clock that the node allows at the budget's voltage.

    It is that of the devices that the law is fixed on, faster as the node is, and as the voltage lies above the
    threshold: ``f = f_fastest * speed * (V / V_nominal - 0.25) / 0.75``.
    """
    above = (over_nominal(budget) - THRESHOLD) / (1 - THRESHOLD)
    return law().fastest_hz * quantities.larger(budget.node.speed, 1.0) * quantities.larger(above, 0.0)


def asked_clock(budget: Budget) -> quantities.Number:
    """Return the clock that is stated, else that of the devices that the law is fixed on, where the node allows it."""
    return (
        quantities.smaller(law().frequency_hz, fastest_clock(budget))
        if budget.frequency_hz is None
        else budget.frequency_hz
    )


def joules_of_cycle(budget: Budget) -> quantities.Number:
    """Return the energy of one cycle of all that the clock drives, at the node's nominal voltage."""
    return law().joules_per_cycle * density_of(budget.node) * budget.node.energy * switched_area(budget)


def least_watts(budget: Budget) -> quantities.Number:
    """Return the power of all that the clock drives at a tenth of the clock, with the voltage as low as it goes."""
    volts = quantities.smaller(over_nominal(budget), LOWEST_VOLTAGE)
    return SLOWEST * asked_clock(budget) * joules_of_cycle(budget) * volts**2


def over_nominal(budget: Budget) -> quantities.Number:
    """Return the supply voltage over the node's nominal one."""
    return 1.0 if budget.voltage is None else budget.voltage / budget.node.voltage


def memory_bandwidth(budget: Budget) -> quantities.Number:
    """Return bytes per second of all stacks: pins times the rate of a pin, no more than the memory's share of power."""
    memory = budget.memory
    rate = law().pin_share * memory.fastest_pin_rate if budget.pin_rate is None else budget.pin_rate
    wired = budget.stacks * memory.pins * rate / BITS_PER_BYTE
    if budget.power is None:
        return wired
    return quantities.smaller(wired, budget.power.memory * budget.power_w / (BITS_PER_BYTE * memory.energy_j_per_bit))


def density_of(stated: Node) -> quantities.Number:
    """Return a node's density of logic over that at 7 nm."""
    return stated.logic_density / node(REFERENCE_NODE).logic_density


def _density(stated: Node) -> float:
    return float(density_of(stated))


def _flops_per_cycle(die: RealDie) -> float:
    return die.matmul_flops / die.frequency_hz


def _joules_per_cycle(die: RealDie) -> float:
    """Energy of a cycle and area at 7 nm: the power that interfaces leave, as the node's energy makes it there."""
    budget = die.budget
    interfaces = sum(interface_watts(budget, die.memory_bandwidth).values())
    per_cycle = (die.tdp_w - float(interfaces)) / die.frequency_hz / float(switched_area(budget))
    return per_cycle / (_density(budget.node) * float(budget.node.energy))


def _pin_share(die: RealDie) -> float:
    """The rate of the memory's pins over the fastest of its generation."""
    memory = die.budget.memory
    fastest = float(die.budget.stacks * memory.pins * memory.fastest_pin_rate) / BITS_PER_BYTE
    return die.memory_bandwidth / fastest


def _mean(a: float, b: float) -> float:
    """Geometric mean of two."""
    return sqrt(a * b)

"""A device of a budget: `synthesized(budget)`, a `scenario.Device` whose numbers are arrays where the budget's are.

    device = synthesized(budget)     enters prediction, plan search and simulation like any other
    made = made_of(budget)           the same with clock, voltage and the power of each part

Where a budget of plain numbers cannot be built, `synthesized` raises `InputError` with a sentence for each limit;
arrays are computed everywhere, and `sightline.technology.limits.buildable` says where they mean something.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sightline import quantities
from sightline.errors import refuse
from sightline.scenario import Device
from sightline.technology import law
from sightline.technology.budget import Budget, interface_watts
from sightline.technology.limits import problems_of
from sightline.technology.parts import BITS_PER_BYTE

ROUNDING = 1e-6
"""By which a number of units may miss a whole one."""
NEWTON_STEPS = 8
"""Enough for double precision: the cubic is convex, and each step starts at its right."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Made:
    """A device with what it was computed from."""

    device: Device
    frequency_hz: quantities.Number
    """The clock, lowered where the power cap binds."""
    asked_hz: quantities.Number
    """The clock without a power cap."""
    voltage: quantities.Number
    watts: dict[str, quantities.Number]
    """Power at the peak by part: units (with registers and L2), memory, network, and links between dies."""
    power_bound: Any
    """Whether the power cap lowered the clock, place by place."""


def synthesized(budget: Budget) -> Device:
    """Return the device that a budget makes.

    Raises:
        InputError: Where the budget's numbers are plain ones that cannot be built, with a sentence for each limit.
    """
    return made_of(budget).device


def made_of(budget: Budget) -> Made:
    """Return the device that a budget makes, with its clock, voltage and power by part; raise as `synthesized` does."""
    refuse(problems_of(budget))
    return made_anyway(budget)


@np.errstate(divide="ignore", invalid="ignore", over="ignore")
def made_anyway(budget: Budget) -> Made:
    """Return the same whether or not it can be built: else the numbers that it would have."""
    bandwidth = law.memory_bandwidth(budget)
    interfaces = interface_watts(budget, bandwidth)
    asked, volts = law.asked_clock(budget), law.over_nominal(budget)
    full = law.joules_of_cycle(budget) * asked * volts**2
    share = _clock_share(np.divide(_for_units(budget, interfaces), full), volts)
    units_w = full * share * _voltage_share(share, volts) ** 2
    hertz = asked * share
    watts = {"units": units_w, **interfaces}
    drawn = sum(watts.values())
    return Made(
        device=_device(budget, hertz, bandwidth, drawn),
        frequency_hz=_told(hertz),
        asked_hz=_told(asked),
        voltage=_told(budget.node.voltage * volts * _voltage_share(share, volts)),
        watts={part: _told(value) for part, value in watts.items()},
        power_bound=share < 1,
    )


def _device(budget: Budget, hertz: quantities.Number, bandwidth: quantities.Number, drawn: quantities.Number) -> Device:
    constants = law.law()
    density = law.density_of(budget.node)
    matmul = constants.flops_per_cycle * density**constants.flops_exponent * law.units_area(budget) * hertz
    units = quantities.larger(np.floor(budget.enabled * _units(budget) + ROUNDING), 1.0)
    vector = units * constants.vector_flops_per_cycle * hertz
    l2_area = budget.total_area_m2 * law.split_of(budget).l2
    held = budget.stacks * budget.memory.capacity_bytes if budget.memory_bytes is None else budget.memory_bytes
    figures = {
        "memory_bytes": held,
        "memory_bandwidth": bandwidth,
        "l2_bytes": constants.l2_bits * budget.node.sram_density * l2_area / BITS_PER_BYTE,
        "l2_bandwidth": constants.l2_bytes_per_cycle * l2_area * hertz,
        "compute_units": units,
        "vector_flops": vector,
        "tdp_w": drawn,
        "idle_w": constants.idle_share * drawn,
    }
    return Device(
        name=budget.name or f"{budget.node.name} with {budget.memory.name}",
        peak_flops={"fp32": _told(vector), **{dtype: _told(matmul * rate) for dtype, rate in budget.formats.items()}},
        **{key: _told(value) for key, value in figures.items()},
        calibration=budget.calibration,
        relatives=budget.relatives,
        architecture=budget.architecture,
        usd_per_hour=budget.usd_per_hour,
    )


def _units(budget: Budget) -> quantities.Number:
    """Compute units on all dies, those disabled too."""
    constants = law.law()
    density = law.density_of(budget.node)
    share = law.units_area(budget) / budget.enabled
    return constants.units * density**constants.units_exponent * share


def _for_units(budget: Budget, interfaces: dict[str, quantities.Number]) -> quantities.Number:
    """Power that the cap leaves to units, registers and L2."""
    if budget.power is None:
        return quantities.larger(budget.power_w - sum(interfaces.values()), 0.0)
    return budget.power_w * law.logic_share(budget.power)


def _voltage_share(clock: quantities.Number, volts: quantities.Number) -> quantities.Number:
    """The voltage over that at the full clock, which is ``volts`` over nominal: linear above the threshold, floored."""
    threshold = law.THRESHOLD / volts
    return quantities.larger(threshold + (1 - threshold) * clock, quantities.smaller(law.LOWEST_VOLTAGE / volts, 1.0))


def _clock_share(power: quantities.Number, volts: quantities.Number) -> quantities.Number:
    """The clock, over the full one, whose power is a share of that at the full one: ``x * v(x)^2 = power``.

    Above the voltage's floor that is a cubic, solved by Newton's method; below, power is linear in the clock.
    """
    power, threshold = quantities.smaller(power, 1.0), law.THRESHOLD / volts
    clock = power ** (1 / 3)
    for _ in range(NEWTON_STEPS):
        share = threshold + (1 - threshold) * clock
        excess = clock * share**2 - power
        clock = clock - excess / (share * (share + 2 * (1 - threshold) * clock))
    lowest = quantities.smaller(law.LOWEST_VOLTAGE / volts, 1.0)
    floored = threshold + (1 - threshold) * clock < lowest
    return quantities.either(floored, power / lowest**2, quantities.smaller(clock, 1.0))


def _told(value: Any) -> Any:
    """A number as a description holds it: plain where it is one."""
    return quantities.plain(quantities.as_python(value))


_INTERFACES: Mapping[str, str] = {"memory": "the memory takes", "network": "links", "dies": "links between dies"}
"""Who takes power before the units do."""


def said_of_device(budget: Budget, made: Made) -> str:
    """Return what a budget of plain numbers makes: peak, clock, memory, L2 and power, and what the power cap does."""
    device = made.device
    dtype = "bf16" if "bf16" in device.peak_flops else next(iter(device.peak_flops))
    return (
        f"{device.name} has {_in(quantities.FLOPS, device.peak_flops[dtype])} in {dtype} at "
        f"{_in(quantities.HERTZ, made.frequency_hz)}, {_in(quantities.BYTES, device.memory_bytes)} of memory at "
        f"{_in(quantities.BYTES_PER_SECOND, device.memory_bandwidth)}, {_in(quantities.BYTES, device.l2_bytes)} of L2, "
        f"and draws {_in(quantities.WATTS, device.tdp_w)}{_of_cap(budget, made)}"
    )


def _of_cap(budget: Budget, made: Made) -> str:
    if not made.power_bound:
        return ""
    limited = said_of_power(budget.power_w, made.watts)
    return f": {limited}, which lowers the clock from {_in(quantities.HERTZ, made.asked_hz)}"


def said_of_power(cap_w: quantities.Number, watts: Mapping[str, quantities.Number]) -> str:
    """Return who takes a power cap: "of 400 W the memory takes 240 W"."""
    taken = ", ".join(
        f"{words} {_in(quantities.WATTS, watts[part])}" for part, words in _INTERFACES.items() if watts[part] > 0
    )
    return f"of {_in(quantities.WATTS, cap_w)} {taken}"


def _in(dimension: quantities.Dimension, value: quantities.Number) -> str:
    return quantities.format_quantity(float(value), dimension)

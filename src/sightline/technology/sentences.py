"""What a device of a budget comes to, in sentences: what it offers, and what its power cap leaves."""

from collections.abc import Mapping

from sightline.quantities import BYTES, BYTES_PER_SECOND, FLOPS, HERTZ, WATTS, Dimension, Number, format_quantity
from sightline.technology.budget import Budget
from sightline.technology.synthesis import Made

_INTERFACES: Mapping[str, str] = {"memory": "the memory takes", "network": "links", "dies": "links between dies"}
"""Who takes power before the units do."""


def said_of_device(budget: Budget, made: Made) -> str:
    """Return what a budget of plain numbers makes: peak, clock, memory, L2 and power, and what the power cap does."""
    device = made.device
    dtype = "bf16" if "bf16" in device.peak_flops else next(iter(device.peak_flops))
    return (
        f"{device.name} makes {_in(FLOPS, device.peak_flops[dtype])} in {dtype} at {_in(HERTZ, made.frequency_hz)}, "
        f"moves {_in(BYTES_PER_SECOND, device.memory_bandwidth)} of {_in(BYTES, device.memory_bytes)} of memory, "
        f"has {_in(BYTES, device.l2_bytes)} of L2, and draws {_in(WATTS, device.tdp_w)}{_of_cap(budget, made)}"
    )


def _of_cap(budget: Budget, made: Made) -> str:
    if not made.power_bound:
        return ""
    return f": {said_of_power(budget.power_w, made.watts)}, which lowers the clock from {_in(HERTZ, made.asked_hz)}"


def said_of_power(cap_w: Number, watts: Mapping[str, Number]) -> str:
    """Return who takes a power cap: "of 400 W the memory takes 240 W"."""
    taken = ", ".join(f"{words} {_in(WATTS, watts[part])}" for part, words in _INTERFACES.items() if watts[part] > 0)
    return f"of {_in(WATTS, cap_w)} {taken}"


def _in(dimension: Dimension, value: Number) -> str:
    return format_quantity(float(value), dimension)

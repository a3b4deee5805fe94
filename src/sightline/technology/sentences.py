"""What a device of a budget comes to, in sentences: what it offers, and what its power cap leaves."""

from collections.abc import Mapping

from sightline.quantities import BYTES, BYTES_PER_SECOND, FLOPS, HERTZ, WATTS, format_quantity
from sightline.technology.budget import Budget
from sightline.technology.synthesis import Made

_INTERFACES: Mapping[str, str] = {"memory": "the memory takes", "network": "links", "dies": "links between dies"}
"""Who takes power before the units do."""


def said_of_device(budget: Budget, made: Made) -> str:
    """Return what a budget of plain numbers makes: peak, clock, memory, L2 and power, and what the power cap does."""
    device = made.device
    dtype = "bf16" if "bf16" in device.peak_flops else next(iter(device.peak_flops))
    peak, clock = (format_quantity(*one) for one in ((device.peak_flops[dtype], FLOPS), (made.frequency_hz, HERTZ)))
    memory, bandwidth = (
        format_quantity(*one) for one in ((device.memory_bytes, BYTES), (device.memory_bandwidth, BYTES_PER_SECOND))
    )
    return (
        f"{device.name} makes {peak} in {dtype} at {clock}, moves {bandwidth} of {memory} of memory, has "
        f"{format_quantity(device.l2_bytes, BYTES)} of L2, and draws {format_quantity(device.tdp_w, WATTS)}"
        f"{_of_cap(budget, made)}"
    )


def _of_cap(budget: Budget, made: Made) -> str:
    if not made.power_bound:
        return ""
    asked = format_quantity(made.asked_hz, HERTZ)
    return f": {said_of_power(budget.power_w, made.watts)}, which lowers the clock from {asked}"


def said_of_power(cap_w: float, watts: Mapping[str, float]) -> str:
    """Return who takes a power cap: "of 400 W the memory takes 240 W"."""
    taken = ", ".join(
        f"{words} {format_quantity(watts[part], WATTS)}" for part, words in _INTERFACES.items() if watts[part] > 0
    )
    return f"of {format_quantity(cap_w, WATTS)} {taken}"

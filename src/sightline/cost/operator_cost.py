"""The price of one operator: its time and the two roofline legs behind it."""

from typing import NamedTuple

from sightline.quantities import Number


class OperatorCost(NamedTuple):
    """Seconds of one execution on a device, without the host's launch time."""

    time_s: Number
    """The kernel's time: at least the larger leg, plus its fixed latency."""
    compute_s: Number
    """Arithmetic at the datasheet's peak: the compute leg of the roofline."""
    memory_s: Number
    """Compulsory bytes at the datasheet's bandwidth: the memory leg of the roofline."""

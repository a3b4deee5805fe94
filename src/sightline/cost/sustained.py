"""What long products keep of the 16-bit peak: a rule for devices whose products nobody measured.

Arithmetic at the peak draws more than a board may, so that the clock falls. How far follows from the board's power per
FLOP/s of its peak: over boards from 70 W to 1,400 W, ``(1 - s) / s = scale w^-exponent``, ``w`` in watts per TFLOP/s.
Silicon of 12 nm needs ``process_energy`` times the energy; the libraries of other makers reach ``makers`` of that.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from sightline.catalog import entry
from sightline.cost import architectures
from sightline.cost.families import UNMEASURED, Stated
from sightline.quantities import Number, smaller
from sightline.scenario import Device

SIXTEEN_BITS = ("bf16", "fp16")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SustainedLaw(Stated):
    """Constants of the rule, fitted to the best products of some twenty devices."""

    scale: float
    exponent: float
    process_energy: float
    """Energy of an operation in silicon of 12 nm over that of later one."""
    makers: Mapping[str, float]
    """Share that the library of a maker reaches of what power allows; only devices of these makers follow the rule."""


@cache
def shipped_law() -> SustainedLaw:
    """Return the rule as it is fitted to all devices."""
    return SustainedLaw.from_mapping(entry("calibrations", f"{UNMEASURED}/matmul")["sustained"])


def watts_per_tflops(device: Device) -> Number:
    """Return the board's power limit over its 16-bit peak."""
    peak = next(device.peak_flops[dtype] for dtype in SIXTEEN_BITS if dtype in device.peak_flops)
    return device.tdp_w / (peak / 1e12)


def sustained_share(device: Device, law: SustainedLaw) -> Number | None:
    """Return the share of the 16-bit peak that long products keep; None for devices that the rule says nothing of."""
    told: Mapping[str, Any] = architectures.of_device(device)
    if told["maker"] not in law.makers or not any(dtype in device.peak_flops for dtype in SIXTEEN_BITS):
        return None
    watts = watts_per_tflops(device) / (law.process_energy if "process" in told else 1.0)
    share: Number = law.makers[told["maker"]] / (1.0 + law.scale * watts**-law.exponent)
    return smaller(share, 1.0)

"""The rule of what long products keep of the peak, fitted to the best products of all measured devices."""

from collections.abc import Collection, Mapping

import numpy as np

from sightline.calibration.fits import Array
from sightline.calibration.manifest import Stated
from sightline.calibration.parts.part import Entry
from sightline.cost import architectures
from sightline.cost.sustained import watts_per_tflops
from sightline.loading.clusters import read_device
from sightline.quantities import significant
from sightline.scenario import Device

REFERENCE = "nvidia"
"""Maker whose libraries the others' are compared with."""
HIGHEST = 0.97
"""Share above which products tell a clock over that of the datasheet, not the power limit."""


def fit_sustained(stated: Stated, without: Collection[str] = ()) -> Entry:
    """Return the constants of the rule by the manifest's ``best`` shares, leaving architectures out.

    A line through the logarithms for the reference maker's later devices; then the geometric means of what older
    silicon and other makers' libraries lack. A maker or process of which nothing is left keeps 1.
    """
    devices = {name: read_device(name) for name in stated["best"]}
    kept = {n: d for n, d in devices.items() if d.architecture not in without}
    share = {name: min(float(stated["best"][name]), HIGHEST) for name in kept}
    later = [n for n, d in kept.items() if _maker(d) == REFERENCE and not _is_old(d)]
    watts = np.log([float(watts_per_tflops(kept[n])) for n in later])
    slope, level = np.polyfit(watts, _lost([share[n] for n in later]), 1)
    scale, exponent = float(np.exp(level)), -float(slope)

    old = [n for n, d in kept.items() if _is_old(d)]
    needed = [np.log(watts_per_tflops(kept[n])) - (level - _lost([share[n]])[0]) / exponent for n in old]
    energy = float(np.exp(np.mean(needed))) if old else 1.0
    makers = {REFERENCE: 1.0, **{m: _library(m, kept, share, scale, exponent) for m in stated["makers"]}}
    return {
        "source": stated["source"],
        "scale": significant(scale),
        "exponent": significant(exponent),
        "process_energy": significant(energy),
        "makers": {maker: significant(reached) for maker, reached in makers.items()},
    }


def _lost(shares: list[float]) -> Array:
    values = np.array(shares)
    lost: Array = np.log((1.0 - values) / values)
    return lost


def _library(
    maker: str, devices: Mapping[str, Device], share: Mapping[str, float], scale: float, exponent: float
) -> float:
    """Mean of what a maker's devices reach over what their power allows; 1 where none is left."""
    own = [n for n, d in devices.items() if _maker(d) == maker]
    allowed = [1.0 / (1.0 + scale * float(watts_per_tflops(devices[n])) ** -exponent) for n in own]
    return float(np.exp(np.mean(np.log([share[n] / a for n, a in zip(own, allowed, strict=True)])))) if own else 1.0


def _maker(device: Device) -> str:
    return str(architectures.of_device(device)["maker"])


def _is_old(device: Device) -> bool:
    return "process" in architectures.of_device(device)

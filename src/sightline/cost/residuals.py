"""How far measurements lie from what formulas predict: half-widths of 80 % intervals, in natural logarithms.

Calibrations state the median and the 90th percentile of the absolute errors of what a fit did not see, or, where too
little was measured to leave some out, of what it saw. The 80th percentile lies between.

Whether what is asked lies between the smallest and the largest of what a calibration was fitted to.

An entry states ``covered``: by kernel (of collectives: kind, or engine) and size the ends of the range that was measured.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from math import log1p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.catalog import entry
from sightline.cost.families import UNMEASURED, family_of
from sightline.profile import Evidence
from sightline.quantities import Number
from sightline.scenario import Device

BETWEEN = 0.7
"""Where the 80th percentile lies on the way from the median to the 90th, in logarithms: 0.72 for normally distributed
errors, 0.70 for Laplace's."""

BORROWED: Mapping[str, float] = {
    "matmul": 0.20,
    "prefill_attention": 0.40,
    "decode_attention": 0.45,
    "latent_decode_attention": 0.40,
    "grouped": 0.40,
    "elementwise": 0.30,
    "collectives": 0.25,
}
"""Half-widths by part for constants of a relative: 80th percentiles where every family that has a table was predicted
with the constants of its nearest relative, about the median over the families. Those of A100 in 2026-11: matmuls 0.29
with H100's, prefill 0.28, decode 0.57; between H100 and H200 matmuls 0.08; of B200 with H100's collectives 0.33."""
GENERIC: Mapping[str, float] = {
    "matmul": 0.25,
    "prefill_attention": 0.45,
    "decode_attention": 0.50,
    "latent_decode_attention": 0.50,
    "grouped": 0.45,
    "elementwise": 0.45,
    "collectives": 0.40,
}
"""The same for the constants of devices that nobody measured: about the third quartile over families predicted with the
constants fitted to the others."""
OTHERS = 0.5
"""For parts that are not listed."""


def half_width(device: Device, part: str, path: Sequence[str], ranges: Sequence[str], evidence: Evidence) -> float:
    """Return the logarithmic half-width of the 80 % interval of an operator's time.

    ``path`` are the keys that lead to the residuals in the part's calibration entry; of their ranges the first that ends
    in one of ``ranges`` counts, or all where none does, and the widest where several end so. Constants that rest on a
    relative's or nobody's measurements are as wide as errors of such were, at least.
    """
    return family_half_width(family_of(device, part), part, path, ranges, evidence)


def family_half_width(family: str, part: str, path: Sequence[str], ranges: Sequence[str], evidence: Evidence) -> float:
    """Return the same for the constants of a calibration family."""
    if evidence == "datasheet" or family == UNMEASURED:
        return GENERIC.get(part, OTHERS)
    own = _stated(family, part, tuple(path), tuple(ranges))
    if evidence == "calibrated" and own is not None:
        return own
    return max(own or 0.0, BORROWED.get(part, OTHERS))


def first_stated(family: str, part: str, *paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return the first of ``paths`` at which a calibration entry states residuals; the last where it has none."""
    return next((path for path in paths if _stated(family, part, path, ()) is not None), paths[-1])


@cache
def _stated(family: str, part: str, path: tuple[str, ...], ranges: tuple[str, ...]) -> float | None:
    """What the calibration entry states; None where it says nothing."""
    place: Any = entry("calibrations", f"{family}/{part}")
    for key in path:
        place = place.get(key) if isinstance(place, Mapping) else None
    if not place:
        return None
    known = place if isinstance(place, Mapping) else {"": place}
    chosen = next((names for r in ranges if (names := [n for n in known if n.endswith(r)])), list(known))
    widths = [width for name in chosen if (width := _percentile_80(known[name])) is not None]
    return max(widths, default=None)


def _percentile_80(figures: object) -> float | None:
    """Of a mapping with median and p90, or of a list of cases, median, p90 and bias in per cent."""
    if isinstance(figures, Mapping) and {"median", "p90"} <= figures.keys():
        median, p90 = figures["median"], figures["p90"]
    elif isinstance(figures, Sequence) and not isinstance(figures, str) and len(figures) >= 3:
        median, p90 = figures[1] / 100, figures[2] / 100
    else:
        return None
    return log1p(median ** (1 - BETWEEN) * p90**BETWEEN)


def covers(family: str, part: str, kernel: str, sizes: Mapping[str, Number]) -> NDArray[np.bool_]:
    """Return where all ``sizes`` lie in the ranges of ``kernel``; they broadcast. Nothing is outside a range not stated."""
    ranges: Mapping[str, Any] = entry("calibrations", f"{family}/{part}").get("covered", {}).get(kernel, {})
    inside = np.asarray(True)
    for name, size in sizes.items():
        if name in ranges:
            low, high = ranges[name]
            inside = inside & (np.asarray(size) >= low) & (np.asarray(size) <= high)
    return inside

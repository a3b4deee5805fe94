"""Whether what is asked lies between the smallest and the largest of what a calibration was fitted to.

An entry states ``covered``: by kernel (of collectives: kind, or engine) and size the ends of the range that was measured.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.catalog import entry
from sightline.quantities import Number


def covers(family: str, part: str, kernel: str, sizes: Mapping[str, Number]) -> NDArray[np.bool_]:
    """Return where all ``sizes`` lie in the ranges of ``kernel``; they broadcast. Nothing is outside a range not stated."""
    ranges: Mapping[str, Any] = entry("calibrations", f"{family}/{part}").get("covered", {}).get(kernel, {})
    inside = np.asarray(True)
    for name, size in sizes.items():
        if name in ranges:
            low, high = ranges[name]
            inside = inside & (np.asarray(size) >= low) & (np.asarray(size) <= high)
    return inside

"""Masks that several rules about launches look at."""

from collections.abc import Mapping

import numpy as np

from sightline.quantities import Number
from sightline.scenario.rules.rulebook import Mask


def offloads(offload: frozenset[str] | Mapping[str, Number], part: str) -> Mask:
    """Return where a plan offloads a part."""
    if isinstance(offload, Mapping):
        return np.greater(offload.get(part, 0.0), 0)
    return part in offload

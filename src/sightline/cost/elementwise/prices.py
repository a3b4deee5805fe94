"""Prices of element-wise kernels, each class with its own constants or all with those of a framework."""

from dataclasses import replace

import numpy as np

from sightline.cost.alike import Alike
from sightline.cost.device_model import DeviceModel
from sightline.cost.elementwise.kernels import ElementwiseConstants, elementwise_constants, elementwise_cost
from sightline.cost.families import family_of
from sightline.cost.operator_cost import OperatorCost
from sightline.cost.ranks import Ranks
from sightline.quantities import Number


def price_streams(alike: Alike, on: Ranks) -> OperatorCost:
    """Element-wise kernels of any class."""
    model = on.device_model
    constants = model.kernels.streams or _by_kind(alike, model)
    sizes = alike.stacked("traffic_bytes", "arithmetic", "kernels")
    return elementwise_cost(*sizes, device=model.device, constants=constants)


def _by_kind(alike: Alike, model: DeviceModel) -> ElementwiseConstants:
    """The constants of several kernels, with room for the axes of a mesh."""
    family = family_of(model.device, "elementwise")
    found = elementwise_constants([op.kind for op in alike.operators], family, model.kernels.stream_generation)
    if not alike.axes:
        return found

    def shaped(values: Number) -> Number:
        return np.reshape(values, (-1,) + (1,) * alike.axes)

    return replace(
        found,
        memory_fraction=shaped(found.memory_fraction),
        cache_gain=shaped(found.cache_gain),
        vector_fraction=shaped(found.vector_fraction),
        kernel_latency_s=shaped(found.kernel_latency_s),
    )

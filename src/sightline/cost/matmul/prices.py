"""Prices of products: dense ones, and a matrix and few vectors."""

import numpy as np

from sightline.cost.device_model import DeviceModel
from sightline.cost.families import family_of, full_rate_family
from sightline.cost.matmul.constants import MatmulConstants, borrowed_matmul, load_matmul
from sightline.cost.matmul.dense import matmul_cost
from sightline.cost.matmul.fp32_router import fp32_router_cost
from sightline.cost.operator_cost import Alike, OperatorCost
from sightline.cost.ranks import Ranks
from sightline.program.formats import HALF_SUMS, WIDE_ROUTER

UNIT_BANDWIDTH = 10e9
"""Bytes per second and compute unit at which matrix-vector kernels are priced before an engine's own rate is known."""


def price_matmuls(alike: Alike, on: Ranks) -> OperatorCost:
    """Products of operands of one format."""
    first, model = alike.first, on.device_model
    if first.kernel == WIDE_ROUTER:
        return fp32_router_cost(alike.together, model.device)
    return matmul_cost(alike.together, model.device, model.constants(_of_family, first.kernel, first.dtype))


def _of_family(model: DeviceModel, kernel: str, dtype: str) -> MatmulConstants:
    """Constants of products whose inputs are quantized by an operator of their own, or by the kernel before."""
    device = model.device
    family = (full_rate_family if dtype == HALF_SUMS else family_of)(device, "matmul")
    if model.kernels.single_products:
        return borrowed_matmul(family, device, kernel).without_quantization()
    return load_matmul(family, kernel).without_quantization().without_surface()


def price_matrix_vector(alike: Alike, on: Ranks) -> OperatorCost:
    """The time of few rows is what the compute units need at ``UNIT_BANDWIDTH`` each; of many, a matmul's."""
    device, few = on.device_model.device, np.less_equal(alike.together.m, alike.first.most_rows)
    many = price_matmuls(alike, on)
    units_s = many.memory_s * device.memory_bandwidth / (device.compute_units * UNIT_BANDWIDTH)
    return many._replace(time_s=np.where(few, units_s, many.time_s))

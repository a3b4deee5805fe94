"""Prices of products: dense ones, a matrix and few vectors, the experts of a mixture."""

import numpy as np

from sightline.cost.device_model import DeviceModel
from sightline.cost.families import family_of, full_rate_family
from sightline.cost.matmul.constants import MatmulConstants, borrowed_matmul, load_matmul
from sightline.cost.matmul.dense import matmul_cost
from sightline.cost.matmul.fp32_router import fp32_router_cost
from sightline.cost.matmul.grouped import GroupedConstants, GroupedLayout, grouped_matmul_cost, load_grouped
from sightline.cost.operator_cost import Alike, OperatorCost
from sightline.cost.ranks import Ranks
from sightline.program.formats import HALF_SUMS, WIDE_ROUTER

UNIT_BANDWIDTH = 10e9
"""Bytes per second and compute unit at which matrix-vector kernels are priced before an engine's own rate is known."""


def price_matmuls(alike: Alike, on: Ranks) -> OperatorCost:
    """Products of operands of one format."""
    first, model = alike.first, on.device_model
    if first.kernel == WIDE_ROUTER:
        return fp32_router_cost(*alike.stacked("m", "n", "k"), dtype=first.dtype, device=model.device)
    row, output_bytes = alike.stacked("row", "output_bytes")
    return matmul_cost(
        *alike.stacked("m", "n", "k", "batch"),
        row=row,
        dtype=first.dtype,
        element_bytes=first.element_bytes,
        weight_bytes=first.weight_bytes,
        output_bytes=output_bytes,
        device=model.device,
        constants=model.constants(_dense, first.kernel, first.dtype),
    )


def _dense(model: DeviceModel, kernel: str, dtype: str) -> MatmulConstants:
    """Constants of products whose inputs are quantized by an operator of their own, or by the kernel before."""
    device = model.device
    family = (full_rate_family if dtype == HALF_SUMS else family_of)(device, "matmul")
    if model.kernels.single_products:
        return borrowed_matmul(family, device, kernel).without_quantization()
    return load_matmul(family, kernel).without_quantization().without_surface()


def price_matrix_vector(alike: Alike, on: Ranks) -> OperatorCost:
    """The time of few rows is what the compute units need at ``UNIT_BANDWIDTH`` each; of many, a matmul's."""
    device, (m,) = on.device_model.device, alike.stacked("m")
    many = price_matmuls(alike, on)
    units_s = many.memory_s * device.memory_bandwidth / (device.compute_units * UNIT_BANDWIDTH)
    return many._replace(time_s=np.where(np.less_equal(m, alike.first.most_rows), units_s, many.time_s))


def price_experts(alike: Alike, on: Ranks) -> OperatorCost:
    """Grouped matmuls of one format and layout."""
    first, model = alike.first, on.device_model
    return grouped_matmul_cost(
        *alike.stacked("rows", "experts", "n", "k"),
        active=alike.stacked("active")[0],
        dtype=first.dtype,
        element_bytes=first.element_bytes,
        weight_bytes=first.weight_bytes,
        output_bytes=first.output_bytes,
        device=model.device,
        constants=model.constants(_grouped, first.kernel, "masked" if first.decode else "contiguous"),
    )


def _grouped(model: DeviceModel, kernel: str, layout: GroupedLayout) -> GroupedConstants:
    return load_grouped(family_of(model.device, "grouped"), kernel, layout)[0]

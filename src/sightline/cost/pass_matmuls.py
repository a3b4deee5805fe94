"""Prices of a pass's products: dense matmuls, matrix-vector kernels, experts."""

from collections.abc import Sequence

import numpy as np

from sightline.cost.alike import stacked
from sightline.cost.families import family_of, full_rate_family
from sightline.cost.inference_constants import UNIT_BANDWIDTH
from sightline.cost.matmul.constants import borrowed_matmul
from sightline.cost.matmul.dense import matmul_cost
from sightline.cost.matmul.fp32_router import wide_router_cost
from sightline.cost.matmul.grouped import GroupedLayout, grouped_matmul_cost, load_grouped
from sightline.cost.operator_cost import OperatorCost
from sightline.cost.ranks import Ranks
from sightline.program import Matmul
from sightline.program.inference import GroupedMatmul, MatrixVector
from sightline.program.matmul_formats import HALF_SUMS, WIDE_ROUTER


def price_matmuls(operators: Sequence[Matmul], ranks: Ranks, axes: int) -> OperatorCost:
    """Products with weights, all of one format."""
    first, device = operators[0], ranks.device
    if first.kernel == WIDE_ROUTER:
        sizes = (stacked(operators, name, axes) for name in ("m", "n", "k"))
        return wide_router_cost(*sizes, dtype=first.dtype, device=device)
    family = (full_rate_family if first.dtype == HALF_SUMS else family_of)(device, "matmul")
    return matmul_cost(
        *(stacked(operators, name, axes) for name in ("m", "n", "k", "batch")),
        dtype=first.dtype,
        element_bytes=first.element_bytes,
        weight_bytes=first.weight_bytes,
        output_bytes=first.output_bytes,
        device=device,
        # What quantizes inputs is an operator of the pass, or part of the kernel before.
        constants=borrowed_matmul(family, device, first.kernel).without_quantization(),
    )


def price_matrix_vector(operators: Sequence[MatrixVector], ranks: Ranks, axes: int) -> OperatorCost:
    """The time of few rows is what the compute units need at ``UNIT_BANDWIDTH`` each; of many, a matmul's."""
    device, m = ranks.device, stacked(operators, "m", axes)
    many = price_matmuls(operators, ranks, axes)
    units_s = many.memory_s * device.memory_bandwidth / (device.compute_units * UNIT_BANDWIDTH)
    return many._replace(time_s=np.where(np.less_equal(m, operators[0].most_rows), units_s, many.time_s))


def price_experts(operators: Sequence[GroupedMatmul], ranks: Ranks, axes: int) -> OperatorCost:
    """Grouped matmuls of one format and layout."""
    first, device = operators[0], ranks.device
    layout: GroupedLayout = "masked" if first.decode else "contiguous"
    return grouped_matmul_cost(
        *(stacked(operators, name, axes) for name in ("rows", "experts", "n", "k")),
        active=stacked(operators, "active", axes),
        dtype=first.dtype,
        element_bytes=first.element_bytes,
        weight_bytes=first.weight_bytes,
        output_bytes=first.output_bytes,
        device=device,
        constants=load_grouped(family_of(device, "grouped"), first.kernel, layout)[0],
    )

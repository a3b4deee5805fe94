"""Prices of dense products: those of a library, of fp32 routers, and of an engine's matrix-vector kernels.

A router in fp32 has few columns, and its kernel is not cut along ``k``.
PyTorch multiplies fp32 matrices on the vector units unless told to use TF32. Its library takes tiles of 64 rows and
columns for them (``cutlass_80_simt_sgemm_64x64_8x5`` in the profile of vllm-project/vllm#41332), so that the few
columns of a router occupy a few compute units, each of which walks along the whole of ``k``: the time grows with ``k``
and hardly with the rows. The numbers are read off the timings of 1 to 1,024 rows, 256 columns and ``k`` of 6,144 on
GB200 in vllm-project/vllm#47973 (columns "torch FP32" and "torch TF32"; its 71.8 us for two rows left aside). That
whole servers of MiniMax M2.5 gain 4 to 12 % without it is measured in #41332.
"""

from dataclasses import dataclass

import numpy as np

from sightline.cost.device_model import DeviceModel
from sightline.cost.families import family_of, full_rate_family
from sightline.cost.matmul.constants import MatmulConstants, borrowed_matmul, load_matmul
from sightline.cost.matmul.dense import matmul_cost
from sightline.cost.operator_cost import Alike, OperatorCost, Ranks
from sightline.program import Matmul
from sightline.program.formats import FP32_ROUTER, HALF_SUMS
from sightline.scenario import Device

TILE_ELEMENTS = 64.0 * 32.0
"""Outputs that a compute unit works on at a time, at the pace that was measured."""
UNIT_FRACTION = 0.8
"""Share of its fp32 rate that a compute unit reaches in one."""
FEW_ROWS = 16.0
"""Rows up to which the library has kernels that do not walk along ``k`` alone."""
LATENCY_S = 3e-6
"""Fixed time of such a kernel."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Walk:
    """Time of a walk along ``k`` over that of one tile in fp32, and the share of the peak that many rows reach."""

    one_row: float
    few_rows: float
    rows: float
    peak_fraction: float


_WALKS = {
    "fp32": _Walk(one_row=0.08, few_rows=0.3, rows=1.0, peak_fraction=0.8),
    "tf32": _Walk(one_row=0.14, few_rows=0.155, rows=0.29, peak_fraction=0.25),
}


def fp32_router_cost(x: Matmul, device: Device) -> OperatorCost:
    """Seconds of the product of ``m x k`` with ``k x n`` in fp32 or tf32, all of 4-byte elements.

    One tile's walk along ``k`` and the arithmetic of all of them at what many rows reach of the peak, one after the
    other; never below one pass over the operands.
    """
    walk = _WALKS[x.dtype]
    compute_s = x.flops / device.peak_flops[x.dtype]
    memory_s = x.bytes / device.memory_bandwidth
    unit_flops = UNIT_FRACTION * device.peak_flops["fp32"] / device.compute_units
    fewer_rows = np.where(np.less_equal(x.m, 1.0), walk.one_row, walk.few_rows)
    share = np.where(np.less_equal(x.m, FEW_ROWS), fewer_rows, walk.rows)
    time_s = LATENCY_S + 2.0 * TILE_ELEMENTS * x.k / unit_flops * share + compute_s / walk.peak_fraction
    return OperatorCost.on_roofline(time_s, compute_s, memory_s)


UNIT_BANDWIDTH = 10e9
"""Bytes per second and compute unit at which matrix-vector kernels are priced before an engine's own rate is known."""


def price_matmuls(alike: Alike, on: Ranks) -> OperatorCost:
    """Products of operands of one format."""
    first, model = alike.first, on.device_model
    if first.kernel == FP32_ROUTER:
        return fp32_router_cost(alike.together, model.device)
    return matmul_cost(alike.together, model.device, model.constants(_of_family, first.kernel, first.dtype))


def _of_family(model: DeviceModel, kernel: str, dtype: str) -> MatmulConstants:
    """Constants of products whose inputs are quantized by an operator of their own, or by the kernel before."""
    device = model.device
    family = (full_rate_family if dtype == HALF_SUMS else family_of)(device, "matmul")
    if model.kernels.single_products:
        return borrowed_matmul(family, device, kernel).without_quantization()
    constants = load_matmul(family, kernel).without_quantization().without_surface()
    return constants.of_older_library() if model.kernels.older_matmuls else constants


def price_matrix_vector(alike: Alike, on: Ranks) -> OperatorCost:
    """The time of few rows is what the compute units need at ``UNIT_BANDWIDTH`` each; of many, a matmul's."""
    device, few = on.device_model.device, np.less_equal(alike.together.m, alike.first.most_rows)
    many = price_matmuls(alike, on)
    units_s = many.memory_s * device.memory_bandwidth / (device.compute_units * UNIT_BANDWIDTH)
    return many._replace(time_s=np.where(few, units_s, many.time_s))

"""Matrix products: dense, grouped (the experts of a mixture), and fp32 routers."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, lru_cache
from math import inf, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightline.catalog import entry
from sightline.content import record
from sightline.cost import clock
from sightline.cost.clock import library_share, shipped_law, sustained_share
from sightline.cost.device_model import DeviceModel
from sightline.cost.families import UNMEASURED, Evidence, Stated, evidence_of, family_of, full_rate_family, is_own
from sightline.cost.prices import Alike, OperatorCost, Ranks, kept_in_l2
from sightline.cost.residual_surface import ResidualSurface
from sightline.program import Matmul
from sightline.program.formats import FP32_ROUTER, HALF_SUMS
from sightline.quantities import PLAIN, Number, distinct, larger, rounded_up
from sightline.scenario import Device
from sightline.scenario.precision import MATMUL_FORMATS, MODEL_DTYPE

BLOCK_ROWS = 16.0
"""Rows that a tensor core's instruction takes at a time."""
OLDER_VECTOR_SHARE = 0.6
"""Share of the vector units' rate at which libraries up to CUDA 11.6 multiply matrices whose rows start off 16 bytes.

In tiles of ``OLDER_TILE`` rows and columns: 0.5 over 197 tokens of 1,024 heads (A100, facebookresearch/xformers#434),
0.7 with BLOOM's heads of 150 (bigscience-workshop/bigscience@9e64ede, 14,400 wide against 13,824)."""
OLDER_TILE = 64.0
TENSOR_CORE_ALIGNMENT = 4
"""Logarithm of the bytes that rows start on for those libraries' tensor core kernels."""


@record
class MatmulConstants(Stated):
    """One set per device family; the catalog's calibration entry holds value, source and residuals."""

    peak_fraction: Number
    """Share of the datasheet's FLOP/s that the inner loop of a short matmul reaches, operand loads aside."""
    throttled_share: Number
    """Share of that rate lost to the power limit by a matmul that runs for long."""
    throttle_s: float
    """Duration at which half of that loss has set in."""
    l2_fraction: float
    """Operand traffic that L2 sustains over its datasheet bandwidth; above 1 where neighbouring units share loads."""
    tile_overhead_k: float
    """What filling the pipeline and writing a tile out cost, in steps along ``k`` of 16-bit elements."""
    lone_tile_elements: float
    """Output elements on a compute unit at which its rate has halved: too few to keep it busy."""
    small_tile_penalty: float
    """Slowdown at which the library values smaller tiles once the largest ones fill the device."""
    split_latency_s: Number
    """Time that adding up the slices of a matmul split along ``k`` starts with."""
    split_k: float
    """Least length of a slice along ``k`` when the tiles fill the device anyway."""
    memory_fraction: float
    """Share of the datasheet's memory bandwidth that large operands reach."""
    memory_ramp_s: float
    """Time that small transfers lose before the memory runs at that rate."""
    latency_s: Number
    """Fixed time of a kernel: start and drain."""
    misaligned_slowdown: tuple[float, ...]
    """Slowdown when rows of the operands start at multiples of only 2, 4, 8 (short loads) and 16, 32, 64 bytes (loads
    that straddle cache lines)."""
    tiles: tuple[tuple[float, float], ...]
    """Output tiles (rows, columns) that the library's kernels come in."""

    older_flops: Number = 0.0
    """FLOP/s of an older library's products with rows off 16 bytes; 0 for today's libraries."""
    misaligned_loads: tuple[float, ...] = ()
    """Time of loading operands whose rows start at multiples of only 2, 4 and 8 bytes over that of aligned ones, where
    the library has kernels that load so little at a time; the arithmetic takes as long as ever. Empty: such products
    are altogether slower by ``misaligned_slowdown``."""
    vector_rows: float = 0.0
    """Rows up to which the library multiplies on the vector units, as it would a matrix and a vector."""
    vector_fraction: Number = 1.0
    """Share of the datasheet's vector FLOP/s that such a kernel reaches."""
    vector_latency_s: Number = 0.0
    """Fixed time of such a kernel."""
    tried_rows: float = 0.0
    """Rows up to which the library times such a kernel against those of the tensor cores and takes the faster one."""
    shallow_k: float = 0.0
    """Depth below which a product on the tensor cores takes ``shallow_s`` longer."""
    shallow_s: Number = 0.0
    """What the kernel for products of so little depth takes longer than the others."""
    quantization_s: float = 0.0
    """Fixed time of quantizing the input in kernels of its own before the product."""
    quantization_bytes: float = 0.0
    """What quantizing an element of the input costs, in bytes at the datasheet's memory bandwidth."""
    surface: ResidualSurface | None = None
    """What these numbers leave unexplained, smoothed over the sizes' logarithms; None where too little was measured."""

    def correction(self, m: Number, n: Number, k: Number) -> Number:
        """What the surface multiplies a product's time by, 1 without one."""
        if self.surface is None:
            return 1.0
        return self.surface.factor(m, n, k, kind=kind_of(m) if self.surface.kinds > 1 else 0)

    def started_as(self, other: "MatmulConstants") -> "MatmulConstants":
        """The same without what kernels take longer to start than ``other``'s: what the profiler takes around them."""
        longer = larger(self.latency_s - other.latency_s, 0.0)
        vector_latency_s = larger(self.vector_latency_s - longer, other.latency_s)
        return replace(self, latency_s=self.latency_s - longer, vector_latency_s=vector_latency_s)

    def of_older_library(self, device: Device) -> "MatmulConstants":
        """The same of CUDA 11.6 and before, which multiplied such rows on the vector units."""
        older_flops = OLDER_VECTOR_SHARE * device.vector_flops
        return self if not self.misaligned_loads else replace(self, older_flops=older_flops)

    def without_surface(self) -> "MatmulConstants":
        """The formula's own constants."""
        return replace(self, surface=None)

    def without_quantization(self) -> "MatmulConstants":
        """For inputs that an earlier kernel has quantized on its way, as engines fuse it with norms and activations."""
        if not self.quantization_s and not self.quantization_bytes:
            return self
        return replace(self, quantization_s=0.0, quantization_bytes=0.0, surface=None)


def kind_of(m: Number) -> NDArray[np.int64]:
    """1 for rows beyond whole blocks of ``BLOCK_ROWS``, 0 for whole blocks and for fewer rows than one has.

    For a last block of few rows libraries have other kernels, or tiles a little higher, so that a row more than whole
    tiles costs less than another row of tiles.
    """
    return ((np.asarray(m) > BLOCK_ROWS) & (np.mod(m, BLOCK_ROWS) > 0)).astype(np.int64)


def matmul_constants(device: Device, kernel: str = "16-bit") -> MatmulConstants:
    """The constants of a format on ``device``: its own family's, or a relative's as they are at its clock."""
    return borrowed_matmul(family_of(device, "matmul"), device, kernel)


def borrowed_matmul(family: str, device: Device, kernel: str = "16-bit") -> MatmulConstants:
    """The constants of a family on ``device``, at its clock and power where another device was measured.

    The mean of several devices is moved only to devices whose rule of power is known.
    """
    constants = load_matmul(family, kernel)
    measured = entry("calibrations", f"{family}/matmul").get("units")
    if measured is None or is_own(device, family, "matmul"):
        return constants
    law = shipped_law()
    share = sustained_share(device, law)
    if family == UNMEASURED and share is None:
        return constants
    there = at_clock(constants, device, clock_hz=measured["clock_hz"], lanes=measured["lanes"])
    return there if share is None else at_power(there, share / measured["sustained"], library_share(device, law))


def at_clock(c: MatmulConstants, device: Device, *, clock_hz: Number, lanes: Number) -> MatmulConstants:
    """Constants measured at another clock, and on compute units of so many fp32 lanes, as they are on ``device``.

    Kernels start, and slices join, in as many cycles; a compute unit widens as many quantized weights per cycle on its
    integer lanes, which grew no wider with those for fp32. Where the datasheet tells no plausible clock, because
    units are no GPU's, kernels start as fast.
    """
    here = clock.clock_hz(device)
    slower = np.where(np.greater(here, clock.FASTEST_CLOCK_HZ), 1.0, clock_hz / here)
    return replace(
        c,
        latency_s=c.latency_s * slower,
        vector_latency_s=c.vector_latency_s * slower,
        shallow_s=c.shallow_s * slower,
        split_latency_s=c.split_latency_s * slower,
        vector_fraction=np.minimum(c.vector_fraction * lanes / clock.lanes(device), 1.0),
    )


def at_power(c: MatmulConstants, ratio: Number, of_library: float = 1.0) -> MatmulConstants:
    """Constants on a device whose long products keep ``ratio`` times as much of the peak as where they were measured.

    Less power makes long products slower; with more, they lose less to the limit, and then reach more of the peak.
    The share ``of_library`` counts in short products too: MI210's of 0.6 ms and of 80 ms are as fast.
    """
    kept = (1 - c.throttled_share) * ratio / of_library
    return replace(
        c,
        throttled_share=1 - np.minimum(kept, 1.0),
        peak_fraction=np.minimum(c.peak_fraction * np.maximum(kept, 1.0) * of_library, 1.0),
    )


@cache
def load_matmul(family: str, kernel: str = "16-bit") -> MatmulConstants:
    """The matmul constants of a calibration family and a format (``MATMUL_FORMATS``).

    A format that the family was not measured with takes the constants of its nearest measured one, without a surface.
    """
    kernels = entry("calibrations", f"{family}/matmul")["kernels"]
    measured = _measured(kernels, kernel)
    stated = kernels[measured]
    constants = MatmulConstants.from_mapping(stated["constants"])
    if measured != kernel or "surface" not in stated:
        return constants
    return replace(constants, surface=ResidualSurface.from_mapping(stated["surface"]))


@cache
def borrows(family: str, kernel: str) -> bool:
    """Whether a family has a format's constants from another family or from another format."""
    stated = entry("calibrations", f"{family}/matmul")["kernels"].get(kernel)
    return stated is None or "of" in stated


def matmul_evidence(device: Device, kernel: str = "16-bit") -> Evidence:
    """What the constants of ``kernel`` rest on for ``device``.

    A format that its family was not measured with borrows.
    """
    family = family_of(device, "matmul")
    own = evidence_of(device, "matmul")
    return "extrapolated" if borrows(family, kernel) and family != UNMEASURED else own


def _measured(kernels: Mapping[str, Any], kernel: str) -> str:
    return next((name for name in (kernel, *MATMUL_FORMATS[kernel].nearest) if name in kernels), "16-bit")


OVERLAP = 4.0
"""Exponent of the norm in which legs that overlap add up; infinity would be the plain maximum."""
RESIDENT_ELEMENTS = 32768
"""Output elements a compute unit works on at a time: half of its 256 KiB of registers, in fp32."""
GRANULE_BYTES = 64
"""Bytes of a row that one pipeline stage takes along ``k``; ``k`` is padded to it."""
LINE_BYTES = 128
"""A cache line: rows that start on one are loaded without waste."""
PRODUCTS_PER_CHUNK = 1024
MOST_SLICES = 16
LEAST_SLICE_K = 256

Array = NDArray[np.floating[Any]]


class _Tiles(NamedTuple):
    """The library's tiles as columns that broadcast along a new first axis; the largest ones come first."""

    rows: Array
    columns: Array
    area: Array
    resident: Array
    """Tiles that one compute unit works on at a time."""
    largest: int
    """How many of them fill a compute unit alone."""


def overlapped(one: Number, other: Number) -> Array:
    """Time of two legs that overlap: their norm with the exponent ``OVERLAP``."""
    joined: Array = (one**OVERLAP + other**OVERLAP) ** (1 / OVERLAP)
    return joined


@cache
def _tiles(tiles: tuple[tuple[float, float], ...], axes: int) -> _Tiles:
    by_area = np.array(sorted(tiles, key=lambda t: (-t[0] * t[1], t)))
    rows, columns = (side.reshape((-1,) + (1,) * axes) for side in by_area.T)
    resident = np.maximum(np.floor(RESIDENT_ELEMENTS / (rows * columns)), 1.0)
    return _Tiles(rows, columns, rows * columns, resident, int((resident == 1).sum()))


def _alignment(n: Array, row: Array, element_bytes: Number) -> NDArray[np.int64]:
    """Return the logarithm of the bytes, up to a cache line, that rows of ``n`` and of ``row`` elements start on."""
    whole_bytes = np.exp2(np.floor(np.log2(element_bytes)))  # scales are stored separately
    width = (n * whole_bytes).astype(np.int64) | (row * whole_bytes).astype(np.int64) | LINE_BYTES
    logarithm: NDArray[np.int64] = np.log2(width & -width).astype(np.int64)
    return logarithm


@cache
def _by_alignment(slowdown: tuple[float, ...]) -> Array:
    """The slowdown of rows that start on 1, 2, 4, ... 128 bytes."""
    return np.array([max(slowdown), *slowdown, 1.0])


def _unit_tiles(per_unit: Array, tiles: _Tiles, lone_tile_elements: float) -> Array:
    """Time of the busiest compute unit in tiles worked on at its full rate, ``per_unit`` being its mean number.

    Tiles come in rounds of ``resident``; a last round of fewer takes as many tiles longer as they keep the unit less
    busy (half the rate at ``lone_tile_elements``), but at most a whole round.
    """
    whole = np.floor(per_unit / tiles.resident) * tiles.resident
    rest = np.ceil(per_unit - whole - 1e-9)
    full = 1 + (lone_tile_elements / RESIDENT_ELEMENTS) ** 2
    lone = (1 + (lone_tile_elements / (np.maximum(rest, 1) * tiles.area)) ** 2) / full
    busiest: Array = whole + np.minimum(rest * lone, tiles.resident)
    return busiest


class _Products(NamedTuple):
    """Sizes of products, and the rates of the device that they run at; numbers or arrays that broadcast."""

    m: Array
    n: Array
    k: Array
    batch: Array
    element_bytes: Number
    weight_bytes: Number
    peak: Number
    units: Number
    l2_bandwidth: Number
    split_latency_s: Number


def _kernel_time_in_chunks(x: _Products, c: MatmulConstants) -> Array:
    """``_kernel_time`` of the distinct ones among very many products, few at a time: tiles stay in a core's cache."""
    shapes = {number.shape for number in x if isinstance(number, np.ndarray)}
    shape = np.broadcast_shapes(*shapes) if len(shapes) > 1 else max(shapes, default=())
    count = prod(shape)
    if count <= PRODUCTS_PER_CHUNK:
        return _kernel_time(x, c)
    flat = [np.broadcast_to(number, shape).ravel() if isinstance(number, np.ndarray) else number for number in x]
    first, place = distinct([number for number in flat if isinstance(number, np.ndarray)])
    flat = [number[first] if isinstance(number, np.ndarray) else number for number in flat]
    count = len(first)
    times = np.empty(count)
    for start in range(0, count, PRODUCTS_PER_CHUNK):
        part = slice(start, start + PRODUCTS_PER_CHUNK)
        numbers = (number[part] if isinstance(number, np.ndarray) else number for number in flat)
        times[part] = _kernel_time(_Products._make(numbers), c)
    return times[place].reshape(shape)


def _kernel_time(x: _Products, c: MatmulConstants) -> Array:
    """Seconds that the fastest tile and split keep the compute units busy, operands coming from L2."""
    m, n, k, batch, element_bytes, weight_bytes, peak, units, l2_bandwidth, split_latency_s = x
    axes = max(number.ndim for number in x if isinstance(number, np.ndarray))
    t = _tiles(c.tiles, axes)
    count = np.ceil(m / t.rows) * np.ceil(n / t.columns) * batch
    per_unit = count / units

    rates: Any = (peak * c.peak_fraction, units, l2_bandwidth, element_bytes, weight_bytes)
    step_s = (_known_step_s if {*map(type, rates)} <= PLAIN else _step_s)(c.tiles, axes, *rates)
    granule, overhead_k = GRANULE_BYTES / element_bytes, c.tile_overhead_k * 2 / element_bytes
    filling = np.minimum(np.floor(t.resident / per_unit), np.floor(k / LEAST_SLICE_K))
    evening = np.minimum(np.floor(k / c.split_k), np.ceil(5 * t.resident / per_unit))
    cuts = [slices for slices in (filling, evening) if (slices > 1.0).any()]
    if cuts:
        slices = np.minimum(np.maximum(np.array([np.zeros_like(filling), *cuts]), 1.0), MOST_SLICES)
        steps = rounded_up(k / slices, granule) + overhead_k
        busy_s = _unit_tiles(per_unit * slices, t, c.lone_tile_elements) * steps * step_s
        slice_sum_s = 8 * batch * m * n / l2_bandwidth  # a slice is written and read back in fp32
        time_s = (busy_s + (slices > 1.0) * (split_latency_s + slices * slice_sum_s)).min(axis=0)
    else:
        time_s = _unit_tiles(per_unit, t, c.lone_tile_elements) * (rounded_up(k, granule) + overhead_k) * step_s

    crowded = per_unit[: t.largest].min(axis=0) > 1
    fastest: Array = (time_s * (1 + c.small_tile_penalty * crowded * (t.resident > 1))).min(axis=0)
    return fastest


def _step_s(
    tiles: tuple[tuple[float, float], ...],
    axes: int,
    peak: Number,
    units: Number,
    l2_bandwidth: Number,
    element_bytes: Number,
    weight_bytes: Number,
) -> Array:
    """Seconds of a compute unit for one element along ``k`` of each tile."""
    t = _tiles(tiles, axes)
    math_s = 2 * t.area / peak * units
    load_s = (t.rows * element_bytes + t.columns * weight_bytes) / l2_bandwidth * units
    return overlapped(math_s, load_s)


_known_step_s = lru_cache(maxsize=256)(_step_s)


L2_SHARE = 0.75
"""Share of L2 in which weights stay until they are used again: where the times of few rows leap as weights grow in the
tables of H100, H200 and B200."""


def kept_weights(x: Matmul, device: Device, copies: Number) -> Number:
    """Return the bytes of the weights that L2 keeps where a benchmark multiplies by ``copies`` of them in turn.

    Input, output and the other copies pass before the same weights are read again. In a model, whose other layers pass
    too, there are infinitely many.
    """
    weights: Number = x.batch * x.k * x.n * (x.element_bytes if x.weight_bytes is None else x.weight_bytes)
    return weights * kept_in_l2(x.bytes + (copies - 1) * weights, L2_SHARE * device.l2_bytes)


def matmul_cost(x: Matmul, device: Device, constants: MatmulConstants, *, weight_copies: Number = inf) -> OperatorCost:
    """Seconds of ``batch`` products of an ``m x k`` with a ``k x n`` matrix.

    Inputs and output are contiguous in ``n`` and in ``row`` elements, whose alignment counts. ``dtype`` names the peak
    at which it computes; bytes per element are those of its operands with their scales (``program.formats``).

    The compute leg is ``2 b m n k / peak``, the memory leg
    ``b (element_bytes m k + weight_bytes k n + output_bytes m n)`` over the memory's bandwidth. The time joins what the
    kernel needs on its compute units with the memory's traffic, both slowed to what the constants say is reached, and
    is never below either leg. Few rows may go to the vector units, an input may first be quantized, and single products
    are corrected by the constants' residual surface.

    What L2 keeps of the weights (`kept_weights`) crosses L2 instead of the memory.

    Left out: inputs that an earlier kernel left in L2; operands read from memory more than once, which waves of
    square blocks of tiles keep below the arithmetic on every device known; the clocks' history before the kernel.
    """
    c, peak = constants, device.peak_flops[x.dtype]
    m, n, k, batch, row = (np.asarray(size, dtype=float) for size in (x.m, x.n, x.k, x.batch, x.row))
    weight_bytes = x.element_bytes if x.weight_bytes is None else x.weight_bytes
    compute_s, memory_s = x.flops / peak, x.bytes / device.memory_bandwidth
    kept_s: Number = 0.0
    if np.any(np.isfinite(weight_copies)):
        kept_bytes = kept_weights(x, device, weight_copies)
        memory_s, kept_s = memory_s - kept_bytes / device.memory_bandwidth, kept_bytes / device.l2_bandwidth

    rates = (peak, device.compute_units, device.l2_bandwidth * c.l2_fraction, c.split_latency_s)
    kernel_s = _busy_time(_Products(m, n, k, batch, x.element_bytes, weight_bytes, *rates), row, c)
    traffic_s = memory_s / c.memory_fraction
    traffic_s = traffic_s * (1 + c.memory_ramp_s / (traffic_s + c.memory_ramp_s)) + kept_s
    time_s: Array = np.maximum(overlapped(kernel_s, traffic_s), compute_s) + c.latency_s
    if c.shallow_k:
        time_s = time_s + c.shallow_s * (k < c.shallow_k)
    if c.vector_rows:
        vectors_s = x.flops / (device.vector_flops * c.vector_fraction)
        time_s = _or_by_vectors(time_s, np.maximum(overlapped(vectors_s, traffic_s), compute_s), m, c)
    if c.quantization_s or c.quantization_bytes:
        time_s = time_s + c.quantization_s + c.quantization_bytes * batch * m * k / device.memory_bandwidth
    if c.surface is not None:
        time_s = time_s * np.where(batch == 1, c.correction(m, n, k), 1.0)
    arithmetic_s = np.maximum(kernel_s, compute_s) * (m > max(c.vector_rows, c.tried_rows))
    return OperatorCost.on_roofline(time_s, compute_s, memory_s)._replace(arithmetic_s=arithmetic_s)


def _busy_time(x: _Products, row: Array, c: MatmulConstants) -> Array:
    """Seconds that products keep the compute units busy, rows off the alignment and the power limit included."""
    slowdown, short = c.misaligned_slowdown, len(c.misaligned_loads)
    if short:
        slowdown = (*(slowdown[short],) * short, *slowdown[short:])
    aligned = _alignment(x.n, row, x.element_bytes)
    kernel_s = _kernel_time_in_chunks(x, c) * _by_alignment(slowdown)[aligned]
    if short:
        loads = _by_alignment((*c.misaligned_loads, *(1.0,) * (len(slowdown) - short)))[aligned]
        if (loads > 1.0).any():
            kernel_s = np.maximum(kernel_s, _kernel_time_in_chunks(x._replace(l2_bandwidth=x.l2_bandwidth / loads), c))
    if np.any(c.older_flops):
        flops = 2.0 * x.batch * rounded_up(x.m, OLDER_TILE) * rounded_up(x.n, OLDER_TILE) * x.k
        kernel_s = np.where(aligned < TENSOR_CORE_ALIGNMENT, np.maximum(kernel_s, flops / c.older_flops), kernel_s)
    slowed: Array = kernel_s / (1 - c.throttled_share * kernel_s / (kernel_s + c.throttle_s))
    return slowed


def _or_by_vectors(time_s: Array, by_vectors_s: Array, m: Array, c: MatmulConstants) -> Array:
    """Seconds where few rows go to the vector units: always up to a number, up to another where that is faster."""
    by_vectors_s = by_vectors_s + c.vector_latency_s
    time_s = np.where(m <= c.tried_rows, np.minimum(time_s, by_vectors_s), time_s)
    return np.where(m <= c.vector_rows, by_vectors_s, time_s)


TILE_ELEMENTS = 64.0 * 32.0
"""Outputs that a compute unit works on at a time, at the pace that was measured."""
UNIT_FRACTION = 0.8
"""Share of its fp32 rate that a compute unit reaches in one."""
FEW_ROWS = 16.0
"""Rows up to which the library has kernels that do not walk along ``k`` alone."""
LATENCY_S = 3e-6
"""Fixed time of such a kernel."""


@record
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


PROFILED = ("w8a8", "w8a16", "w4a16")
"""Formats whose tables TensorRT's profiler of layers took (aiconfigurator collector/trtllm/collect_gemm_trt.py), with 4
to 6 us around the smallest product more than other formats have: an engine's kernels follow each other without."""
UNIT_BANDWIDTH = 10e9
"""Bytes per second and compute unit at which matrix-vector kernels are priced before an engine's own rate is known."""


def price_matmuls(alike: Alike, on: Ranks) -> OperatorCost:
    """Products of operands of one format.

    Where arithmetic binds a product in 16 bits, narrower weights that are widened for it make it no faster.
    """
    first, model, together = alike.first, on.device_model, alike.together
    if first.kernel == FP32_ROUTER:
        return fp32_router_cost(together, model.device)
    cost = matmul_cost(together, model.device, model.constants(_of_family, first.kernel, first.dtype))
    stored = MATMUL_FORMATS[first.kernel]
    if stored.compute_dtype != MODEL_DTYPE or stored.weight_bytes == stored.activation_bytes:
        return cost
    constants = model.constants(_of_family, "16-bit", first.dtype)
    plain = matmul_cost(replace(together, weight_bytes=None), model.device, constants)
    bound = 1.0 * np.greater_equal(plain.compute_s, plain.memory_s)
    return cost._replace(
        time_s=np.maximum(cost.time_s, bound * plain.time_s),
        arithmetic_s=np.maximum(cost.arithmetic_s, bound * plain.arithmetic_s),
    )


def _of_family(model: DeviceModel, kernel: str, dtype: str) -> MatmulConstants:
    """Constants of products whose inputs are quantized by an operator of their own, or by the kernel before."""
    device = model.device
    family = (full_rate_family if dtype == HALF_SUMS else family_of)(device, "matmul")
    if model.kernels.single_products:
        constants = borrowed_matmul(family, device, kernel).without_quantization()
        if model.kernels.eager or kernel not in PROFILED:
            return constants
        return constants.started_as(borrowed_matmul(family, device))
    constants = load_matmul(family, kernel).without_quantization().without_surface()
    return constants.of_older_library(device) if model.kernels.older_matmuls else constants


def price_matrix_vector(alike: Alike, on: Ranks) -> OperatorCost:
    """The time of few rows is what the compute units need at ``UNIT_BANDWIDTH`` each; of many, a matmul's.

    On matrix units few rows take the start of a kernel and their arithmetic, and many what they do in 16 bits.
    """
    device, few = on.device_model.device, np.less_equal(alike.together.m, alike.first.most_rows)
    if alike.first.on_matrix_units:
        plain = on.device_model.constants(_of_family, "16-bit", alike.first.dtype)
        many = matmul_cost(alike.together, device, plain)
        return many._replace(time_s=np.where(few, many.compute_s / plain.peak_fraction + plain.latency_s, many.time_s))
    many = price_matmuls(alike, on)
    units_s = many.memory_s * device.memory_bandwidth / (device.compute_units * UNIT_BANDWIDTH)
    return many._replace(time_s=np.where(few, units_s, many.time_s))

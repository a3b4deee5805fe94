"""What a matrix multiplication costs: a hierarchical roofline with tile and wave quantization.

A kernel cuts the ``m x n`` output into tiles, gives every compute unit its share of them in waves, and walks each tile
along ``k``. Whole tiles and whole waves are paid for (NVIDIA, "Matrix Multiplication Background", DU-09799); a matmul
with few tiles is split along ``k`` and its slices added up. Of all tiles the library has, the fastest is taken.
Symbols: ``m, n, k, b`` the dimensions and the batch, ``tm, tn`` a tile's sides, ``U`` compute units.
"""

from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightline.cost.matmul.constants import MatmulConstants
from sightline.cost.operator_cost import OperatorCost
from sightline.program import Matmul
from sightline.quantities import Number, distinct, rounded_up
from sightline.scenario import Device

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


def _row_slowdown(n: Array, row: Array, element_bytes: Number, slowdown: tuple[float, ...]) -> Array:
    """Slowdown from the alignment of rows of ``n`` and of ``row`` elements."""
    whole_bytes = np.exp2(np.floor(np.log2(element_bytes)))  # scales are stored separately
    width = (n * whole_bytes).astype(np.int64) | (row * whole_bytes).astype(np.int64) | LINE_BYTES
    table = np.array([max(slowdown), *slowdown, 1.0])  # of 1, 2, 4, ... 128 bytes
    slower: Array = table[np.log2(width & -width).astype(np.int64)]
    return slower


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
    found = np.empty(count)
    for start in range(0, count, PRODUCTS_PER_CHUNK):
        part = slice(start, start + PRODUCTS_PER_CHUNK)
        numbers = (number[part] if isinstance(number, np.ndarray) else number for number in flat)
        found[part] = _kernel_time(_Products._make(numbers), c)
    return found[place].reshape(shape)


def _kernel_time(x: _Products, c: MatmulConstants) -> Array:
    """Seconds that the fastest tile and split keep the compute units busy, operands coming from L2."""
    m, n, k, batch, element_bytes, weight_bytes, peak, units, l2_bandwidth, split_latency_s = x
    axes = max(number.ndim for number in x if isinstance(number, np.ndarray))
    t = _tiles(c.tiles, axes)
    count = np.ceil(m / t.rows) * np.ceil(n / t.columns) * batch
    per_unit = count / units

    math_s = 2 * t.area / (peak * c.peak_fraction) * units
    load_s = (t.rows * element_bytes + t.columns * weight_bytes) / l2_bandwidth * units
    step_s = overlapped(math_s, load_s)
    granule, overhead_k = GRANULE_BYTES / element_bytes, c.tile_overhead_k * 2 / element_bytes
    slice_sum_s = 8 * batch * m * n / l2_bandwidth  # a slice is written and read back in fp32

    filling = np.minimum(np.floor(t.resident / per_unit), np.floor(k / LEAST_SLICE_K))
    evening = np.minimum(np.floor(k / c.split_k), np.ceil(5 * t.resident / per_unit))
    cuts = [slices for slices in (filling, evening) if (slices > 1.0).any()]
    slices = np.minimum(np.maximum(np.array([np.zeros_like(filling), *cuts]), 1.0), MOST_SLICES)
    steps = rounded_up(k / slices, granule) + overhead_k
    busy_s = _unit_tiles(per_unit * slices, t, c.lone_tile_elements) * steps * step_s
    time_s = (busy_s + (slices > 1.0) * (split_latency_s + slices * slice_sum_s)).min(axis=0)

    crowded = per_unit[: t.largest].min(axis=0) > 1
    fastest: Array = (time_s * (1 + c.small_tile_penalty * crowded * (t.resident > 1))).min(axis=0)
    return fastest


def matmul_cost(x: Matmul, device: Device, constants: MatmulConstants) -> OperatorCost:
    """Seconds of ``batch`` products of an ``m x k`` with a ``k x n`` matrix.

    Inputs and output are contiguous in ``n`` and in ``row`` elements, whose alignment counts. ``dtype`` names the peak
    at which it computes; bytes per element are those of its operands with their scales (``program.formats``).

    The compute leg is ``2 b m n k / peak``, the memory leg
    ``b (element_bytes m k + weight_bytes k n + output_bytes m n)`` over the memory's bandwidth. The time joins what the
    kernel needs on its compute units with the memory's traffic, both slowed to what the constants say is reached, and
    is never below either leg. Few rows may go to the vector units, an input may first be quantized, and single products
    are corrected by the constants' residual surface.

    Left out: operands that an earlier kernel left in L2; operands read from memory more than once, which waves of
    square blocks of tiles keep below the arithmetic on every device known; the clocks' history before the kernel.
    """
    c, peak = constants, device.peak_flops[x.dtype]
    m, n, k, batch, row = (np.asarray(size, dtype=float) for size in (x.m, x.n, x.k, x.batch, x.row))
    weight_bytes = x.element_bytes if x.weight_bytes is None else x.weight_bytes
    compute_s, memory_s = x.flops / peak, x.bytes / device.memory_bandwidth

    rates = (peak, device.compute_units, device.l2_bandwidth * c.l2_fraction, c.split_latency_s)
    kernel_s = _busy_time(_Products(m, n, k, batch, x.element_bytes, weight_bytes, *rates), row, c)
    traffic_s = memory_s / c.memory_fraction
    traffic_s = traffic_s * (1 + c.memory_ramp_s / (traffic_s + c.memory_ramp_s))
    time_s: Array = np.maximum(overlapped(kernel_s, traffic_s), compute_s) + c.latency_s
    if c.shallow_k:
        time_s = time_s + c.shallow_s * (k < c.shallow_k)
    if c.vector_rows:
        vectors_s = x.flops / (device.vector_flops * c.vector_fraction)
        time_s = _or_by_vectors(time_s, np.maximum(overlapped(vectors_s, traffic_s), compute_s), m, c)
    time_s = time_s + c.quantization_s + c.quantization_bytes * batch * m * k / device.memory_bandwidth
    if c.surface is not None:
        time_s = time_s * np.where(batch == 1, c.correction(m, n, k), 1.0)
    return OperatorCost.on_roofline(time_s, compute_s, memory_s)


def _busy_time(x: _Products, row: Array, c: MatmulConstants) -> Array:
    """Seconds that products keep the compute units busy, rows off the alignment and the power limit included."""
    slowdown, short = c.misaligned_slowdown, len(c.misaligned_loads)
    if short:
        slowdown = (*(slowdown[short],) * short, *slowdown[short:])
    kernel_s = _kernel_time_in_chunks(x, c) * _row_slowdown(x.n, row, x.element_bytes, slowdown)
    if short:
        loads = _row_slowdown(x.n, row, x.element_bytes, (*c.misaligned_loads, *(1.0,) * (len(slowdown) - short)))
        if (loads > 1.0).any():
            kernel_s = np.maximum(kernel_s, _kernel_time_in_chunks(x._replace(l2_bandwidth=x.l2_bandwidth / loads), c))
    slowed: Array = kernel_s / (1 - c.throttled_share * kernel_s / (kernel_s + c.throttle_s))
    return slowed


def _or_by_vectors(time_s: Array, by_vectors_s: Array, m: Array, c: MatmulConstants) -> Array:
    """Seconds where few rows go to the vector units: always up to a number, up to another where that is faster."""
    by_vectors_s = by_vectors_s + c.vector_latency_s
    time_s = np.where(m <= c.tried_rows, np.minimum(time_s, by_vectors_s), time_s)
    return np.where(m <= c.vector_rows, by_vectors_s, time_s)

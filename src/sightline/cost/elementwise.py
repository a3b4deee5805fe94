"""Bandwidth-bound kernels: what they reach on a device, by what they do and by how they were written."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal

import numpy as np

from sightline.catalog import entry
from sightline.content import record
from sightline.cost.clock import clock_hz
from sightline.cost.device_model import DeviceModel
from sightline.cost.families import Evidence, family_of
from sightline.cost.prices import Alike, OperatorCost, Ranks
from sightline.program import Elementwise
from sightline.quantities import Number, smaller
from sightline.scenario import Device

KernelGeneration = Literal["scalar", "vectorized"]
"""Serving kernels of 2023, which move one element per instruction and give each token a thread block, or later ones."""
FALLBACK = "copy"
"""The class of kernels that no table knows."""
SCALAR_ACTIVATION: Final = "scalar activation"
"""That of the first generation, whatever generation the others are of."""
_NUMBERS = ("memory_fraction", "cache_gain", "vector_fraction", "kernel_latency_s")
STREAMED = 0.95
"""Share of the memory's bandwidth that kernels reach which nothing else holds up."""


@record
class ElementwiseConstants:
    """One set per device family, generation and class of kernel, or per framework; of several kernels, arrays."""

    memory_fraction: Number
    """Share of the datasheet's memory bandwidth at which its bytes move; far below 1 where its instructions bind it."""
    cache_gain: Number
    """Share of the L2 cache's gain that it sees: 1 where bytes bind it, 0 where its instructions do."""
    vector_fraction: Number
    """Share of the vector units' rate that its arithmetic reaches."""
    kernel_latency_s: Number
    """Ramp-up and drain of one kernel on the device."""
    unit_bytes: Number = 0.0
    """Bytes that the memory gave a compute unit per cycle where kernels bound by instructions were measured; else 0."""
    evidence: Evidence = "calibrated"


@cache
def load_elementwise(
    calibration: str, generation: KernelGeneration | None = None
) -> Mapping[str, ElementwiseConstants]:
    """Return the constants by class of kernel: norm, rope, activation, residual, embedding, copy, softmax, sampling...

    Without a ``generation``, or without constants of it, they are those that the family was measured with.
    """
    content = entry("calibrations", f"{calibration}/elementwise")
    kernels = content["kernels"]
    chosen, scalar = (g if g in kernels else content["measured"] for g in (generation, "scalar"))
    listed = {**{kind: (chosen, kind) for kind in kernels[chosen]}, SCALAR_ACTIVATION: (scalar, "activation")}
    unit_bytes: dict[Any, float] = {"scalar": float(content.get("unit_bytes", 0.0))}
    return {kind: _constants(kernels[g][of], unit_bytes.get(g, 0.0)) for kind, (g, of) in listed.items()}


def measured_generation(calibration: str) -> str:
    """Return the generation of kernels that a family was measured with."""
    return str(entry("calibrations", f"{calibration}/elementwise")["measured"])


def elementwise_constants(
    kinds: Sequence[str], calibration: str, generation: KernelGeneration | None = None, axes: int = 0
) -> ElementwiseConstants:
    """Constants of several kernels along a first axis, then ``axes`` of a mesh, so that one call prices all."""
    known = load_elementwise(calibration, generation)
    chosen = [known.get(kind, known[FALLBACK]) for kind in kinds]
    columns: dict[str, Any] = {
        name: np.array([getattr(c, name) for c in chosen]).reshape((-1,) + (1,) * axes)
        for name in (*_NUMBERS, "unit_bytes")
    }
    return ElementwiseConstants(**columns)


def memory_share(constants: ElementwiseConstants, device: Device) -> Number:
    """Return the share of the memory's bandwidth that kernels reach on ``device``.

    Kernels bound by their instructions move so many bytes per cycle of a compute unit, whatever the memory could give:
    what keeps them from ``STREAMED`` of it grows with the memory's bytes per cycle over those where they were measured.
    """
    unit_bytes = np.asarray(constants.unit_bytes, dtype=float)
    if not unit_bytes.any():
        return constants.memory_fraction
    measured = np.asarray(constants.memory_fraction, dtype=float)
    instructions = np.maximum(1 / measured**2 - 1 / STREAMED**2, 0.0)
    ratio = np.where(unit_bytes > 0.0, bytes_per_cycle(device) / np.maximum(unit_bytes, 1e-9), 1.0)
    elsewhere = 1 / np.sqrt(instructions * ratio**2 + 1 / STREAMED**2)
    share: Number = np.where(np.isclose(ratio, 1.0, rtol=1e-3), measured, elsewhere)
    return share


def bytes_per_cycle(device: Device) -> Number:
    """Return what the memory gives a compute unit per cycle."""
    return device.memory_bandwidth / device.compute_units / clock_hz(device)


def _constants(mapping: Mapping[str, Any], unit_bytes: float) -> ElementwiseConstants:
    numbers = {name: float(mapping[name]) for name in _NUMBERS}
    return ElementwiseConstants(**numbers, unit_bytes=unit_bytes, evidence=mapping["evidence"])


def elementwise_cost(
    x: Elementwise, device: Device, constants: ElementwiseConstants, *, footprint_bytes: Number | None = None
) -> OperatorCost:
    """Seconds of ``kernels`` element-wise kernels that move ``traffic_bytes`` and issue ``arithmetic`` in total.

    Each kernel ramps up and drains in a fixed time and streams at a share of the memory bandwidth, faster where its
    tensors fill less than the L2 cache and were just written there (as far as bytes bind it at all); exponentials,
    random numbers and branches may take longer than the bytes. Work inside another kernel has ``kernels`` of 0.
    ``footprint_bytes`` are those of the distinct tensors, fewer than the traffic for kernels in place.
    """
    c = constants
    memory_s = np.asarray(x.traffic_bytes, dtype=float) / device.memory_bandwidth
    arithmetic_s = x.arithmetic / device.vector_flops
    cycles_s: Number = 0.0
    if np.any(x.unit_cycles):
        cycles_s = x.unit_cycles / device.compute_units / clock_hz(device)
    compute_s = np.maximum(arithmetic_s, cycles_s)
    footprint = x.traffic_bytes if footprint_bytes is None else footprint_bytes
    l2_bytes = (x.kernels + (x.kernels == 0.0)) * device.l2_bytes
    resident = np.maximum(0.0, 1.0 - footprint / l2_bytes)
    slower = 1.0 - c.cache_gain * resident * (1.0 - device.memory_bandwidth / device.l2_bandwidth)
    streaming_s = memory_s * slower / memory_share(c, device)
    instructions_s = np.maximum(arithmetic_s / c.vector_fraction, cycles_s)
    time_s = np.maximum(streaming_s, instructions_s) + x.kernels * c.kernel_latency_s
    beyond_s = memory_s * np.maximum(1.0 - l2_bytes / np.maximum(footprint, 1.0), 0.0)
    cached_s = memory_s * smaller(device.memory_bandwidth / device.l2_bandwidth, 1.0)
    least_s = np.maximum(np.maximum(beyond_s, cached_s), compute_s)
    return OperatorCost(np.maximum(time_s, least_s), compute_s, memory_s, least_s)


def price_streams(alike: Alike, on: Ranks) -> OperatorCost:
    """Element-wise kernels of any class."""
    model = on.device_model
    constants = model.kernels.streams
    if constants is None:
        kinds = tuple(op.kind for op in alike.operators)
        constants = model.constants(_of_kinds, kinds, alike.axes)
    return elementwise_cost(alike.together, model.device, constants)


def _of_kinds(model: DeviceModel, kinds: tuple[str, ...], axes: int) -> ElementwiseConstants:
    family = family_of(model.device, "elementwise")
    return elementwise_constants(kinds, family, model.kernels.stream_generation, axes)

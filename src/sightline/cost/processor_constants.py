"""What calls reach on a processor: fitted per machine, shares of its own figures wherever time grows with size."""

from collections.abc import Mapping
from dataclasses import field, fields
from functools import cache
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from sightline.catalog import entry
from sightline.content import description, record
from sightline.cost.families import PROCESSOR, Stated
from sightline.errors import InputError
from sightline.program.shapes import ELEMENT_BYTES
from sightline.quantities import Number
from sightline.scenario import Device

ProductOrder = Literal["forward", "few rows", "one row", "input gradient", "weight gradient"]
"""How the operands of a linear layer's product lie: rows by transposed weight, gradient by weight, and gradient
transposed by rows; few rows take another way through the library, and one row, or as many as go with it, a third."""
FEW_ROWS = 32
"""Rows of a product up to which they are few."""
ROWS_AT_ONCE = 3
"""Rows that a pass over the weight serves: up to three take as long as one, four to six twice as long, eight three
times (2.6 to 17 MB of weights; MKL of torch 2.13, Cascade Lake, 2026-11)."""
THIN: tuple[ProductOrder, ...] = ("few rows", "one row")
"""Orders of which one stands in for the other where a quick suite left it out."""
FALLBACK = "residual"
"""The kernel whose times stand in for those that nobody measured: an addition, two tensors in and one out."""
FALLBACK_TENSORS = 3.0


COLD_SHARES: Mapping[str, float] = {"forward": 0.75, "backward": 0.5}
"""Where nothing was measured (estimate): weights and code are gone, what the operator before made is not; results of a
forward pass go where no cache has been since the last step, those of a backward pass where activations were just
freed."""
FRAMEWORK_BYTES = 3.8e8
"""Of Python with PyTorch and transformers, where nothing was measured: a tiny model's process (torch 2.13, 2026-11)."""


@description
class ProductConstants(Stated):
    """A product of matrices in one order of operands."""

    call_s: float
    """Time of a call however small: dispatch by the framework, start of the threads."""
    peak_fraction: float
    """Share of the peak that large products reach."""
    left_passes: float
    """Passes over the m x k operand at the cache's bandwidth: packing into blocks, loads that nothing hides."""
    right_passes: float
    """The same over the k x n operand."""
    output_passes: float
    """The same over the product."""
    missing_passes: float
    """Passes at the memory's bandwidth over operands and a product that are not in the cache."""
    missing_call_s: float = 0.0
    """Time of a call whose code and tables the caches have lost as well."""


@description
class FusedAttentionConstants(Stated):
    """Fused attention in one direction."""

    call_s: float
    peak_fraction: float
    """Share of the peak that its products reach."""
    score_operations: float
    """Operations of the vector units per score: exponential, maximum, sum, masks."""
    token_passes: float
    """Passes over queries, keys, values and outputs at the cache's bandwidth."""
    key_passes: float
    """Passes over keys and values at the cache's bandwidth for each block of queries: packing."""
    block_s: float
    """Time of a block of scores however small: the calls of two products."""
    packed_block_s: float = 0.0
    """What it takes longer where the products pack their operands, however few they are."""
    missing_passes: float = 0.0
    """Passes at the memory's bandwidth over queries, keys, values and outputs that are not in the cache."""
    missing_call_s: float = 0.0
    """Time of a call whose code and tables the caches have lost as well."""


@description
class ShardingConstants(Stated):
    """What fully sharded data parallelism takes in addition to its collectives."""

    gather_call_s: float
    """Time of gathering a unit's parameters and freeing them, however few."""
    gather_passes: float
    """Passes over what is gathered at the memory's bandwidth: into the buffer that is sent, out of the one that
    arrives."""
    reduce_call_s: float
    reduce_passes: float
    """The same of a unit's gradients."""
    update_call_s: float
    """Time that clipping and the optimizer's step take longer, however few the parameters."""
    update_tensor_s: float
    """The same for every tensor of them."""


@record
class KernelTimes:
    """Measured times of element-wise kernels by the elements of their tensor, interpolated between sizes."""

    elements: NDArray[np.float64]
    cached_s: NDArray[np.float64]
    """With its tensors in the cache."""
    memory_s: NDArray[np.float64]
    """With its tensors in memory."""

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Self:
        """The times out of a calibration entry."""
        return cls(**{f.name: np.array(mapping[f.name], dtype=float) for f in fields(cls)})

    def seconds(self, elements: Number, missing: Number) -> NDArray[np.float64]:
        """Seconds for so many elements, of whose tensors the share ``missing`` is not in the cache."""
        cached, memory = (_interpolated(elements, self.elements, s) for s in (self.cached_s, self.memory_s))
        mixed: NDArray[np.float64] = cached + missing * np.maximum(memory - cached, 0.0)
        return mixed


@record
class ProcessorConstants:
    """A machine's constants in one number format."""

    cores: float
    """Cores that they were measured on."""
    products: Mapping[str, ProductConstants]
    """By order of operands."""
    attention: Mapping[str, FusedAttentionConstants]
    """forward and backward."""
    kernels: Mapping[str, KernelTimes]
    """By the kernels' name, forward and backward separately: norm, norm gradient, ..."""
    calls: Mapping[str, float]
    """Seconds that recording and running the backward graph adds to a linear layer (forward, input gradient), that
    a model's own code takes around operators (layer forward, pass backward, ...), and that an optimizer's step takes
    however small its tensors are, by itself (update) and for each of them (update tensor)."""
    call_weights: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By block (layer, pass) and module, how much longer the model's own code takes around a call there in a forward
    pass than on average; 1 if not said."""

    cold_shares: Mapping[str, float] = field(default_factory=lambda: COLD_SHARES)
    """Shares, forward and backward, of what operators lose by cold caches that they lose in a step which fills the
    caches several times."""
    fewer_cores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By pass and kind of operator (products, attention, element-wise kernels): time of processes that have
    some of the cores each, over what in proportion to their cores it would be; 1 if not said."""
    sharding: ShardingConstants | None = None
    framework_bytes: float = FRAMEWORK_BYTES
    """Memory of a process before its model: interpreter, libraries, what they set up in the first step."""

    def thin(self, order: ProductOrder) -> ProductConstants:
        """Return the constants of products of few rows or one."""
        return next(self.products[name] for name in (order, *THIN) if name in self.products)


@record
class Processor:
    """A processor computing in one number format: its own figures, and what calls reach of them."""

    device: Device
    dtype: str
    constants: ProcessorConstants

    @property
    def peak(self) -> Number:
        """FLOP/s of the format."""
        return self.device.peak_flops[self.dtype]

    @property
    def element_bytes(self) -> float:
        """Bytes of an element in the format."""
        return ELEMENT_BYTES[self.dtype]


@cache
def load_processor(family: str, dtype: str) -> ProcessorConstants:
    """Return a family's constants in ``dtype``; one that was not measured takes those of the first that was.

    Raises InputError for constants that an older version measured, of another form.
    """
    stated = entry("calibrations", f"{family}/{PROCESSOR}")
    try:
        formats = stated["formats"]
        framework_bytes = float(stated.get("framework_bytes", FRAMEWORK_BYTES))
        return from_mapping(formats.get(dtype, next(iter(formats.values()))), stated["cores"], framework_bytes)
    except KeyError as missing:
        raise InputError(
            f"calibrations/{family}/{PROCESSOR}.yaml has no {missing}; recreate it with `sightline calibrate "
            "--measure --overwrite`"
        ) from None


def from_mapping(
    mapping: Mapping[str, Any], cores: float, framework_bytes: float = FRAMEWORK_BYTES
) -> ProcessorConstants:
    """Return the constants of one number format as a calibration entry states them."""
    return ProcessorConstants(
        cores=float(cores),
        framework_bytes=framework_bytes,
        products={order: ProductConstants.from_mapping(c) for order, c in mapping["products"].items()},
        attention={way: FusedAttentionConstants.from_mapping(c) for way, c in mapping["attention"].items()},
        kernels={name: KernelTimes.from_mapping(c) for name, c in mapping["kernels"].items()},
        calls={name: float(seconds) for name, seconds in mapping["calls"].items()},
        call_weights=mapping.get("call_weights", {}),
        cold_shares={name: float(share) for name, share in mapping.get("cold_shares", COLD_SHARES).items()},
        fewer_cores=mapping.get("fewer_cores", {}),
        sharding=ShardingConstants.from_mapping(mapping["sharding"]) if "sharding" in mapping else None,
    )


def _interpolated(elements: Number, knots: NDArray[np.float64], seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Piecewise linear; beyond the last knot in proportion to the elements."""
    x = np.asarray(elements, dtype=float)
    inside = np.interp(x, knots, seconds)
    extended: NDArray[np.float64] = np.where(x > knots[-1], seconds[-1] * x / knots[-1], inside)
    return extended

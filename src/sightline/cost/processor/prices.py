"""Prices of operators on a processor, which are called one after the other.

No operator waits in a queue and none overlaps with another, so that a pass is the sum of its calls. What a pass touches
again and again, weights and saved activations, is found in the cache as far as it fits there together.
"""

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from sightline.cost.operator_cost import Execution, OperatorCost, Ranks
from sightline.cost.processor.constants import FALLBACK, Processor
from sightline.cost.processor.formulas import CALLS, UNRECORDED, fused_attention_cost, kernels_cost, product_cost
from sightline.cost.processor.model import ProcessorModel
from sightline.program import CachedAttention, Elementwise, FlashAttention, Matmul, Operator
from sightline.program.address import ATTENTION_CORE, GRADIENTS_OF_LINEAR
from sightline.quantities import Number

PRODUCTS, ATTENTION, ELEMENTWISE = "products", "attention", "chains"
"""Kinds of operators that fewer cores serve each in their own way."""
UNCALLED = 2.0
"""Element-wise kernels of an adapter's backward pass that a program counts and a processor's first backward pass has
not, because gradients of leaves are kept as they are."""
NAMES = {"norm": "norm", "rope": "rope", "activation": "activation", "residual": "residual", "embedding": "lookup"}
"""Measured kernels by class where no graph is recorded; others take as long as additions of as many bytes."""
MOVED = {
    "norm": (2.0, 18.0),
    "rope": (2.0, 9.0),
    "activation": (3.0, 5.0),
    "residual": (3.0, 3.0),
    "embedding": (2.0, 2.0),
}
"""Elements that a pass counts as moved for each of the tensor's, in one kernel and in several."""
CACHE_WRITE = "cache write"
FORMATS = ("16-bit", "32-bit")
"""Formats of products that were measured."""
SUMMED = {"forward": "n", "input gradient": "k", "weight gradient": "m"}
"""The side of a product along which the layers lie that a program joins, by the order of its operands."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProcessorPass:
    """What prices of a pass have in common."""

    processor: Processor
    execution: Execution
    missing: Number
    """Share of what is touched that the caches no longer hold."""
    cold: dict[str, Number]
    """Share of what operators lose by cold caches that they lose, forward and backward."""
    fewer_cores: bool

    @classmethod
    def on(cls, ranks: Ranks) -> "ProcessorPass":
        """The pass that ``ranks`` execute."""
        model, execution = cast(ProcessorModel, ranks.device_model), ranks.execution()
        machine, touched = model.machine, execution.touched_bytes
        return cls(
            processor=model.processor(),
            execution=execution,
            missing=model.missing_share(touched),
            cold={way: model.cold_share(touched, share) for way, share in machine.cold_shares.items()},
            fewer_cores=bool(np.any(np.asarray(model.device.compute_units) < machine.cores)),
        )

    def way(self, op: Operator) -> str:
        """Forward or backward."""
        return "backward" if id(op) in self.execution.backward else "forward"

    def on_fewer_cores(self, cost: OperatorCost, op: Operator) -> OperatorCost:
        """Return the cost where a process has some of the machine's cores."""
        if not self.fewer_cores or not self.execution.recorded:
            return cost
        machine = self.processor.constants
        few = np.asarray(self.processor.device.compute_units) < machine.cores
        slowdown = machine.fewer_cores.get(self.way(op), {}).get(kind_of(op), 1.0)
        return cost._replace(time_s=cost.time_s * np.where(few, slowdown, 1.0))


def kind_of(op: Operator) -> str:
    """Return the kind of a priced operator: products, attention or element-wise kernels."""
    match op:
        case Matmul():
            return PRODUCTS
        case FlashAttention():
            return ATTENTION
    return ELEMENTWISE


def price_product(op: Matmul, before: Operator | None, of: ProcessorPass) -> OperatorCost | None:
    """Return the price of a linear layer's product; none where its format was not measured."""
    if of.execution.recorded:
        return of.on_fewer_cores(_layer_products(op, isinstance(before, Matmul), of), op)
    if op.kernel not in FORMATS:
        return None
    cost = product_cost(op.m, op.n, op.k, op.batch, on=of.processor, missing=of.missing, code_is_near=True)
    call_s = UNRECORDED * framework_calls(op) * of.processor.constants.calls.get("forward", 0.0)
    return cost._replace(time_s=cost.time_s + call_s)


def _layer_products(op: Matmul, near: bool, of: ProcessorPass) -> OperatorCost:
    """A linear layer's product, or as many as there are layers; gradients of a shared input are added up."""
    order = op.direction if op.direction in GRADIENTS_OF_LINEAR else "forward"
    parts: list[OperatorCost] = []
    for share in op.shares:
        sizes: dict[str, Any] = {"m": op.m, "n": op.n, "k": op.k}
        sizes[SUMMED[order]] = sizes[SUMMED[order]] * share
        code: dict[str, Any] = {"code_is_near": near or bool(parts), "missing": of.cold[of.way(op)]}
        parts.append(product_cost(**sizes, batch=op.batch, on=of.processor, order=order, **code))
    time_s = sum((part.time_s for part in parts), 0.0)
    if op.module != ATTENTION_CORE:
        time_s = time_s + len(parts) * of.processor.constants.calls.get(order, 0.0)
    if order == "input gradient" and len(parts) > 1:
        adding = kernels_cost("residual", op.m * op.n, 0.0, 1.0, on=of.processor)
        time_s = time_s + (len(parts) - 1) * adding.time_s
    compute_s = sum((part.compute_s for part in parts), 0.0)
    return OperatorCost(time_s, compute_s, op.bytes / of.processor.device.memory_bandwidth)


def price_attention(op: FlashAttention, _: Operator | None, of: ProcessorPass) -> OperatorCost:
    """Return the price of fused attention over whole sequences."""
    return of.on_fewer_cores(fused_attention_cost(op, of.processor, missing=of.cold[of.way(op)]), op)


def price_cached_attention(op: CachedAttention, _: Operator | None, of: ProcessorPass) -> OperatorCost | None:
    """Return the price of attention of new tokens; none for a shared latent or a window, which were not measured.

    A step of decoding first copies all keys and values to where one more has room.
    """
    if op.shared_kv or op.window is not None:
        return None
    common: dict[str, Any] = {"on": of.processor, "missing": of.missing}
    cost = fused_attention_cost(replace(op, causal=not op.decode), **common)
    if not op.decode:
        return cost
    cached = op.batch * op.kv_heads * op.context_tokens * (op.head_dim + op.value_dim)
    traffic = 2.0 * of.processor.element_bytes * cached
    copied = kernels_cost(FALLBACK, cached / 2.0, traffic, 1.0, recorded=False, **common)
    return cost._replace(time_s=cost.time_s + copied.time_s, memory_s=cost.memory_s + copied.memory_s)


def price_kernels(op: Elementwise, _: Operator | None, of: ProcessorPass) -> OperatorCost:
    """Return the price of element-wise kernels."""
    if of.execution.recorded:
        kernels = op.kernels - UNCALLED * (op.part == "adapter chain" and op.backward)
        cold = of.cold[of.way(op)]
        cost = kernels_cost(_measured_as(op), op.elements, op.traffic_bytes, kernels, on=of.processor, missing=cold)
        return of.on_fewer_cores(cost, op)
    name, elements = NAMES.get(op.kind, ""), op.traffic_bytes / of.processor.element_bytes
    if name:
        elements = elements / MOVED[op.kind][int(np.any(np.greater(op.kernels, 1.0)))]
    # Nothing is saved, so that results go where those of the layer before were, still in the cache.
    return kernels_cost(name, elements, op.traffic_bytes, op.kernels, on=of.processor, recorded=False)


def _measured_as(op: Elementwise) -> str:
    """The kernels that were measured in place of an operator's; gradients are added up as residuals are."""
    if op.part in ("residual", "accumulation"):
        return "residual"
    return f"{op.part} gradient" if op.backward else op.part


def framework_calls(op: Operator) -> float:
    """Return the calls of the framework that an operator stands for."""
    match op:
        case Matmul():
            return float(len(op.shares))
        case Elementwise() if op.kind == CACHE_WRITE:
            return 0.0
        case Elementwise():
            return CALLS.get(NAMES.get(op.kind, "") if op.kind else _measured_as(op), 1.0)
        case FlashAttention() | CachedAttention():
            return 1.0
    return 0.0

"""The price of an inference pass on a processor, whose operators transformers calls one after the other.

Legend: ``e`` bytes of an element, ``n x k`` a weight. Weights and the cache are found in the processor's cache as far as
a whole pass fits there together; keys and values that grow with every token are written anew for each.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sightline.cost.inference_constants import InferenceConstants
from sightline.cost.operator_cost import OperatorCost
from sightline.cost.processor.constants import FALLBACK, ProcessorConstants, processor_family
from sightline.cost.processor.formulas import CALLS, UNRECORDED, fused_attention_cost, kernels_cost, product_cost
from sightline.cost.processor_pricing import missing_share, near_share, spread
from sightline.program import Elementwise, Matmul, Operator
from sightline.program.inference import CachedAttention, Pass
from sightline.program.inference.passes import Block
from sightline.program.shapes import ELEMENT_BYTES
from sightline.quantities import Number
from sightline.scenario import Device, GenerationScenario

CHAINS = {"norm": "norm", "rope": "rope", "activation": "activation", "residual": "residual", "embedding": "lookup"}
"""Chain that was measured, by the class of a pass's kernels; others take as long as additions of as many bytes."""
MOVED = {
    "norm": (2.0, 18.0),
    "rope": (2.0, 9.0),
    "activation": (3.0, 5.0),
    "residual": (3.0, 3.0),
    "embedding": (2.0, 2.0),
}
"""Elements that a pass counts as moved for each of the chain's, in one kernel and in several."""
DECODING = ("decoding warm", "decoding cold")
"""Names of the model's own calls where no graph is recorded, with all in the cores' caches and with weights going by."""
RESIDUAL, CACHE_WRITE = "residual", "cache write"
FORMATS = ("16-bit", "32-bit")

ENGINES = ("transformers", "reference")
"""Engines that call one operator after the other; others have kernels of their own."""
ONE_BY_ONE = InferenceConstants(
    matmul_slowdown=1.0,
    prefill_attention_slowdown=1.0,
    decode_attention_slowdown=1.0,
    experts_slowdown=1.0,
    elementwise_slowdown=1.0,
    collective_slowdown=1.0,
    meeting_s=0.0,
    kernel_gap_s=0.0,
    launch_s=0.0,
    iteration_s=0.0,
    sequence_s=0.0,
    prefill_s=0.0,
    prompt_token_s=0.0,
    ttft_spread=0.25,
    tpot_spread=0.25,
)
"""Nothing waits for anything there but the call before: host time is in the calls. Spreads are estimated."""

Prices = dict[int, OperatorCost]


def calls_one_by_one(scenario: GenerationScenario) -> bool:
    """Whether a generation runs on a processor, by an engine that its constants describe."""
    return scenario.plan.engine.name in ENGINES and processor_family(scenario.cluster.device) is not None


def price_pass(of: Pass, device: Device, machine: ProcessorConstants, dtype: str) -> Prices:
    """Return the price of each operator of a pass that a processor's constants know, by its identity.

    Left out: products of packed weights, experts, latent and recurrent mixers, which keep their formulas for any device.
    """
    touched = _touched_bytes(of)
    missing = missing_share(touched, device)
    around = _around(of, machine, near_share(touched, device))
    prices: Prices = {}
    for block in of.blocks:
        for op in block.operators:
            cost = _cost(op, device, machine, dtype, missing)
            if cost is not None:
                prices[id(op)] = cost._replace(time_s=cost.time_s + around.get(id(op), 0.0))
    return prices


def _around(of: Pass, machine: ProcessorConstants, near: Number) -> dict[int, Number]:
    """Return seconds of the model's own calls beside each operator: as decoding models told, else as training ones.

    ``near`` is the share of what a pass touches that the cores' caches lose: code and the interpreter's data go with it.
    """
    embedding, head = ends_of(of)
    places: list[tuple[str, Sequence[Operator]]] = [("layer", layer.operators) for layer in of.layers]
    found: dict[int, Number] = {}
    for name, operators in (*places, ("pass", [*embedding, *head])):
        if any(f"{name} {state}" not in machine.calls for state in DECODING):
            found |= spread(operators, pass_calls, machine, name, machine.calls.get(f"{name} forward", 0.0))
            continue
        warm, cold = (
            spread(operators, pass_calls, machine, f"{name} {state}", machine.calls[f"{name} {state}"])
            for state in DECODING
        )
        found |= {one: (1.0 - near) * seconds + near * cold[one] for one, seconds in warm.items()}
    return found


def ends_of(of: Pass) -> tuple[Sequence[Operator], Sequence[Operator]]:
    """Return the operators before the layers and behind them, without the last layer's sum."""
    return of.embedding.operators, [op for op in of.head.operators if op.module != RESIDUAL]


def _cost(
    op: Operator, device: Device, machine: ProcessorConstants, dtype: str, missing: Number
) -> OperatorCost | None:
    common: dict[str, Any] = {"dtype": dtype, "device": device, "constants": machine}
    match op:
        case Matmul() if type(op) is Matmul and op.kernel in FORMATS:
            cost = product_cost(
                op.m, op.n, op.k, op.batch, order="forward", missing=missing, code_is_near=True, **common
            )
            return cost._replace(time_s=cost.time_s + UNRECORDED * pass_calls(op) * machine.calls.get("forward", 0.0))
        case CachedAttention() if not op.shared_kv and op.window is None:
            return _attention(op, missing, common)
        case Elementwise():
            elements = op.traffic_bytes / ELEMENT_BYTES[dtype]
            chain = CHAINS.get(op.kind, "")
            if chain:
                elements = elements / MOVED[op.kind][int(np.any(np.greater(op.kernels, 1.0)))]
            # Nothing is kept, so that results go where those of the layer before were, still in the cache.
            return kernels_cost(chain, elements, op.traffic_bytes, op.kernels, recorded=False, **common)
    return None


def _attention(op: CachedAttention, missing: Number, common: dict[str, Any]) -> OperatorCost:
    """Attention of new tokens; a step of decoding first copies all keys and values to where one more has room."""
    sizes = (op.batch, op.heads, op.kv_heads, op.head_dim, op.query_tokens, op.context_tokens)
    cost = fused_attention_cost(*sizes, causal=not op.decode, backward=False, missing=missing, **common)
    if not op.decode:
        return cost
    cached = op.batch * op.kv_heads * op.context_tokens * (op.head_dim + op.value_dim)
    traffic = 2.0 * ELEMENT_BYTES[common["dtype"]] * cached
    copied = kernels_cost(FALLBACK, cached / 2.0, traffic, 1.0, missing=missing, recorded=False, **common)
    return cost._replace(time_s=cost.time_s + copied.time_s, memory_s=cost.memory_s + copied.memory_s)


def _touched_bytes(of: Pass) -> Number:
    """Weights and cached tokens that a pass goes through."""
    return sum((block.count * _read_bytes(block) for block in of.blocks), 0.0)


def _read_bytes(block: Block) -> Number:
    return sum((op.count * op.bytes for op in block.operators if _reads(op)), 0.0)


def _reads(op: Operator) -> bool:
    return isinstance(op, Matmul | CachedAttention)


def pass_calls(op: Operator) -> float:
    """Return the calls of the framework that an operator of a pass stands for."""
    if isinstance(op, Elementwise):
        if op.kind == CACHE_WRITE:
            return 0.0
        return CALLS.get(CHAINS.get(op.kind, ""), 1.0)
    return float(len(op.shares)) if isinstance(op, Matmul) else float(isinstance(op, CachedAttention))

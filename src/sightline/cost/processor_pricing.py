"""The price of a program's operators on a processor, as an eager framework calls them one after the other.

No operator waits in a queue and none runs beside another, so that a step is the sum of its calls. What a pass touches
once and again, weights and kept activations, is found in the cache as far as it fits there together.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sightline.cost.operator_cost import OperatorCost
from sightline.cost.processor.constants import ProcessorConstants
from sightline.cost.processor.formulas import CALLS, fused_attention_cost, kernels_cost, product_cost
from sightline.cost.training_constants import TrainingConstants
from sightline.program import Block, Elementwise, FlashAttention, Matmul, Operator, Program
from sightline.program.address import ATTENTION_CORE, GRADIENTS_OF_LINEAR
from sightline.program.shapes import ELEMENT_BYTES
from sightline.quantities import Number
from sightline.scenario import Device, Scenario

CORE_CACHE = 2.0**20
"""Bytes of a core's own cache (Cascade Lake; others have up to twice as much)."""
IN_LAST_CACHE = 0.18
"""Share of what operators lose by cold caches that they lose to the last cache: norms, rotary embeddings, additions and
attention of small models lost 0.13 to 0.2 when 6 MB had passed through the cores' caches (Cascade Lake, 2026-11)."""
PRODUCTS, ATTENTION, CHAINS = "products", "attention", "chains"
"""Kinds of operators that fewer cores serve each in their own way."""
UPDATE = "update"
"""The optimizer's step over all parameters, gradient clipping included."""
TENSORS_OF_LAYER, TENSORS_OF_ENDS = 9.0, 3.0
"""Parameters come in so many tensors: seven projections and two norms of a layer; table, last norm and head."""
UPDATE_TENSORS = 16.0
"""Tensors that parameters came in where updates were measured."""
UNCALLED = 2.0
"""Kernels of an adapter's backward chain that a program counts and a processor's first backward pass has not: gradients of leaves are kept as they are."""
UPDATE_BYTES = 16.0
"""Of a parameter, its gradient and two moments."""

Prices = dict[int, OperatorCost]


def price_on_processor(
    program: Program, scenario: Scenario, constants: TrainingConstants, machine: ProcessorConstants
) -> Prices:
    """Return the price of each distinct operator but collectives, by its identity."""
    device, touched = scenario.cluster.device, working_bytes(program, scenario)
    cold = {way: cold_share(touched, device, share) for way, share in machine.cold_shares.items()}
    again = _repeats(scenario)
    around = _around(program, machine)
    apart = np.asarray(device.compute_units) < machine.cores
    prices: Prices = {}
    for block in program.blocks:
        backward = {id(op) for op in block.backward}
        operators = block.operators
        for before, op in zip([None, *operators], operators, strict=False):
            way = "backward" if id(op) in backward else "forward"
            missing = cold[way]
            match op:
                case Matmul():
                    cost = _slower(_linear(op, scenario, machine, missing, before), constants.matmul_slowdown)
                case FlashAttention():
                    cost = _slower(_attention(op, scenario, machine, missing), constants.attention_slowdown)
                case Elementwise():
                    cost = _chain(op, scenario, machine, missing)
                    if op.part == "accumulation":
                        cost = _slower(cost, again)
                case _:
                    continue
            if np.any(apart):
                cost = _slower(cost, np.where(apart, machine.fewer_cores.get(way, {}).get(kind_of(op), 1.0), 1.0))
            prices[id(op)] = cost._replace(time_s=cost.time_s + around.get(id(op), 0.0))
    return prices


def kind_of(op: Operator) -> str:
    """Return the kind of a priced operator: products, attention or chains."""
    match op:
        case Matmul():
            return PRODUCTS
        case FlashAttention():
            return ATTENTION
    return CHAINS


def update_time(
    parameters: Number, tensors: Number, others_bytes: Number, device: Device, machine: ProcessorConstants
) -> Number:
    """Return the seconds of AdamW's step over fp32 ``parameters`` in so many tensors, by constants of fp32.

    Calls take what they did in steps of tiny models, where those were measured, else as timed by themselves.
    ``others_bytes`` pass through the cache between one update and the next.
    """
    states = UPDATE_BYTES * np.asarray(parameters, dtype=float)
    cost = kernels_cost(
        UPDATE,
        parameters,
        1.75 * states,
        1.0,
        dtype="fp32",
        device=device,
        constants=machine,
        missing=missing_share(states + others_bytes, device),
    )
    calls_s = float(machine.kernels[UPDATE].cached_s[0])
    once_s = machine.calls.get("update", 0.0)
    each_s = machine.calls.get("update tensor", calls_s / UPDATE_TENSORS)
    time_s: Number = cost.time_s - calls_s + once_s + tensors * each_s
    return time_s


def working_bytes(program: Program, scenario: Scenario) -> Number:
    """Return the weights, gradients and kept activations that a micro-batch passes through on one device."""
    e = ELEMENT_BYTES[scenario.plan.dtype]

    def of(block: Block) -> Number:
        return block.layers * (2.0 * e * block.parameters + block.saved_bytes)

    return sum((of(block) for block in program.blocks), 0.0)


def missing_share(bytes_: Number, device: Device) -> Number:
    """Return the share of what is touched in turns that the last cache no longer holds when its turn comes again.

    None up to half the cache, all from one and a half: with exact least-recently-used replacement it would be a step.
    """
    return _gone(bytes_, device.l2_bytes)


def near_share(bytes_: Number, device: Device) -> Number:
    """Return the share of what is touched in turns that the cores' own caches no longer hold."""
    return _gone(bytes_, CORE_CACHE * np.asarray(device.compute_units))


def _gone(bytes_: Number, cache_bytes: Number) -> Number:
    share: Number = np.clip(np.asarray(bytes_, dtype=float) / cache_bytes - 0.5, 0.0, 1.0)
    return share


def cold_share(bytes_: Number, device: Device, share: float) -> Number:
    """Return the share of what operators lose by cold caches that they lose where so many bytes pass between two turns.

    ``share`` where no cache holds them; less where the last one does and the cores' own do not.
    """
    gone = missing_share(bytes_, device)
    nearby = IN_LAST_CACHE * near_share(bytes_, device)
    return gone * share + (1.0 - gone) * nearby


def _linear(
    op: Matmul, scenario: Scenario, machine: ProcessorConstants, missing: Number, before: Operator | None
) -> OperatorCost:
    """A linear layer's product, or as many as there are layers; gradients of a shared input are added up."""
    near = isinstance(before, Matmul)
    device, order = scenario.cluster.device, _order(op)
    common: dict[str, Any] = {"dtype": op.dtype, "device": device, "constants": machine, "missing": missing}
    side = {"forward": "n", "input gradient": "k", "weight gradient": "m"}[order]
    parts: list[OperatorCost] = []
    for share in op.shares:
        sizes: dict[str, Any] = {"m": op.m, "n": op.n, "k": op.k}
        sizes[side] = sizes[side] * share
        parts.append(product_cost(**sizes, batch=op.batch, order=order, code_is_near=near or bool(parts), **common))
    time_s = sum((part.time_s for part in parts), 0.0)
    if op.module != ATTENTION_CORE:
        time_s = time_s + len(parts) * machine.calls.get(order, 0.0)
    if order == "input gradient" and len(parts) > 1:
        elements = op.m * op.n
        adding = kernels_cost(
            "residual", elements, 0.0, 1.0, dtype=op.dtype, device=device, constants=machine, missing=0.0
        )
        time_s = time_s + (len(parts) - 1) * adding.time_s
    compute_s = sum((part.compute_s for part in parts), 0.0)
    return OperatorCost(time_s, compute_s, op.bytes / device.memory_bandwidth)


def _order(op: Matmul) -> str:
    return op.direction if op.direction in GRADIENTS_OF_LINEAR else "forward"


def _attention(op: FlashAttention, scenario: Scenario, machine: ProcessorConstants, missing: Number) -> OperatorCost:
    return fused_attention_cost(
        op.batch,
        op.heads,
        op.kv_heads,
        op.head_dim,
        op.query_tokens,
        op.context_tokens,
        causal=op.causal,
        backward=op.backward,
        dtype=op.dtype,
        device=scenario.cluster.device,
        constants=machine,
        missing=missing,
    )


def _around(program: Program, machine: ProcessorConstants) -> dict[int, Number]:
    """Return seconds of the model's own calls beside each operator, by its identity.

    Forward a layer's are spread over its operators, and a pass's, such as masks and positions before the layers and shifted
    labels after them, over those of embedding and head, by the framework's calls that each stands for, weighted by
    module. Backward they are the engine's, which counts the nodes of the whole graph before it begins with the head.
    """
    calls = machine.calls
    found: dict[int, Number] = dict.fromkeys((id(op) for block in program.blocks for op in block.backward), 0.0)
    for layer in program.layers:
        found |= spread(layer.forward, framework_calls, machine, "layer", calls.get("layer forward", 0.0))
    ends = (*program.embedding.forward, *program.head.forward)
    found |= spread(ends, framework_calls, machine, "pass", calls.get("pass forward", 0.0))
    last = next((block for block in reversed(program.blocks) if block.backward), program.head)
    engine_s = calls.get("pass backward", 0.0)
    engine_s = engine_s + calls.get("layer backward", 0.0) * sum(layer.layers for layer in program.layers)
    return found | spread(last.backward, framework_calls, replace(machine, call_weights={}), "pass", engine_s)


def spread(
    operators: Sequence[Operator],
    calls: Callable[[Operator], float],
    machine: ProcessorConstants,
    block: str,
    seconds: Number,
) -> dict[int, Number]:
    """Return each operator's part of a block's own ``seconds``, by its identity: by the calls that it stands for."""
    weights = machine.call_weights.get(block, {})
    weighted = {id(op): calls(op) * weights.get(op.module, 1.0) for op in operators}
    total = sum((op.count * weighted[id(op)] for op in operators), 0.0)
    each = seconds / np.where(np.asarray(total) > 0.0, total, 1.0)
    return {one: each * of_op for one, of_op in weighted.items()}


def framework_calls(op: Operator) -> float:
    """Return the calls of the framework that an operator stands for."""
    match op:
        case Matmul():
            return float(len(op.shares))
        case Elementwise():
            return CALLS.get(_measured_as(op), 1.0)
        case FlashAttention():
            return 1.0
    return 0.0


def _chain(op: Elementwise, scenario: Scenario, machine: ProcessorConstants, missing: Number) -> OperatorCost:
    return kernels_cost(
        _measured_as(op),
        op.elements,
        op.traffic_bytes,
        op.kernels - UNCALLED * (op.part == "adapter chain" and op.backward),
        dtype=scenario.plan.dtype,
        device=scenario.cluster.device,
        constants=machine,
        missing=missing,
    )


def _measured_as(op: Elementwise) -> str:
    """The chain that was measured in place of an operator; gradients are added up as residuals are."""
    if op.part in ("residual", "accumulation"):
        return "residual"
    return f"{op.part} gradient" if op.backward else op.part


def _repeats(scenario: Scenario) -> Number:
    """Share of the micro-batches whose gradients are added to others; the first one's are taken as they are."""
    plan = scenario.plan
    micro_batches = np.ceil(scenario.workload.global_batch / (plan.data_parallel * plan.sequences))
    share: Number = 1.0 - 1.0 / micro_batches
    return share


def _slower(cost: OperatorCost, times: Number) -> OperatorCost:
    return cost._replace(time_s=cost.time_s * times)

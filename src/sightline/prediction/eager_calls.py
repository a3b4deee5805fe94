"""What calling operators one after the other adds to their prices: the model's own code around the calls.

On an accelerator that code runs while the device works through what was launched before. Where a call returns when its
work is done, as on a processor, it is part of the pass.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from sightline.cost.device_model import DeviceModel
from sightline.cost.operator_cost import Execution
from sightline.cost.prices import Prices
from sightline.program import Block, CachedAttention, Matmul, Operator, Program
from sightline.program.shapes import ELEMENT_BYTES
from sightline.quantities import Number
from sightline.scenario import Scenario

ACCUMULATION = "accumulation"
DECODING = ("decoding warm", "decoding cold")
"""Names of the model's own calls where no graph is recorded, with all in the cores' caches and with weights going
by."""
RESIDUAL = "residual"


def in_eager_step(program: Program, prices: Prices, scenario: Scenario, model: DeviceModel) -> Prices:
    """Return the prices of a training step's operators with the model's own code around them."""
    if model.asynchronous:
        return prices
    around = around_step(program, model)
    # The first micro-batch's gradients are kept as they are, the others' are added to them.
    summed = 1.0 - 1.0 / scenario.micro_batches
    adding = {id(op) for op in program.operators if op.part == ACCUMULATION}
    return {
        one: cost._replace(time_s=cost.time_s * (summed if one in adding else 1.0) + around.get(one, 0.0))
        for one, cost in prices.items()
    }


def step_execution(program: Program, scenario: Scenario) -> Execution:
    """Return what a training step is for the caches of a processor."""
    return Execution(
        touched_bytes=working_bytes(program, scenario),
        recorded=True,
        backward=frozenset(id(op) for block in program.blocks for op in block.backward),
    )


def working_bytes(program: Program, scenario: Scenario) -> Number:
    """Return the weights, gradients and saved activations that a micro-batch passes through on one device."""
    e = ELEMENT_BYTES[scenario.plan.dtype]

    def of(block: Block) -> Number:
        return block.count * (2.0 * e * block.parameters + block.saved_bytes)

    return sum((of(block) for block in program.blocks), 0.0)


def around_step(program: Program, model: DeviceModel) -> dict[int, Number]:
    """Return seconds of the model's own calls around each operator of a training step, by its identity.

    Forward a layer's are spread over its operators, and a pass's, such as masks and positions before the layers and
    shifted labels after them, over those of embedding and head, by the framework's calls that each stands for, weighted
    by module. Backward they are the autograd engine's, which counts the nodes of the whole graph before it begins with
    the head.
    """
    calls, weights = model.calls, model.call_weights
    found: dict[int, Number] = dict.fromkeys((id(op) for block in program.blocks for op in block.backward), 0.0)
    for layer in program.layers:
        found |= spread(layer.forward, weights.get("layer", {}), calls.get("layer forward", 0.0))
    outside_layers = (*program.embedding.forward, *program.head.forward)
    found |= spread(outside_layers, weights.get("pass", {}), calls.get("pass forward", 0.0))
    last = next((block for block in reversed(program.blocks) if block.backward), program.head)
    engine_s = calls.get("pass backward", 0.0)
    engine_s = engine_s + calls.get("layer backward", 0.0) * sum(layer.count for layer in program.layers)
    return found | spread(last.backward, {}, engine_s)


def spread(operators: Sequence[Operator], weights: Mapping[str, float], seconds: Number) -> dict[int, Number]:
    """Return each operator's part of ``seconds``, by its identity: its calls, weighted by module."""
    from sightline.cost.processor import framework_calls

    weighted = {id(op): framework_calls(op) * weights.get(op.module, 1.0) for op in operators}
    total = sum((op.count * weighted[id(op)] for op in operators), 0.0)
    each = seconds / np.where(np.asarray(total) > 0.0, total, 1.0)
    return {one: each * of_op for one, of_op in weighted.items()}


def in_eager_pass(program: Program, prices: Prices, model: DeviceModel) -> Prices:
    """Return the prices of an inference pass's operators with the model's own code around them."""
    if model.asynchronous:
        return prices
    around = around_pass(program, model)
    return {one: cost._replace(time_s=cost.time_s + around.get(one, 0.0)) for one, cost in prices.items()}


def pass_execution(program: Program) -> Execution:
    """Return what an inference pass is for the caches of a processor: weights and cached tokens that it reads."""
    return Execution(touched_bytes=sum((block.count * _read_bytes(block.operators) for block in program.blocks), 0.0))


def _read_bytes(operators: Iterable[Operator]) -> Number:
    return sum((op.count * op.bytes for op in operators if isinstance(op, Matmul | CachedAttention)), 0.0)


def around_pass(program: Program, model: DeviceModel) -> dict[int, Number]:
    """Return seconds of the model's own calls around each operator, measured in decoding models or else in training.

    Code and the interpreter's data leave the cores' caches with what a pass touches.
    """
    near = model.near_share(pass_execution(program).touched_bytes)
    embedding, head = embedding_and_head(program)
    places: list[tuple[str, Sequence[Operator]]] = [("layer", layer.operators) for layer in program.layers]
    calls, weights = model.calls, model.call_weights
    found: dict[int, Number] = {}
    for name, operators in (*places, ("pass", [*embedding, *head])):
        if any(f"{name} {state}" not in calls for state in DECODING):
            found |= spread(operators, weights.get(name, {}), calls.get(f"{name} forward", 0.0))
            continue
        states = (f"{name} {state}" for state in DECODING)
        warm, cold = (spread(operators, weights.get(state, {}), calls[state]) for state in states)
        found |= {one: (1.0 - near) * seconds + near * cold[one] for one, seconds in warm.items()}
    return found


def embedding_and_head(program: Program) -> tuple[Sequence[Operator], Sequence[Operator]]:
    """Return the operators before the layers and behind them, without the last layer's sum."""
    return program.embedding.operators, [op for op in program.head.operators if op.module != RESIDUAL]

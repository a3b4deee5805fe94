"""Seconds of a pass through blocks of operators on one device: what their prices add up to, with the model's own code.

On an accelerator that code runs while the device works through what was launched before. Where a call returns when its
work is done, as on a processor, it is part of the pass.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sightline.cost.device_model import DeviceModel
from sightline.cost.prices import Execution, OperatorCost, Prices
from sightline.program import Block, CachedAttention, Collective, Matmul, Operator, Program
from sightline.program.shapes import ELEMENT_BYTES
from sightline.quantities import Number, larger
from sightline.scenario import Scenario


def in_setting(
    operators: Iterable[Operator], prices: Prices, time_s: Callable[[Operator, OperatorCost], Number]
) -> Prices:
    """Return the prices of operators inside a framework's step or an engine's pass, by what ``time_s`` makes of each.

    Between others an operator takes longer than alone in a benchmark: clocks, cold caches, gaps between kernels, ranks
    that wait for each other. Constants may also say less, as for kernels better than those that were measured alone;
    none makes an operator faster than its arithmetic and its bytes beyond L2 allow.
    """
    inside: Prices = {}
    for op in operators:
        alone = prices[id(op)]
        inside_s = time_s(op, alone)
        if inside_s is not alone.time_s:
            inside_s = larger(inside_s, alone.least_s)
            alone = OperatorCost(inside_s, alone.compute_s, alone.memory_s, alone.least_s)
        inside[id(op)] = alone
    return inside


class PriceRows(dict[int, OperatorCost]):
    """Prices of one plan along an axis of constants: their times are rows of a matrix, whose sums are products."""

    def __init__(self, prices: Prices) -> None:
        super().__init__(prices)
        times = [price.time_s for price in prices.values()]
        self._times = np.empty((len(times), *max(map(np.shape, times))))
        for place, time_s in enumerate(times):
            self._times[place] = time_s
        self._places = dict(zip(prices, range(len(times)), strict=True))

    def seconds(self, operators: Sequence[Operator]) -> Number:
        """Return the seconds of one execution of each operator."""
        if not operators:
            return 0.0
        counts: list[Number] = [0.0] * len(self)
        for op in operators:
            counts[self._places[id(op)]] += op.count
        seconds: Number = np.array(counts) @ self._times
        return seconds

    def times(self, operators: Sequence[Operator]) -> "PassTimes":
        """Return the times of one execution of ``operators``, one after the other."""
        parts: tuple[list[Operator], list[Operator], list[Operator]] = ([], [], [])
        for op in operators:
            price = self[id(op)]
            parts[2 if isinstance(op, Collective) else bool(price.compute_s < price.memory_s)].append(op)
        compute_s, memory_s, collective_s = map(self.seconds, parts)
        return PassTimes(compute_s, memory_s, collective_s, sum((op.launches for op in operators), 0.0))


class PassTimes(NamedTuple):
    """One pass of blocks: the device's work, exposed collectives, and the kernels that the host launches."""

    compute_s: Number = 0.0
    """Operators that arithmetic bounds."""
    memory_s: Number = 0.0
    """Operators that memory bounds, and what kernels lose between each other."""
    collective_s: Number = 0.0
    launches: Number = 0.0
    """Kernels that the host launches."""
    blocked_s: Number = 0.0
    """Seconds in which the device idles because the host had waited for its results and could not launch ahead."""

    @property
    def work_s(self) -> Number:
        """Seconds of the operators that are no collectives."""
        return self.compute_s + self.memory_s

    @property
    def device_s(self) -> Number:
        """Seconds the device is at work."""
        return self.compute_s + self.memory_s + self.collective_s

    def waiting_s(self, host_s: Number) -> Number:
        """Seconds that the device waits for the host, whose launches take ``host_s``."""
        return larger(host_s - self.device_s, self.blocked_s)

    def without(self, part: "PassTimes") -> "PassTimes":
        """The pass without a part of it."""
        return PassTimes(*(whole - own for whole, own in zip(self, part, strict=True)))

    def times(self, count: Number) -> "PassTimes":
        """The pass ``count`` times."""
        return PassTimes(*(figure * count for figure in self))


def sum_of_passes(counts: Iterable[Number], passes: Iterable[PassTimes]) -> PassTimes:
    """Return the times of several passes, each as often as ``counts`` says."""
    pairs = [(n, times) for n, times in zip(counts, passes, strict=True) if isinstance(n, np.ndarray) or n]
    if not pairs:
        return PassTimes()
    terms = [times.times(n) if isinstance(n, np.ndarray) or n != 1.0 else times for n, times in pairs]
    return PassTimes._make(map(sum, zip(*terms, strict=True))) if len(terms) > 1 else terms[0]


def operator_times(operators: Sequence[Operator], prices: Prices) -> PassTimes:
    """Return the times of one execution of ``operators``, one after the other."""
    if isinstance(prices, PriceRows):
        return prices.times(operators)
    compute_s: Number = 0.0
    memory_s: Number = 0.0
    collective_s: Number = 0.0
    launches: Number = 0.0
    for op in operators:
        price = prices[id(op)]
        time_s = price.time_s if type(op.count) is float and op.count == 1.0 else op.count * price.time_s
        launches = launches + op.count * (op.kernels + op.host_calls)
        if isinstance(op, Collective):
            collective_s = collective_s + time_s
            continue
        bound = price.compute_s >= price.memory_s
        if isinstance(bound, np.ndarray):
            compute_s = compute_s + time_s * bound
            memory_s = memory_s + time_s * (1.0 - bound)
        elif bound:
            compute_s = compute_s + time_s
        else:
            memory_s = memory_s + time_s
    return PassTimes(compute_s, memory_s, collective_s, launches)


def seconds_of(operators: Sequence[Operator], prices: Prices) -> Number:
    """Return the seconds of one execution of each operator."""
    if isinstance(prices, PriceRows):
        return prices.seconds(operators)
    return sum((op.count * prices[id(op)].time_s for op in operators), 0.0)


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
    around: dict[int, Number] = dict.fromkeys((id(op) for block in program.blocks for op in block.backward), 0.0)
    for layer in program.layers:
        around |= spread(layer.forward, weights.get("layer", {}), calls.get("layer forward", 0.0))
    outside_layers = (*program.embedding.forward, *program.head.forward)
    around |= spread(outside_layers, weights.get("pass", {}), calls.get("pass forward", 0.0))
    last = next((block for block in reversed(program.blocks) if block.backward), program.head)
    engine_s = calls.get("pass backward", 0.0)
    engine_s = engine_s + calls.get("layer backward", 0.0) * sum(layer.count for layer in program.layers)
    return around | spread(last.backward, {}, engine_s)


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
    return {op: cost._replace(time_s=cost.time_s + around.get(op, 0.0)) for op, cost in prices.items()}


def pass_execution(program: Program) -> Execution:
    """Return what an inference pass is for the caches of a processor: weights and cached tokens that it reads."""
    reading = ((block.count, op) for block in program.blocks for op in block.operators)
    read = (n * op.count * op.bytes for n, op in reading if isinstance(op, Matmul | CachedAttention))
    return Execution(touched_bytes=sum(read, 0.0))


def around_pass(program: Program, model: DeviceModel) -> dict[int, Number]:
    """Return seconds of the model's own calls around each operator, measured in decoding models or else in training.

    Code and the interpreter's data leave the cores' caches with what a pass touches.
    """
    near = model.near_share(pass_execution(program).touched_bytes)
    embedding, head = embedding_and_head(program)
    places: list[tuple[str, Sequence[Operator]]] = [("layer", layer.operators) for layer in program.layers]
    calls, weights = model.calls, model.call_weights
    around: dict[int, Number] = {}
    for name, operators in (*places, ("pass", [*embedding, *head])):
        if any(f"{name} {state}" not in calls for state in DECODING):
            around |= spread(operators, weights.get(name, {}), calls.get(f"{name} forward", 0.0))
            continue
        states = (f"{name} {state}" for state in DECODING)
        warm, cold = (spread(operators, weights.get(state, {}), calls[state]) for state in states)
        around |= {op: (1.0 - near) * seconds + near * cold[op] for op, seconds in warm.items()}
    return around


def embedding_and_head(program: Program) -> tuple[Sequence[Operator], Sequence[Operator]]:
    """Return the operators before the layers and behind them, without the last layer's sum."""
    return program.embedding.operators, [op for op in program.head.operators if op.module != RESIDUAL]

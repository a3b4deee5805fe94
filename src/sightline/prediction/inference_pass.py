"""Seconds of one inference pass on its ranks: device work, collectives, the host."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from sightline.cost.matmul.dense import overlapped
from sightline.cost.matmul.prices import UNIT_BANDWIDTH
from sightline.cost.operator_cost import OperatorCost
from sightline.cost.prices import Prices, price
from sightline.cost.ranks import Ranks
from sightline.prediction.eager_calls import in_eager_pass, pass_execution
from sightline.prediction.engine_constants import InferenceConstants
from sightline.program import CachedAttention, Collective, GroupedMatmul, Matmul, MatrixVector, Operator, Program
from sightline.program.mixer_operators import SelectedAttention
from sightline.quantities import Number


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PassTimes:
    """One pass through all layers, as if one device (with its tensor-parallel peers) held them all."""

    compute_s: Number
    """Operators that arithmetic bounds."""
    memory_s: Number
    """Operators that memory bounds, and what kernels lose between each other."""
    collective_s: Number
    launches: Number
    """Kernels the host launches."""

    @property
    def device_s(self) -> Number:
        """Seconds the device is at work."""
        return self.compute_s + self.memory_s + self.collective_s

    def __mul__(self, count: Number) -> "PassTimes":
        return PassTimes(
            compute_s=self.compute_s * count,
            memory_s=self.memory_s * count,
            collective_s=self.collective_s * count,
            launches=self.launches * count,
        )

    def __add__(self, other: "PassTimes") -> "PassTimes":
        return PassTimes(
            compute_s=self.compute_s + other.compute_s,
            memory_s=self.memory_s + other.memory_s,
            collective_s=self.collective_s + other.collective_s,
            launches=self.launches + other.launches,
        )


def price_passes(passes: Sequence[Program], ranks: Ranks) -> Prices:
    """Return the price of every operator of several passes, priced together where launches are asynchronous."""
    if ranks.device_model.asynchronous:
        return price([op for of in passes for op in operators_of(of)], ranks)
    prices: Prices = {}
    for of in passes:
        raw = price(operators_of(of), replace(ranks, execution=partial(pass_execution, of)))
        prices |= in_eager_pass(of, raw, ranks.device_model)
    return prices


def operators_of(of: Program) -> list[Operator]:
    """Return the operators of all blocks, in order of execution."""
    return [op for block in of.blocks for op in block.operators]


def pass_times(of: Program, prices: Prices, constants: InferenceConstants) -> PassTimes:
    """Return the seconds of a whole pass under an engine."""
    total = block_times(of.embedding.operators, prices, constants)
    for block in (*of.layers, of.head):
        total = total + block_times(block.operators, prices, constants) * block.count
    return total


def attention_time(of: Program, prices: Prices, constants: InferenceConstants) -> Number:
    """Return the seconds of a pass that new tokens spend with the tokens before them."""
    total: Number = 0.0
    for block in of.layers:
        for op in block.operators:
            if isinstance(op, CachedAttention | SelectedAttention):
                total = total + block.count * op.count * engine_time(op, prices[id(op)], constants)
    return total


def block_times(operators: Sequence[Operator], prices: Prices, constants: InferenceConstants) -> PassTimes:
    """Return the seconds of one execution of a block."""
    compute_s: Number = 0.0
    memory_s: Number = 0.0
    collective_s: Number = 0.0
    launches: Number = 0.0
    for op in operators:
        price = prices[id(op)]
        time_s = op.count * engine_time(op, price, constants)
        launches = launches + op.count * op.kernels
        if isinstance(op, Collective):
            collective_s = collective_s + time_s
        else:
            bound = price.compute_s > price.memory_s
            compute_s = compute_s + time_s * bound
            memory_s = memory_s + time_s * (1.0 - bound)
    return PassTimes(compute_s=compute_s, memory_s=memory_s, collective_s=collective_s, launches=launches)


def engine_time(op: Operator, price: OperatorCost, constants: InferenceConstants) -> Number:
    """Return the seconds of one execution between other kernels, the gap before the next one included."""
    c = constants
    gap_s = c.kernel_gap_s * op.kernels
    match op:
        case MatrixVector():
            legs = (price.memory_s / c.vector_memory_fraction, price.time_s * UNIT_BANDWIDTH / c.vector_unit_bandwidth)
            own_s = overlapped(*legs)
            return np.where(np.less_equal(op.m, op.most_rows), own_s, price.time_s * c.matmul_slowdown) + gap_s
        case Matmul():
            slowdown = c.matmul_slowdown
            if op.dtype == "nvfp4":
                slowdown = slowdown * c.nvfp4_slowdown
            elif op.kernel == "fp8-block":
                slowdown = slowdown * c.fp8_block_slowdown
            return price.time_s * slowdown + gap_s
        case CachedAttention() | SelectedAttention():
            slowdown = c.decode_attention_slowdown if op.decode else c.prefill_attention_slowdown
            return price.time_s * slowdown + gap_s
        case GroupedMatmul():
            slowdown = c.experts_slowdown if op.decode else c.prefill_experts_slowdown
            return price.time_s * slowdown + gap_s
        case Collective():
            return price.time_s * c.collective_slowdown + (price.time_s > 0.0) * c.meeting_s
        case _:
            return price.time_s * c.elementwise_slowdown + gap_s

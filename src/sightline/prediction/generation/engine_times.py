"""What an inference engine makes of its operators' prices: slowdowns by what an operator is, and gaps between kernels."""

from collections.abc import Iterable

from sightline.cost.matmul.dense import overlapped
from sightline.cost.matmul.prices import UNIT_BANDWIDTH
from sightline.cost.operator_cost import OperatorCost
from sightline.cost.prices import Prices
from sightline.prediction.engine_constants import InferenceConstants
from sightline.program import CachedAttention, Collective, GroupedMatmul, Matmul, MatrixVector, Operator
from sightline.program.mixer_operators import SelectedAttention
from sightline.quantities import Number, either


def in_engine(operators: Iterable[Operator], prices: Prices, constants: InferenceConstants) -> Prices:
    """Return the prices of operators between other kernels, the gap before the next one included."""
    found: Prices = {}
    for op in operators:
        cost = prices[id(op)]
        found[id(op)] = OperatorCost(_time_s(op, cost, constants), cost.compute_s, cost.memory_s)
    return found


def _time_s(op: Operator, cost: OperatorCost, c: InferenceConstants) -> Number:
    if isinstance(op, Collective):
        return cost.time_s * c.collective_slowdown + (cost.time_s > 0.0) * c.meeting_s
    gap_s = c.kernel_gap_s * op.kernels
    if isinstance(op, MatrixVector):
        legs = (cost.memory_s / c.vector_memory_fraction, cost.time_s * UNIT_BANDWIDTH / c.vector_unit_bandwidth)
        few_rows = op.m <= op.most_rows
        return either(few_rows, overlapped(*legs), cost.time_s * c.matmul_slowdown) + gap_s
    return cost.time_s * _slowdown(op, c) + gap_s


def _slowdown(op: Operator, c: InferenceConstants) -> float:
    """Time of an operator inside an engine's pass over that of the operator alone."""
    if isinstance(op, Matmul):
        if op.dtype == "nvfp4":
            return c.matmul_slowdown * c.nvfp4_slowdown
        return c.matmul_slowdown * (c.fp8_block_slowdown if op.kernel == "fp8-block" else 1.0)
    if isinstance(op, CachedAttention | SelectedAttention):
        return c.decode_attention_slowdown if op.decode else c.prefill_attention_slowdown
    if isinstance(op, GroupedMatmul):
        return c.experts_slowdown if op.decode else c.prefill_experts_slowdown
    return c.elementwise_slowdown

"""Replicas whose samples differ in length: all wait for the one that got the longest."""

import numpy as np

from sightline.cost.prices import Prices
from sightline.prediction.pass_times import seconds_of
from sightline.prediction.training.sizes import layer_sum
from sightline.prediction.training.stages import StageContents
from sightline.program import Block, FlashAttention, Program
from sightline.program.routing import largest_of
from sightline.quantities import Number
from sightline.scenario import Scenario


def waiting_s(
    scenario: Scenario, program: Program, prices: Prices, stage: StageContents, slot_s: Number, micro_batches: Number
) -> Number:
    """Return the seconds by which the slowest replica's step is expected to outlast the mean one's.

    ``slot_s`` is a micro-batch on the pace-setting ``stage``. Work that scatters by a relative deviation from row to row
    does so by 1 / sqrt(n) of it over the n rows (packed) or micro-batches (padded) of a replica's step; the largest of d
    such sums lies a few deviations up. All of a padded micro-batch scatters, of packed rows only attention does. Left
    out: that micro-batches of different length lengthen a pipeline's bubble, and batches sorted by length.
    """
    workload, plan = scenario.workload, scenario.plan
    if workload.lengths is None:
        return 0.0
    spread = workload.rows(plan.sequences).spread
    work_s, drawn = slot_s, micro_batches
    if workload.packing:
        work_s = layer_sum(stage, [_attention_s(block, prices) for block in program.layers])
        drawn = micro_batches * plan.sequences
    deviations = largest_of(np.asarray(plan.data_parallel, dtype=float))
    return deviations * spread / np.sqrt(drawn) * micro_batches * work_s


def _attention_s(block: Block, prices: Prices) -> Number:
    """Seconds of a layer's fused attention in all passes; kernels that write scores work on whole rows."""
    once, again = (
        seconds_of([op for op in operators if isinstance(op, FlashAttention)], prices)
        for operators in ((*block.forward, *block.backward), block.recomputed)
    )
    return once + block.recomputed_share * again

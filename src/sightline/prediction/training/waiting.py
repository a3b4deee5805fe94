"""Waiting of ranks for each other: for the slowest device, and for the replica with the longest samples.

Replicas compute the same and meet once per step, so a step ends with the slowest. Where something scatters by a
relative deviation ``s``, the slowest of ``n`` lies ``s c(n)`` above the mean, with ``c(n)`` the expected largest of
``n`` normal variables (`largest_of`): 0 for one, 1.4 for 8, 3.2 for 1,024 and 4.0 for 16,384.
"""

from functools import lru_cache

import numpy as np

from sightline.cost.prices import Prices
from sightline.prediction.pass_times import seconds_of
from sightline.prediction.training.micro_batch import Slot
from sightline.prediction.training.stages import StageContents, layer_sum
from sightline.program import Block, FlashAttention, Program
from sightline.program.routing import largest_of
from sightline.quantities import Count, Number, larger
from sightline.scenario import Scenario

DEVICE_SPREAD = 0.01
"""Relative deviation of the time that equal devices take for the same work: leakage and cooling set each one's clock.

Published: 9 % between the fastest and the slowest of 64,000 GPUs in training (PRISM, arXiv 2510.15596), which are 8.7
deviations of a normal variable, so 1.0 %; 8 % between the ends of a box plot's whiskers on five clusters of V100 and
MI60 (arXiv 2208.11035), which are 5.4 deviations, so 1.5 %; 0.4 % from one group of four tensor-parallel ranks to the
next in two traces of training (arXiv 2505.05713, its artifact), so 0.6 % of a device. Estimated from the three.
"""


def for_slowest_device_s(devices: Count, slot: Slot, micro_batches: Number) -> Number:
    """Return the seconds by which a step on ``devices`` outlasts that of the mean device; exactly 0 for one.

    ``m max(s c(n) w - h, 0)``: in each of ``m`` micro-batches the slowest device lags by ``s c(n)`` of its work ``w``,
    less the time ``h`` that devices wait for their hosts. A device is slow throughout, so it does not
    matter where the others meet it: in the collectives of its tensor-parallel group, as the next stage of a pipeline,
    or in the reduction of gradients. Its delay is handed on from there and shows once in the step. Left out: machines
    far out of line, which are taken out of a run (0.5 % of them, 10 % slower, in arXiv 2402.15627), slow phases that
    last minutes, and scatter from one micro-batch to the next, most of which comes from the samples.
    """
    behind = DEVICE_SPREAD * (
        largest_of(devices.astype(float)) if isinstance(devices, np.ndarray) else _largest_of(devices)
    )
    hidden_s = slot.forward_wait_s + slot.backward_wait_s
    work_s = slot.forward.work_s + slot.recompute.work_s + slot.backward.work_s
    return micro_batches * larger(behind * work_s - hidden_s, 0.0)


@lru_cache(maxsize=256)
def _largest_of(devices: float) -> float:
    return float(largest_of(devices))


def for_longest_samples_s(
    scenario: Scenario, program: Program, prices: Prices, stage: StageContents, slot_s: Number, micro_batches: Number
) -> Number:
    """Return the seconds by which the slowest replica's step is expected to outlast the mean one's.

    ``slot_s`` is a micro-batch on the pace-setting ``stage``. Work that scatters by a relative deviation from row to
    row does so by 1 / sqrt(n) of it over the n rows (packed) or micro-batches (padded) of a replica's step; the largest
    of d such sums lies a few deviations up. All of a padded micro-batch scatters, of packed rows only attention does.
    Left out: that micro-batches of different length lengthen a pipeline's bubble, and batches sorted by length.
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

"""Pipeline schedules in closed form: layers of the stages, length of the pipeline, micro-batches in flight.

Symbols: ``p`` stages, ``m`` micro-batches, ``v`` virtual stages (chunks of layers per stage). Sources: GPipe
(arXiv 1811.06965); 1F1B and interleaved 1F1B (Narayanan 2021, arXiv 2104.04473); activations in flight (Korthikanti
2022, arXiv 2205.05198). The simulation next to this module plays the schedules out and is what these forms are tested
against.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from sightline.quantities import Count, Number, anywhere, either, larger, smaller
from sightline.scenario import LayerKind, Plan
from sightline.scenario.plan import Schedule

T = TypeVar("T")


class Stages(NamedTuple, Generic[T]):
    """What the first, the heaviest middle and the last stage have; those that a shorter pipeline lacks hold nothing."""

    first: T
    middle: T
    last: T


class PipelineTime(NamedTuple):
    """Seconds of a step's forward and backward passes on a pipeline."""

    work_s: Number
    """The pace-setting stage's passes."""
    transfer_s: Number
    """Part of the total in which the pace-setting stage hands activations over, outside the bubble."""
    bubble_s: Number
    """Part of the total in which it waits; exactly 0 for one stage."""
    overlapped_s: Number = 0.0
    """A message that overlaps with passes of other chunks; 0 where messages do not."""

    @property
    def total_s(self) -> Number:
        """All of it."""
        return self.work_s + self.transfer_s + self.bubble_s


def layers_of_stages(layers: int, stages: Count, ends: tuple[int, ...] | None = None) -> Stages[Number]:
    """Return how the layers fall on the stages.

    Where the stages divide the layers, equally. Elsewhere embedding and head count as a unit each, and layers + 2 units
    are spread evenly, the surplus on middle stages (a last one that finds none goes to the first stage): 70 layers on
    12 stages are 5, 6, ..., 6, 5, as in BLOOM. With ``ends``, so many units before and behind the layers always count,
    and the surplus is on the first stages.
    """
    p = stages
    if ends is not None:
        base, surplus = divmod(layers + sum(ends), p)
        first = either(p == 1, layers, larger(base + (surplus > 0) - ends[0], 0))
        last = larger(base - ends[1], 0) * (p > 1)
        return Stages(first, smaller(base + (surplus > 1), layers - first - last), last)
    base, surplus = divmod(layers + 2, p)
    even = layers % p == 0
    quotient = layers / p
    return Stages(
        first=either(even, quotient, base - 1 + (surplus == p - 1)),
        middle=either(even, quotient, base + (surplus > 0)),
        last=either(even, quotient, base - 1) * (p > 1),
    )


def kinds_of_stages(kinds: Sequence[LayerKind], layers: Stages[Number], stages: Count) -> Stages[tuple[Number, ...]]:
    """Return how the layers of each kind fall on the stages.

    Leading kinds fill the first stage; all others alternate, so that a stage has its share of each, a fraction where
    they do not divide. Middle stages are taken as equals: leading layers that the first has no room for are spread.
    """
    p = stages
    total = sum(kind.count for kind in kinds)
    alternating = sum(kind.count for kind in kinds if not kind.leading)
    room, first = layers.first, []
    for kind in kinds:
        taken = smaller(kind.count, room) if kind.leading else 0.0
        first.append(taken)
        room = room - taken
    first = [
        taken + (not kind.leading) * room * kind.count / max(alternating, 1)
        for taken, kind in zip(first, kinds, strict=True)
    ]
    last = [
        either(p == 2, kind.count - taken, (not kind.leading) * layers.last * kind.count / max(alternating, 1))
        for taken, kind in zip(first, kinds, strict=True)
    ]
    between = larger(total - layers.first - layers.last, 1)
    middle = [
        (kind.count - head - tail) * (p > 2) * layers.middle / between
        for head, tail, kind in zip(first, last, kinds, strict=True)
    ]
    return Stages(tuple(first), tuple(middle), tuple(last))


def stage_layers(layers: int, stages: int, ends: tuple[int, ...] | None = None) -> list[int]:
    """Return the layers of each stage in order, by the rule of `layers_of_stages`."""
    if ends is not None:
        base, surplus = divmod(layers + sum(ends), stages)
        cuts = [min(max(i * base + min(i, surplus) - ends[0], 0), layers) for i in range(stages + 1)]
        return [b - a for a, b in pairwise(cuts)]
    if layers % stages == 0:
        return [layers // stages] * stages
    base, surplus = divmod(layers + 2, stages)
    in_middle = min(surplus, stages - 2)
    middle = [base + (i < in_middle) for i in range(stages - 2)]
    return [base - 1 + (surplus - in_middle), *middle, base - 1]


def pipeline_time(
    slowest_s: Number,
    through_s: Number,
    stages: Count,
    micro_batches: Number,
    virtual_stages: Count,
    transfer_s: Number = 0.0,
    apart_s: Number = 0.0,
) -> PipelineTime:
    """Return the length of a pipeline: m t_max + (sum t_i - t_max) / v, plus transfers.

    ``slowest_s`` is the slowest stage's forward and backward pass of one micro-batch, ``through_s`` the sum over
    stages, ``transfer_s`` one message between neighbours that blocks its sender (0 where transfers overlap with
    compute). The slowest stage works without pause on m micro-batches; before its first and after its last one, one
    micro-batch passes through the other stages, in chunks of 1 / v. Fewer micro-batches than stages leave a stage idle
    between chunks as well, until one micro-batch takes the whole way: (1 - 1/v) (p - m) / (p - 1) of the other stages'
    time. A middle stage sends twice per micro-batch and chunk, and 2 (p - 1) messages fill and drain. ``apart_s`` is
    what of the other stages' time does not hold a micro-batch up (`run_apart`).

    Exact for equal stages (bubble (p - 1) / (v m) of the ideal time), also with a heavier last one; within 1 % with
    transfers of 1 % of a slot. Left out: lighter stages behind the slowest one, where 1F1B ends earlier (by up to 6 %
    at m = p and 2 % at m = 4 p, on average 0.4 and 0.2 %), and forward and backward passes that are slowest on
    different stages, which lengthen GPipe (by up to 16 % for passes that vary by +-30 %) and the interleaved schedule
    (8 %).
    """
    p, v = stages, virtual_stages
    idle_between = (1.0 - 1.0 / v) * (larger(p - micro_batches, 0) / larger(p - 1, 1))
    sent_s = transfer_s * 2.0 * micro_batches * v * (p > 1)
    fixed_s = transfer_s * 2.0 * larger(p - 2, 0) - apart_s
    filling_s = (through_s - slowest_s) * (1.0 / v + idle_between) + fixed_s
    return PipelineTime(work_s=micro_batches * slowest_s, transfer_s=sent_s, bubble_s=filling_s)


def overlapped_transfers(
    transfer_s: Number,
    forward_s: Number,
    backward_s: Number,
    stages: Count,
    micro_batches: Number,
    virtual_stages: Count,
) -> tuple[Number, Number]:
    """Return what shows of messages that overlap with passes of other chunks: seconds of sending, and of filling.

    Only between warm-up and flush has a stage another chunk to work on meanwhile (Megatron-Core's
    ``overlap_p2p_comm``; its ``overlap_p2p_comm_warmup_flush`` is off by default). The last stage's warm-up are
    (v - 1) min(p, m) chunks, each of which waits for its message, in the flush as many again; 2 (p - 1) messages fill
    and drain the pipeline. Of the others shows what outlasts a chunk's pass, ``forward_s / v`` or ``backward_s / v``.
    """
    p, v = stages, virtual_stages
    alone = (v - 1.0) * smaller(p, micro_batches)
    beyond_s = larger(transfer_s - forward_s / v, 0.0) + larger(transfer_s - backward_s / v, 0.0)
    sent_s = 2.0 * alone * transfer_s + (micro_batches * v - alone) * beyond_s
    return (p > 1) * sent_s, (p > 1) * 2.0 * (p - 1.0) * transfer_s


def outlasted_passes_s(
    message_s: Number, pass_s: Number, stages: Count, micro_batches: Number, virtual_stages: Count
) -> Number:
    """Return the seconds of a step's forward or backward passes behind overlapped messages that take longer.

    ``pass_s`` is a micro-batch's on all chunks of a stage; between warm-up and flush as in ``overlapped_transfers``.
    """
    chunk_s = pass_s / virtual_stages
    between = micro_batches * virtual_stages - (virtual_stages - 1.0) * smaller(stages, micro_batches)
    return (stages > 1) * between * (message_s > chunk_s) * chunk_s


def run_apart(weight_s: Number, forward_s: Number, input_s: Number, stages: Count, micro_batches: Number) -> Number:
    """Return the seconds by which zero bubble shortens the filling of 1F1B: W + min(F, B, W) (min(p, m) - 1) / (p - 1).

    ``weight_s`` (W), ``forward_s`` (F) and ``input_s`` (B) are sums over the stages but the slowest one: a
    micro-batch's weight gradients, its forward pass, and its backward pass without weight gradients. These do not lie
    on a micro-batch's way, and those of earlier micro-batches fill the time in which a stage waits for a gradient, a
    pass long, as far as there are any.

    Exact for equal stages; for m >= p and the shortest W the bubble is (p - 1) (F + B - W), as the source has it.
    """
    p = stages
    filling = (smaller(p, micro_batches) - 1.0) / larger(p - 1, 1)
    return weight_s + smaller(weight_s, smaller(forward_s, input_s)) * filling


def in_flight(
    stages: Count, micro_batches: Number, virtual_stages: Count, schedule: Schedule | NDArray[np.str_]
) -> Stages[Number]:
    """Return the micro-batches whose activations the first, second and last stage hold at their peak.

    GPipe holds all m; 1F1B p - i on stage i; the interleaved schedule its warm-up of 2 (p - 1 - i) + (v - 1) p chunks
    and one more, in units of v chunks: p + (p - 1) / v on the first stage; where p does not divide m, the last group
    of p + m mod p micro-batches (m below p) takes the place of (v - 1) p. Zero bubble holds p on every stage, since
    later ones keep activations for their weight gradients; DualPipe p + 1 (arXiv 2412.19437). Never more than m.
    """
    if isinstance(schedule, np.ndarray):
        return _in_flight_of_several(stages, micro_batches, virtual_stages, schedule)
    p, m, v = stages, micro_batches, virtual_stages
    first = held_before(p - 1, p, m, v, schedule)
    if schedule not in ("1f1b", "interleaved"):
        return Stages(first, first, first)
    return Stages(first, *(held_before(behind, p, m, v, schedule) for behind in (larger(p - 2, 0), 0)))


def held_before(
    behind: Count, stages: Count, micro_batches: Number, virtual_stages: Count, schedule: Schedule
) -> Number:
    """Return the micro-batches in flight on a stage that has so many ``behind`` it: see `in_flight`."""
    p, v = stages, virtual_stages
    if schedule in ("zero-bubble", "dualpipe"):
        return smaller(p + ((p > 1) if schedule == "dualpipe" else 0), micro_batches)
    if schedule == "gpipe":
        return micro_batches
    chunks = behind + 1
    if anywhere(v > 1):
        group = micro_batches % p + p * (micro_batches >= p)
        chunks = either(v > 1, 2 * behind + (v - 1) * group + 1, chunks)
    return smaller(chunks / v, micro_batches)


def _in_flight_of_several(
    stages: Count, micro_batches: Number, virtual_stages: Count, schedules: NDArray[np.str_]
) -> Stages[Number]:
    """The same where every plan has its own schedule."""
    counts = in_flight(stages, micro_batches, virtual_stages, "1f1b")
    for schedule in ("gpipe", "zero-bubble"):
        here: Any = schedules == schedule
        other = in_flight(stages, micro_batches, virtual_stages, schedule)
        counts = Stages(*(either(here, a, b) for a, b in zip(other, counts, strict=True)))
    return counts


def dualpipe_bubble_s(backward_s: Number, weight_s: Number, both_s: Number, stages: Count) -> Number:
    """Return the idle seconds of a device under DualPipe (arXiv 2412.19437): (p/2 - 1) (F&B + B - 3 W), never below 0.

    ``backward_s`` holds the weight gradients, ``weight_s``; ``both_s`` is a forward and a backward pass that run
    together. For an even number of stages p and 2 p or more micro-batches. Exact where forward pass, input and weight
    gradients take equally long; elsewhere the schedule played out idles less, by up to about a pass.
    """
    return larger((stages / 2.0 - 1.0) * (both_s + backward_s - 3.0 * weight_s), 0.0) * (stages > 1)


def stage_replicas(plan: Plan) -> Number:
    """Devices of a pipeline that hold the same stage: 2 under DualPipe, which sends micro-batches both ways, else 1."""
    return 1.0 + (plan.pipeline_parallel > 1) if plan.both_ways else 1.0

"""Tensor and sequence parallelism: the collectives they add around the sharded projections.

Megatron (arXiv 1909.08053) sums the partial products of the row-split projections; sequence parallelism (arXiv
2205.05198) replaces each all-reduce by an all-gather and a reduce-scatter of the same total volume. Degree 1 adds
nothing.
"""

from typing import Final, NamedTuple

from sightline.program.operators import Module, Operator, OverlappedWith, collective
from sightline.program.program import moving
from sightline.program.shapes import Shapes, TrainingShapes
from sightline.program.techniques.low_precision import gathered_share
from sightline.quantities import Number, anywhere


def enter_region(x: TrainingShapes, module: Module) -> list[Operator]:
    """Forward before a column-split projection: with sequence parallelism the sequence is gathered.

    Below 16 bits it is quantized first.
    """
    return gathered(x, module, x.hidden_bytes * gathered_share(x))


def reenter_region(x: TrainingShapes, module: Module) -> list[Operator]:
    """Backward beside the input gradient of a column-split projection: its input is gathered again, unless kept whole.

    Frozen weights have no gradient, and an adapter next to them has kept what was gathered for it.
    """
    if not x.trained.projections or x.framework.native.keeps_gathered_inputs:
        return []
    beside: OverlappedWith = "projections" if x.framework.is_bound else "input gradient"
    return gathered(x, module, x.hidden_bytes * gathered_share(x), beside)


def leave_region(x: TrainingShapes, module: Module) -> list[Operator]:
    """Forward after a row-split projection: partial sums are reduced, scattered with sequence parallelism.

    Where that moves in chunks, every rank finds a piece of each other's, which it adds up in a kernel of its own.
    """
    operators = summed(x, module, x.hidden_bytes)
    if not x.framework.native.chunked_products or not anywhere(x.split):
        return operators
    traffic = x.hidden_bytes + x.residual_bytes
    return [*operators, moving(module, "pieces summed", traffic, count=x.split)]


def leave_backward(
    x: TrainingShapes, module: Module, *, trained: bool, joined: bool = True, each: int = 1
) -> list[Operator]:
    """Backward after a column-split projection: input gradients are reduced while the weight gradient is made.

    Weights that are not ``trained`` have none, so nothing is left to overlap with (TransformerEngine's
    `layernorm_linear.py`). Where collectives are cut together with the input gradient's product, a gradient that is a
    sum over separate projections, not ``joined``, leaves none to cut. There are ``each`` gradients to reduce without
    sequence parallelism.
    """
    overlapped_with: OverlappedWith = "weight gradient" if trained else "nothing"
    if trained and (x.framework.native.chunked_products or x.framework.is_bound):
        overlapped_with = "projections" if joined else "nothing"
    return summed(x, module, x.hidden_bytes, overlapped_with, each)


def gathered(
    x: TrainingShapes, module: Module, size: Number, overlapped_with: OverlappedWith = "projections"
) -> list[Operator]:
    """Return how a tensor of ``size`` bytes that sequence parallelism has split is gathered."""
    return collective(module, "all_gather", size, x.split, overlapped_with=overlapped_with)


def summed(
    x: TrainingShapes, module: Module, size: Number, overlapped_with: OverlappedWith = "projections", each: int = 1
) -> list[Operator]:
    """Return how partial sums of ``size`` bytes are added up: ``each`` of so many, or all scattered as one.

    Sequence parallelism scatters.
    """
    if not anywhere(x.t > 1):
        return []
    whole = (x.t > 1) * (1.0 - x.split) * each
    return [
        *collective(module, "all_reduce", size, whole, overlapped_with=overlapped_with),
        *collective(module, "reduce_scatter", size, x.split, overlapped_with=overlapped_with),
    ]


def handed_on_in_shares(x: Shapes, size: Number) -> list[Operator]:
    """Return how a tensor-parallel rank sends its share of an activation of ``size`` bytes to the next stage."""
    return collective("residual", "send_recv", size / x.t, ranks="stages", overlapped_with="nothing")


def handed_on(x: TrainingShapes, size: Number) -> list[Operator]:
    """Return how an activation of ``size`` bytes reaches the next stage from all ranks of one.

    With sequence parallelism each has its piece. Without, each sends the whole, or a share that is gathered there
    (Megatron-LM's ``scatter_gather_tensors_in_pipeline``, DeepSpeed's ``PartitionedTensor``).
    """
    if x.framework.sharding.whole_boundaries:
        return collective("residual", "send_recv", size / x.r, ranks="stages", overlapped_with="nothing")
    gathers = (x.t > 1) * (1.0 - x.split)
    gather = collective("residual", "all_gather", size, gathers, overlapped_with="nothing")
    return [*handed_on_in_shares(x, size), *gather]


SHARDS_WEIGHTS: Final = 3
"""The ZeRO stage that gathers weights for every pass, frozen ones too."""


class HookCalls(NamedTuple):
    """Calls of the host around a product, in launches that take as long."""

    forward: Number
    backward: Number


def hook_calls(x: TrainingShapes, *, trained: bool, weights: int = 1) -> HookCalls:
    """Return what hooks call for a product's ``weights``, which run as one; frozen ones have no gradient to reduce."""
    engine, stage = x.framework.zero_engine, x.plan.zero_stage
    gathered = engine.gather_calls * (stage == SHARDS_WEIGHTS)
    reduced = sum((calls * (stage == zero) for zero, calls in engine.reduce_calls.items()), 0.0)
    return HookCalls(forward=gathered * weights, backward=(gathered + reduced * trained) * weights)

"""What hooks of ZeRO's Python engine cost the host: they gather every weight, copy its gradient and free it."""

from typing import NamedTuple

from sightline.program.shapes import TrainingShapes
from sightline.quantities import Number


class HookCalls(NamedTuple):
    """Calls of the host for one weight, in launches that take as long."""

    forward: Number
    backward: Number


def hook_calls(x: TrainingShapes, *, trained: bool) -> HookCalls:
    """Return what hooks call for a weight in a forward and in a backward pass; a frozen one has no gradient."""
    engine, stage = x.framework.zero_engine, x.plan.zero_stage
    after = {zero: calls for zero, calls in engine.reduce_calls.items() if trained or zero == SHARDS_WEIGHTS}
    return HookCalls(
        forward=engine.gather_calls * (stage == SHARDS_WEIGHTS),
        backward=sum((calls * (stage == zero) for zero, calls in after.items()), 0.0),
    )


SHARDS_WEIGHTS = 3
"""The ZeRO stage whose hooks run around frozen weights too."""

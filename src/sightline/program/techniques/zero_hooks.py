"""What hooks of ZeRO's Python engine cost the host: they gather every weight, copy its gradient and free it."""

from typing import Final, NamedTuple

from sightline.program.shapes import TrainingShapes
from sightline.quantities import Number

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

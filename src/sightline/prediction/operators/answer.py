"""What the prediction of any single operator returns, and how it follows from a cost."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sightline.cost.families import PROCESSOR, Evidence, half_width
from sightline.cost.operator_cost import OperatorCost
from sightline.prediction.levels import bound_of
from sightline.quantities import Number, as_python
from sightline.scenario import Device

if TYPE_CHECKING:
    from sightline.cost.processor.model import ProcessorModel

FROM_MEMORY = 1.0
"""Operands that are measured alone take turns, so that none is found in a processor's cache."""


class OperatorAnswer(NamedTuple):
    """Seconds, work, what bounds it and what that rests on."""

    time_s: Number
    flops: Number
    bytes: Number
    bound: Any
    bound_level: Any
    """The level of the machine that binds (``LEVELS``)."""
    evidence: Evidence
    half_width: Number
    """Of the 80 % interval, as a natural logarithm."""
    warnings: tuple[str, ...] = ()


def on_roofline(
    cost: OperatorCost,
    flops_per_s: Number,
    device: Device,
    evidence: Evidence,
    half_width: Number,
    crossing_s: Number = 0.0,
) -> OperatorAnswer:
    """FLOPs and bytes are the roofline's legs times the datasheet's rates, so that they are what was priced.

    ``crossing_s`` is the leg of the bytes across L2, which a processor has none of.
    Both are whole: a division by a rate and its undoing may leave a last digit.
    """
    bound = np.where(np.greater(cost.compute_s, cost.memory_s), "compute", "memory")
    return OperatorAnswer(
        cost.time_s,
        np.rint(cost.compute_s * flops_per_s),
        np.rint(cost.memory_s * device.memory_bandwidth),
        as_python(bound),
        bound_of(cost, crossing_s).level,
        evidence,
        half_width,
    )


def chosen(mask: Any, one: OperatorAnswer, other: OperatorAnswer) -> OperatorAnswer:
    """Of two answers to arrays of sizes the one where ``mask`` holds, elsewhere the other.

    The evidence is the weaker of both.
    """
    ranks: tuple[Evidence, ...] = ("calibrated", "extrapolated", "datasheet")
    names = ("time_s", "flops", "bytes", "bound", "bound_level", "half_width")
    figures = {name: np.where(mask, getattr(one, name), getattr(other, name)) for name in names}
    evidence = max(one.evidence, other.evidence, key=ranks.index)
    return OperatorAnswer(**figures, evidence=evidence, warnings=tuple(dict.fromkeys((*one.warnings, *other.warnings))))


def on_processor(cost: OperatorCost, kind: str, dtype: str, model: "ProcessorModel") -> OperatorAnswer:
    """The answer of a processor's formulas, with the errors of families that their fit did not see."""
    path = ("residuals", f"{dtype} {kind}, forward")
    evidence = model.evidence(kind)
    width = half_width(model.device, PROCESSOR, path, ("family left out", "fit"), evidence)
    return on_roofline(cost, model.device.peak_flops[dtype], model.device, evidence, width)

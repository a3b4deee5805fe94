"""Anchors so far from what is predicted that their unit or their scenario must be wrong."""

from math import exp, log

from sightline.cost.device_model import device_model
from sightline.errors import InputError
from sightline.prediction.anchoring.posterior import Posterior

FARTHEST = 5.0
"""Factor between what was measured and predicted beyond which an anchor is refused: clusters differ by far less."""
LARGER, SMALLER = ((1e3, "ms"), (1e6, "us")), ((60.0, "minutes"), (3600.0, "hours"))
"""Units that seconds may be taken for, by the factor that makes the number larger, or smaller."""


def check(found: Posterior | None) -> None:
    """Refuse anchors that are too far from their predictions; processors, which are known by far less, are left out.

    Raises:
        InputError: Some anchor is too far; all of them at once.
    """
    if found is None:
        return
    problems = []
    for one, logarithm in zip(found.timed, found.expected, strict=True):
        predicted = exp(float(logarithm))
        ratio = one.seconds / predicted
        if (
            abs(log(ratio)) <= max(one.sensitivity, 1.0) * log(FARTHEST)
            or not device_model(one.scenario.cluster.device).asynchronous
        ):
            continue
        problems.append(
            f"anchor '{one.name}' measured {one.quantity} {one.seconds:.4g} s; predicted {predicted:.4g} s: "
            f"{_question(ratio)}"
        )
    if problems:
        raise InputError(problems)


def _question(ratio: float) -> str:
    """What may explain a factor between measured and predicted."""
    size = max(ratio, 1.0 / ratio)
    near = (unit for factor, unit in (LARGER if ratio > 1 else SMALLER) if factor / 3 <= size <= factor * 3)
    unit = next(near, None)
    return "is its unit right, and its scenario what ran?" if unit is None else f"is it in {unit}?"

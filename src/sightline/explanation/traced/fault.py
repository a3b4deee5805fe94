"""Something that a traced step need not spend."""

from typing import NamedTuple

from sightline.explanation.traced.figures import Figures
from sightline.prediction.changes import seconds
from sightline.quantities import percent


class Fault(NamedTuple):
    """Something that a step need not spend."""

    gain_s: float
    sentence: str
    """The finding and what to do; what the step would take without it is added."""
    set: dict[str, object]
    command: str = ""


def part(figures: Figures, part_s: float) -> str:
    """Return some seconds of the step, and their share of it, in words."""
    return f"{seconds(part_s)} of {seconds(figures.whole_s)} ({percent(part_s / figures.whole_s)})"

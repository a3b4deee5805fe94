"""Loads: the requests of a serving scenario, drawn or read from a trace, in parts that fit in memory."""

from collections.abc import Callable, Iterator

from sightline.scenario import ServingScenario
from sightline.simulation.load.drawn import drawn_parts
from sightline.simulation.load.lengths import MeanLengths, mean_lengths
from sightline.simulation.requests import Requests

PART = 65_536
"""Requests of a part."""

__all__ = ["PART", "MeanLengths", "load_of", "mean_lengths"]


def _ignore(_: str) -> None:
    pass


def load_of(
    scenario: ServingScenario, part: int = PART, on_remark: Callable[[str], None] = _ignore
) -> Iterator[Requests]:
    """Yield the requests of a scenario, in order of arrival, in parts of ``part`` requests.

    The parts put together are the same whatever their size. At another rate the same random numbers are used: lengths
    are equal and gaps are scaled. ``on_remark`` takes sentences about what of a trace was left out.

    Raises:
        InputError: The trace cannot be read, or a row of it is wrong.
    """
    workload, plan = scenario.workload, scenario.plan
    if workload.trace is None:
        yield from drawn_parts(workload, plan, part)
        return
    # Only a load from a file needs readers of files.
    from sightline.simulation.load.replayed import replayed_parts

    yield from replayed_parts(workload, plan, workload.trace, part, on_remark)

"""A serving engine under a load."""

from collections.abc import Mapping
from typing import Any, Final

from sightline.errors import InputError
from sightline.progress import Progress
from sightline.web.work import checked, found

OPTIONS: Final = ("capacity", "intervals")
"""Options of ``sightline simulate`` that a request may give."""
MOST_LOADS: Final = 16


def work(mapping: Mapping[str, Any], options: Mapping[str, Any], progress: Progress) -> Mapping[str, Any]:
    """Return the figures of one load, or of a sweep of them."""
    from sightline.anchors.at_capacity import simulated
    from sightline.report.pages.profiles import profiles_piece
    from sightline.scenario import ServingScenario
    from sightline.web.asked import read

    given = checked("simulate", options, OPTIONS)
    loaded = read([mapping], MOST_LOADS)
    loads = [one for one in loaded.scenarios if isinstance(one, ServingScenario)]
    others = {one.workload.task for one in loaded.scenarios} - {"serve"}
    if others:
        raise InputError(f"workload.task is {', '.join(sorted(others))}; simulate takes serve, predict the others")
    capacity, intervals = bool(given.get("capacity")), bool(given.get("intervals", True))
    answers, capacities = simulated(loads, progress, capacity=capacity, intervals=intervals)
    documents = [answer.to_dict() for answer in answers]
    shown = [one.profile for one in capacities[0].tried] if len(capacities) == 1 else answers
    return found(documents if loaded.is_list else documents[0], profiles_piece(shown, loaded.cells[: len(shown)]))

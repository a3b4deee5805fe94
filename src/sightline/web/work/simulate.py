"""A serving engine under a load."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from sightline.errors import InputError
from sightline.progress import Progress
from sightline.web.work import checked, found

if TYPE_CHECKING:
    from sightline.loading.loader import Loaded
    from sightline.profile import Profile
    from sightline.scenario import ServingScenario

OPTIONS: Final = ("capacity", "intervals", "think_time")
"""Options of ``sightline simulate`` that a request may give, and the time for which users think."""
MOST_LOADS: Final = 16
MOST_REQUESTS: Final = 100_000
"""Of all loads together."""
_MOST_ROWS: Final = 20_000
"""Requests up to which there is a file of them."""


def work(mapping: Mapping[str, Any], options: Mapping[str, Any], progress: Progress) -> Mapping[str, Any]:
    """Return the figures of one load, or of a sweep of them."""
    from sightline.anchors.answers import simulated
    from sightline.answers.loads import serving_outline
    from sightline.render.html import outline_piece

    given = checked("simulate", options, OPTIONS)
    loaded, loads = check(mapping, given)
    capacity, intervals = bool(given.get("capacity")), bool(given.get("intervals", True))
    answers, capacities = simulated(loads, progress, capacity=capacity, intervals=intervals)
    documents = [answer.to_dict() for answer in answers]
    outline = serving_outline(answers, capacities, loaded.cells[: len(answers)], think_s=_think_s(given))
    return {**found(documents if loaded.is_list else documents[0], outline_piece(outline)), "files": _files(answers)}


def check(mapping: Mapping[str, Any], options: Mapping[str, Any]) -> "tuple[Loaded, list[ServingScenario]]":
    """Return the loads that are asked for; raise `InputError` with the mistakes that are found before they run."""
    from sightline.anchors.answers import loads_of
    from sightline.web.request import read

    loaded = read([mapping], MOST_LOADS)
    loads = loads_of(loaded.scenarios)
    shapes = [one.workload.requests for one in loads]
    count = sum(int(shape.count) for shape in shapes if shape is not None)
    if count > MOST_REQUESTS:
        said = f"workload.requests.count comes to {count:,} requests of all loads"
        raise InputError(f"{said}; allowed here: up to {MOST_REQUESTS:,}; the command line has no limit")
    if options.get("capacity") and any(one.workload.slo is None for one in loads):
        raise InputError("workload.slo is missing; the highest rate needs a limit: ttft, tpot or latency")
    _think_s(options)
    return loaded, loads


def _think_s(options: Mapping[str, Any]) -> float:
    from sightline.planning.plan_limits import read_amount
    from sightline.quantities import SECONDS

    stated = options.get("think_time")
    return 0.0 if stated is None else read_amount("think_time", stated, SECONDS, zero=True)


def _files(answers: "list[Profile]") -> Mapping[str, str]:
    """What became of each request, where one load was asked for and its rows were kept."""
    outcome = answers[0].outcome if len(answers) == 1 else None
    if outcome is None or len(outcome.requests) > _MOST_ROWS:
        return {}
    from sightline.simulation.results.figures import request_table

    return {"requests.csv": request_table(outcome).write_csv()}

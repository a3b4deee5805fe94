"""``plan``: the best plans for the free fields of a scenario."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from sightline.errors import InputError
from sightline.loading.input.sources import read_source
from sightline.loading.loader import Overrides
from sightline.planning.answer import PlanAnswer
from sightline.planning.requests.command import plan_command
from sightline.planning.requests.spaces import counted, priced, spaces_of
from sightline.progress import SILENT, Progress
from sightline.scenario import GenerationScenario, Scenario
from sightline.scenario.space import Space

if TYPE_CHECKING:
    from sightline.prediction.anchoring import Anchored

USUAL_TOP, USUAL_ON_FRONT = 10, 15
"""Plans that are returned where nobody says how many: the best, and of a Pareto front."""


def plan(
    source: object,
    *,
    free: Iterable[str] | None = None,
    objective: str = "time",
    pareto: Sequence[str] | None = None,
    top: int | None = None,
    max_memory: object = None,
    launchable: bool = False,
    devices: Sequence[str] = (),
    deadline: object = None,
    budget: object = None,
    ttft: object = None,
    tpot: object = None,
    prices: Iterable[str] | Mapping[str, float] = (),
    availability: object = None,
    anchor: "Anchored | None" = None,
    overrides: Overrides = (),
    workers: str | None = None,
    where: str | None = None,
    progress: Progress = SILENT,
) -> PlanAnswer:
    """Return the best plans for the free fields of a scenario, and how many there were.

    Args:
        source: A scenario as `sightline.load` takes it, with ``{any: [...]}`` or ``{from, to, factor}`` where a field
            is restricted; or a `Scenario`, all of whose fields in ``free`` are searched.
        free: Fields of the plan to search, next to those that the source restricts; default: those that it leaves out.
        objective: time, cost, energy, memory or batch; of generation also throughput, latency, ... (`OBJECTIVES` of
            `sightline.planning.generation.objectives`).
        pareto: Two objectives instead; the answer's ``pareto`` are the Pareto-optimal plans.
        top: Plans to return, by default 10; of a Pareto front at most, by default 15, its ends among them.
        max_memory: Bytes of a device that a plan may take, such as "70 GB".
        launchable: Leave out what the framework does not offer today, or its launch cannot run.
        devices: Names of devices, "<count>x <device>" or "8..1024x <device>", to search instead of the scenario's.
        deadline: Time on the calendar that the run may take, such as "30d".
        budget: Dollars that the run may cost, such as "1M".
        ttft: Time to the first token that users may wait at most, such as "300 ms".
        tpot: Time per further token at most, such as "10 ms".
        prices: "NAME=USD_PER_HOUR" in place of the catalog's.
        availability: Share of the calendar time in which the run makes progress.
        anchor: What runs on one's own cluster teach; corrects the figures of the plans that are returned.
        overrides: Values by dotted key, as ``--set`` takes them.
        workers: Who searches: "local:8", "ray", "dask:tcp://node0:8786", ...; default: this process.
        where: A folder or URL that keeps what is found part by part, so that a search that was stopped goes on there.
        progress: Told how far the search is; when it is cancelled the best until then are returned.

    Raises:
        InputError: every mistake in the request.
    """
    start = perf_counter()
    read = source if isinstance(source, Scenario | GenerationScenario) else read_source(source)
    devices = counted(devices, read, overrides)
    spaces, given = priced(spaces_of(read, free, devices, overrides), prices)
    serving = [isinstance(space.scenario, GenerationScenario) for space in spaces]
    if any(serving) and not all(serving):
        raise InputError("scenarios have the workload.task of training and of generation; allowed: one kind at a time")
    asked: dict[str, Any] = {"objective": objective, "pareto": pareto, "top": _count(top, pareto)}
    asked |= {"max_memory": max_memory, "anchor": anchor, "progress": progress}
    of_training: dict[str, Any] = {"deadline": deadline, "budget": budget, "availability": availability}
    of_training |= {"workers": workers, "where": where, "launchable": launchable}
    of_serving: dict[str, Any] = {"ttft": ttft, "tpot": tpot}
    typed: dict[str, object] = {"objective": objective if objective != "time" else None}
    if any(serving):
        _refuse(of_training, "training; workload.task is generate")
        from sightline.planning.requests.generation import plan_generation

        command = plan_command(source, overrides, devices, given, typed)
        answer = plan_generation(spaces, **asked, **of_serving, command=command)
    else:
        _refuse(of_serving, "workload.task generate; this one is training")
        from sightline.planning.requests.training import plan_training

        typed |= {"max-memory": max_memory, "availability": availability, "launchable": launchable}
        command = plan_command(source, overrides, devices, given, typed)
        answer = plan_training(spaces, **asked, **of_training, command=command)
    return _finished(answer, spaces, start)


def _refuse(options: Mapping[str, object], what_for: str) -> None:
    """Refuse options that are for another kind of task."""
    stated = [name for name, value in options.items() if value is not None and value is not False]
    if stated:
        raise InputError([f"{name} is for {what_for}" for name in stated])


def _count(top: int | None, pareto: Sequence[str] | None) -> int:
    """How many plans are returned."""
    if top is None:
        return USUAL_TOP if pareto is None else USUAL_ON_FRONT
    if top < 1:
        raise InputError(f"top is {top}; allowed: a whole number of 1 or more")
    return top


def _finished(answer: PlanAnswer, spaces: Sequence[Space[Any]], start: float) -> PlanAnswer:
    """The answer with what was left out of the request, and the seconds since the start."""
    left_out = (warning for space in spaces for warning in space.warnings)
    return replace(answer, warnings=tuple(dict.fromkeys((*left_out, *answer.warnings))), seconds=perf_counter() - start)

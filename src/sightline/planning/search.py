"""``plan``: the best plans for the free fields of a scenario."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from sightline.errors import InputError
from sightline.loading.input.sources import read_source
from sightline.loading.loader import Overrides, read_overrides
from sightline.planning.answer import PlanAnswer
from sightline.planning.limits import by_key, read_limits
from sightline.planning.requests.command import plan_command
from sightline.planning.requests.spaces import counted, priced, spaces_of
from sightline.progress import SILENT, Progress, watched
from sightline.scenario import GenerationScenario, Scenario, ServingScenario
from sightline.scenario.space import Space

if TYPE_CHECKING:
    from sightline.prediction.anchoring import Anchored

USUAL_TOP, USUAL_ON_FRONT = 10, 15
"""Plans that are returned where nobody says how many: the best, and of a Pareto front."""


@watched
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
    think_time: object = None,
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
            `sightline.planning.generation.objectives`); of a load goodput, cost, users or energy.
        pareto: Two objectives instead; the answer's ``pareto`` are the Pareto-optimal plans.
        top: Plans to return, by default 10, of a load 5; of a Pareto front at most, by default 15, its ends among them.
        max_memory: Bytes of a device that a plan may take, such as "70 GB".
        launchable: Leave out what the framework does not offer today, or its launch cannot run.
        devices: Names of devices, "<count>x <device>" or "8..1024x <device>", to search instead of the scenario's.
        deadline: Time on the calendar that the run may take, such as "30d".
        budget: Dollars that the run may cost, such as "1M".
        ttft: Time to the first token that users may wait at most, such as "300 ms".
        tpot: Time per further token at most, such as "10 ms".
        think_time: Time that a user of a load takes between an answer and the next request, such as "30 s".
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
    if len(kinds := {type(space.scenario) for space in spaces}) > 1:
        raise InputError("scenarios have the workload.task of training and of generation; allowed: one kind at a time")
    (kind,) = kinds
    number = _count(top, pareto)
    asked: dict[str, Any] = {"objective": objective, "pareto": pareto, "top": number}
    asked |= {"anchor": anchor, "progress": progress}
    of_memory: dict[str, Any] = {"max_memory": max_memory}
    of_training: dict[str, Any] = {"deadline": deadline, "budget": budget, "availability": availability}
    of_training |= {"workers": workers, "where": where}
    of_users: dict[str, Any] = {"ttft": ttft, "tpot": tpot}
    typed: dict[str, object] = {"objective": objective if objective != "time" else None, "launchable": launchable}
    if kind is not Scenario and launchable:
        from sightline.planning.generation.space import launched

        spaces = [launched(space) for space in spaces]
    if kind is ServingScenario:
        _refuse_of_loads(asked | of_memory | of_training)
        from sightline.planning.requests.serving import plan_serving

        limits = {f"workload.slo.{name}": value for name, value in of_users.items() if value is not None}
        typed |= {"think-time": think_time}
        command = plan_command(source, {**read_overrides(overrides), **limits}, devices, given, typed)
        told: dict[str, Any] = {"objective": objective, "top": None if top is None else number, "progress": progress}
        answer = plan_serving(spaces, **told, of_users=of_users, think_time=think_time, command=command)
    elif kind is GenerationScenario:
        _refuse(of_training, "training; workload.task is generate")
        _refuse({"think_time": think_time}, "workload.task serve; this one is generate")
        from sightline.planning.requests.generation import plan_generation

        command = plan_command(source, overrides, devices, given, typed)
        answer = plan_generation(spaces, **asked, limits=of_memory | of_users, command=command)
    else:
        _refuse(of_users, "workload.task generate and serve; this one is training")
        _refuse({"think_time": think_time}, "workload.task serve; this one is training")
        from sightline.planning.requests.training import plan_training

        typed |= {"max-memory": max_memory, "availability": availability}
        command = plan_command(source, overrides, devices, given, typed)
        answer = plan_training(spaces, **asked, **of_memory, **of_training, launchable=launchable, command=command)
    of_all = {"deadline": deadline, "budget": budget, "max_memory": max_memory, **of_users}
    return replace(_finished(answer, spaces, start), limits=by_key(read_limits(**of_all)))


def _refuse(options: Mapping[str, object], what_for: str) -> None:
    """Refuse options that are for another kind of task."""
    stated = [name for name, value in options.items() if value is not None and value is not False]
    if stated:
        raise InputError([f"{name} is for {what_for}" for name in stated])


_NOT_OF_LOADS = {
    "pareto": "is for training and workload.task generate; of a load only the layouts that promise the most by one "
    "objective are simulated",
    "max_memory": "is for training and workload.task generate; an engine that serves takes its share of a device, "
    "plan.memory_fraction, whatever it serves",
    "anchor": "is for training and workload.task generate; `sightline simulate --anchor` corrects one plan that serves",
    "deadline": "is for training; a load has no end",
    "budget": "is for training; a service is rented by the hour, and objective cost finds the least rent",
    "availability": "is for training; a load is served while all devices run",
    "workers": "is for training; a search of plans that serve runs in one process",
    "where": "is for training; a search of plans that serve keeps no parts",
}
"""Why options of other tasks are refused where a load is served."""


def _refuse_of_loads(options: Mapping[str, object]) -> None:
    stated = [name for name in _NOT_OF_LOADS if options[name] is not None]
    if stated:
        raise InputError([f"{name} {_NOT_OF_LOADS[name]}; workload.task is serve" for name in stated])


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

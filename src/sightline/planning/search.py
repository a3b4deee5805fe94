"""``plan``: the best plans for the free fields of a scenario."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sightline.errors import InputError
from sightline.loading import to_mapping
from sightline.loading.clusters import read_cluster
from sightline.loading.foreign import read_known
from sightline.loading.loader import Overrides, read_overrides
from sightline.planning.plan_answer import PlanAnswer
from sightline.planning.plan_limits import Command, Options, by_key, read_limits
from sightline.planning.request_spaces import (
    counted,
    in_other_frameworks,
    launched,
    plan_command,
    priced,
    spaces_of,
    unlaunchable,
)
from sightline.progress import SILENT, Progress, watched
from sightline.quantities import show
from sightline.scenario import GenerationScenario, Scenario, ServingScenario
from sightline.scenario.space import Space, choices_of

if TYPE_CHECKING:
    from sightline.prediction.anchoring import Anchored

USUAL_TOP, USUAL_ON_FRONT = 10, 15
"""Plans that are returned where nobody says how many: the best, and of a Pareto front."""
MOST_TOP = 1_000
"""Plans that may be asked for: each is predicted in full, with its interval and its table."""


@watched
def plan(
    source: object,
    *,
    free: Iterable[str] | None = None,
    objective: str = "time",
    pareto: Sequence[str] | None = None,
    top: int | None = None,
    max_memory: object = None,
    launchable: bool = True,
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
            `sightline.planning.generation_objectives`); of a load goodput, cost, users or energy.
        pareto: Two objectives instead; the answer's ``pareto`` are the Pareto-optimal plans.
        top: Plans to return, by default 10, of a load 5; of a Pareto front at most, by default 15, its ends among them.
            At most 1,000.
        max_memory: Bytes of a device that a plan may take, such as "70 GB".
        launchable: Search only plans that the framework offers today and its launch can run; False adds the others,
            each with what keeps it from being launched.
        devices: Names of devices, "<count>x <device>" or "8..1024x <device>", to search instead of the scenario's.
        deadline: Time on the calendar that the run may take, such as "30d".
        budget: Dollars that the run may cost, such as "1M".
        ttft: Time to the first token that users may wait at most, such as "300 ms".
        tpot: Time per further token at most, such as "10 ms".
        think_time: Time that a user of a load takes between an answer and the next request, such as "30 s".
        prices: "NAME=USD_PER_HOUR" in place of the catalog's.
        availability: Share of the calendar time in which the run makes progress.
        anchor: What runs on one's own cluster teach; corrects their figures, by which they are then ranked.
        overrides: Values by dotted key, as ``--set`` takes them.
        workers: Who searches: "local:8", "ray", "dask:tcp://node0:8786", ...; default: this process.
        where: A folder or URL that keeps what is found part by part, so that a search that was stopped goes on there.
        progress: Told how far the search is; when it is cancelled the best until then are returned.

    Raises:
        InputError: every mistake in the request.
    """
    start = perf_counter()
    read = source if isinstance(source, Scenario | GenerationScenario) else read_known(source)
    try:
        devices = counted(devices, read, overrides)
        for name in devices:
            read_cluster(name)
    except InputError as error:
        if not devices:
            raise
        raise InputError([f"devices: {problem.removeprefix('cluster.')}" for problem in error.problems]) from None
    spaces, given = priced(spaces_of(read, free, devices, overrides), prices)
    kind = _kind_of(spaces)
    spaces = launched(spaces) if launchable else [replace(space, launchable=False) for space in spaces]
    options = {
        "objective": objective,
        "pareto": pareto,
        "top": _count(top, pareto) if kind is not ServingScenario or top is not None else None,
        "max_memory": max_memory,
        "launchable": launchable,
        "deadline": deadline,
        "budget": budget,
        "ttft": ttft,
        "tpot": tpot,
        "think_time": think_time,
        "availability": availability,
        "anchor": anchor,
        "workers": workers,
        "where": where,
    }
    _refuse_others(kind, options)
    typed = {"objective": objective if objective != "time" else None, "all": not launchable}

    def command(further: Mapping[str, object], settings: Mapping[str, object] = MappingProxyType({})) -> str:
        return plan_command(source, {**read_overrides(overrides), **settings}, devices, given, {**typed, **further})

    def others() -> list[Space[Any]]:
        found, _ = priced(in_other_frameworks(spaces, overrides, partial(spaces_of, read, free, devices)), prices)
        return [replace(space, launchable=launchable) for space in found]

    search = _search_of(kind, others)
    answer = search(spaces, options, command, progress)
    if not (answer.stopped or any(launchable or one.launchable for one in answer.plans)):
        own, further = [replace(space, launchable=True) for space in spaces], others()
        if further and (launchable or not search(own, {**options, "where": None}, command, progress).plans):
            spaces = further
            beside = where and f"{where.rstrip('/')}/other-frameworks"
            answer = search(spaces, {**options, "where": beside}, command, progress)
    if launchable and not (answer.plans or answer.stopped):
        answer = replace(answer, warnings=(*answer.warnings, *unlaunchable(spaces)))
    limits = {name: options[name] for name in ("deadline", "budget", "max_memory", "ttft", "tpot")}
    return replace(_finished(answer, spaces, start), limits=by_key(read_limits(**limits)))


def _kind_of(spaces: Sequence[Space[Any]]) -> type:
    """The only kind of scenario that is searched."""
    kinds = {type(space.scenario) for space in spaces}
    if len(kinds) > 1:
        raise InputError("the scenarios mix training and generation; allowed: one of them")
    return kinds.pop()


def _search_of(
    kind: type, others: Callable[[], list[Space[Any]]]
) -> Callable[[Sequence[Space[Any]], Options, Command, Progress], PlanAnswer]:
    """What searches for the best plans of a kind of scenario, loaded when it is asked for.

    ``others`` are the spaces of training in every framework, where none is named.
    """
    if kind is ServingScenario:
        from sightline.planning.serving.ranked import plan_serving

        return plan_serving
    if kind is GenerationScenario:
        from sightline.planning.generation_request import plan_generation

        return plan_generation
    from sightline.planning.training_request import plan_training

    return partial(plan_training, others=others)


_REFUSED: Mapping[type, Mapping[str, str]] = {
    Scenario: {
        **dict.fromkeys(("ttft", "tpot"), "applies to workload.task generate and serve, not to training"),
        "think_time": "applies to workload.task serve, not to training",
    },
    GenerationScenario: {
        **dict.fromkeys(
            ("deadline", "budget", "availability", "workers", "where"),
            "applies to training, not to workload.task generate",
        ),
        "think_time": "applies to workload.task serve, not to generate",
    },
    ServingScenario: {
        "pareto": "applies to training and workload.task generate; for serving, only the most promising layouts for "
        "one objective are simulated",
        "max_memory": "applies to training and workload.task generate; a serving engine always takes "
        "plan.memory_fraction of the device",
        "anchor": "applies to training and workload.task generate; correct one serving plan with `sightline simulate "
        "--anchor`",
        "deadline": "applies to training",
        "budget": "applies to training; use objective cost for the cheapest service",
        "availability": "applies to training",
        "workers": "applies to training; a serving search runs in one process",
        "where": "applies to training; a serving search saves no parts",
    },
}
"""Why options are refused that are for other tasks, by kind of scenario."""


def _refuse_others(kind: type, options: Options) -> None:
    """Refuse options that are for another kind of task."""
    end = " (workload.task is serve)" if kind is ServingScenario else ""
    stated = {name: why for name, why in _REFUSED[kind].items() if options[name] is not None}
    if stated:
        raise InputError([f"{name} {why}{end}" for name, why in stated.items()])


def _count(top: int | None, pareto: Sequence[str] | None) -> int:
    """How many plans are returned."""
    if top is None:
        return USUAL_TOP if pareto is None else USUAL_ON_FRONT
    if not 1 <= top <= MOST_TOP:
        raise InputError(f"top is {show(top)}; allowed: a whole number from 1 to {MOST_TOP:,}")
    return top


def _finished(answer: PlanAnswer, spaces: Sequence[Space[Any]], start: float) -> PlanAnswer:
    """The answer with what was left out of the request and not searched, and the seconds since the start."""
    left_out = (warning for space in spaces for warning in space.warnings)
    first = answer.plans[0].profile.scenario if answer.plans else spaces[0].scenario
    searched = {key.removeprefix("plan.").partition(".")[0] for key in answer.free}
    written = to_mapping(first)["plan"]
    return replace(
        answer,
        held_fixed={f"plan.{name}": written.get(name) for name in choices_of(first) if name not in searched},
        warnings=tuple(dict.fromkeys((*left_out, *answer.warnings))),
        seconds=perf_counter() - start,
    )

"""``plan``: the best plans for the free fields of a scenario."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.content import content, fields_of
from sightline.errors import InputError, nearest
from sightline.loading.loader import Overrides, read_overrides
from sightline.loading.spaces import load_spaces
from sightline.planning.answer import PlanAnswer, RankedPlan
from sightline.planning.devices import with_counts
from sightline.planning.fronts import front_of, spread_over
from sightline.planning.limits import read_limit
from sightline.planning.prices import read_prices, said_of_price, with_prices
from sightline.planning.training.best import Candidate
from sightline.planning.training.candidates import resolved
from sightline.planning.training.money import read_availability, read_limits
from sightline.planning.training.objectives import OBJECTIVES, UNCERTAIN, Measure, check_objective, shown_value
from sightline.planning.training.one_space import Crowd, Request, search_space
from sightline.planning.training.ranking import SAME, in_order, with_ties
from sightline.planning.training.search import Counts
from sightline.planning.training.validity import OFFERED
from sightline.planning.why.explained import explained
from sightline.planning.why.options import as_options
from sightline.prediction import needs_equal_devices, predict
from sightline.progress import SILENT, Progress
from sightline.quantities import BYTES, show
from sightline.scenario import GenerationScenario, OperatorScenario, Scenario
from sightline.scenario.rules import facts_of
from sightline.scenario.rules.rulebook import broken_rules
from sightline.scenario.space import TRAINING_FIELDS, Space

if TYPE_CHECKING:
    from sightline.prediction.anchoring import Anchored

USUAL_TOP, USUAL_ON_FRONT = 10, 15
"""Plans that are returned where nobody says how many: the best, and of a Pareto front."""
_LARGEST_ARRAY = 1_000_000
"""Elements of arrays that questions are compared by."""


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
        free: Fields of the plan to search; default: those that the source leaves out.
        objective: time, cost, energy, memory or batch; of generation also throughput, latency, ... (`OBJECTIVES` of
            `sightline.planning.generation.objectives`).
        pareto: Two objectives instead; the answer's ``pareto`` are the Pareto-optimal plans.
        top: Plans to return, by default 10; of a Pareto front at most, by default 15, its ends among them.
        max_memory: Bytes of a device that a plan may take, such as "70 GB".
        launchable: Leave out what the framework does not offer today.
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
    devices = with_counts(devices, lambda: _counts(source, overrides))
    spaces = _spaces(source, free, devices, overrides)
    if any(isinstance(space.scenario, OperatorScenario) for space in spaces):
        raise InputError("workload.task is operator, which has no plan; allowed: pretrain, finetune, generate")
    own = {part.device.name for space in spaces for part in space.scenario.cluster.parts}
    given = prices if isinstance(prices, Mapping) else read_prices(prices, own)
    spaces = [replace(space, scenario=with_prices(space.scenario, given)) for space in spaces]
    asked = {"objective": objective if objective != "time" else None, "max-memory": max_memory}
    typed = _typed(source, overrides, devices, {**asked, "availability": availability}, given, launchable=launchable)
    if any(isinstance(space.scenario, GenerationScenario) for space in spaces):
        _check_generation(
            spaces,
            deadline=deadline,
            budget=budget,
            availability=availability,
            workers=workers,
            where=where,
            launchable=launchable or None,
        )
        from sightline.planning.generation.request import plan_generation

        answer = plan_generation(
            spaces,
            objective=objective,
            pareto=pareto,
            top=_count(top, pareto),
            max_memory=max_memory,
            ttft=ttft,
            tpot=tpot,
            known=anchor,
            command=_typed(source, overrides, devices, {"objective": asked["objective"]}, given),
            progress=progress,
        )
        return _finished(answer, spaces, start)
    request = Request(
        objective=check_objective(objective),
        pareto=_pareto(pareto),
        top=_count(top, pareto),
        max_memory=None if max_memory is None else read_limit("max_memory", max_memory, BYTES),
        launchable=launchable,
        limits=read_limits(deadline, budget),
        availability=read_availability(availability),
        known=anchor,
    )
    _check(spaces, request, ttft=ttft, tpot=tpot)
    if any(space.scenario.cluster.groups for space in spaces):
        if workers is not None or where is not None:
            _refuse_on_unlike_devices(spaces, "workers" if workers is not None else "where")
        return _finished(_on_unlike_devices(spaces, request, progress), spaces, start)
    spaces = together(spaces)
    crowd = None if workers is None and where is None else Crowd(workers=workers, where=where)
    found = _answer(spaces, request, crowd, progress)
    if not (found.evaluated or found.rejected or found.stopped):
        _refuse_contradictions(spaces)
    answer = explained(
        found,
        spaces,
        predict=partial(predict, anchor=anchor),
        command=typed,
        limits=request.limits,
        availability=request.availability,
        max_memory=request.max_memory,
    )
    return _finished(answer, spaces, start)


def _finished(answer: PlanAnswer, spaces: Sequence[Space[Any]], start: float) -> PlanAnswer:
    """The answer with what was left out of the request, and the seconds since the start."""
    left_out = (warning for space in spaces for warning in space.warnings)
    return replace(answer, warnings=tuple(dict.fromkeys((*left_out, *answer.warnings))), seconds=perf_counter() - start)


def _refuse_contradictions(spaces: Sequence[Space[Scenario]]) -> None:
    """Refuse fixed fields that leave no candidate, by the rules that they break."""
    from sightline.planning.training.contradictions import contradictions

    if problems := contradictions(spaces):
        raise InputError(problems)


def _on_unlike_devices(spaces: Sequence[Space[Scenario]], request: Request, progress: Progress) -> PlanAnswer:
    """The answer of a single space whose cluster has several kinds of devices."""
    from sightline.planning.kinds import spaces_of_one_kind
    from sightline.planning.training.mixed import Wanted, plan_mixed

    if len(spaces) > 1:
        raise InputError("cluster.devices lists unlike devices in one of several clusters; allowed: that cluster alone")
    if spaces[0].at_most:
        raise InputError("workload.global_batch is at_most; allowed on unlike devices: a whole number")
    if request.known is not None:
        needs_equal_devices(spaces[0].scenario.cluster, "what own runs teach")
    wanted = Wanted(
        objective=request.objective,
        pareto=request.pareto,
        top=request.top,
        max_memory=request.max_memory,
        launchable=request.launchable,
        limits=request.limits,
        availability=request.availability,
    )
    alone = spaces_of_one_kind(spaces[0])
    found = _answer(alone, request, None, progress)
    answer = plan_mixed(spaces[0], wanted, found, progress)
    if not (answer.evaluated or found.rejected or answer.stopped):
        _refuse_contradictions(alone or spaces)
    return answer


def _refuse_on_unlike_devices(spaces: Sequence[Space[Any]], name: str) -> None:
    """Refuse an option that only searches on equal devices have."""
    words = next(space.scenario.cluster.in_words for space in spaces if space.scenario.cluster.groups)
    raise InputError(f"{name} is for searches on equal devices; cluster.devices is {words}")


def _typed(
    source: object,
    overrides: Overrides,
    devices: Sequence[str],
    asked: Mapping[str, object],
    prices: Mapping[str, float],
    *,
    launchable: bool = False,
) -> str:
    """The command that asks for the source; devices are a setting, which a later one of the cluster replaces."""
    named = isinstance(source, PathLike) or (isinstance(source, str) and "\n" not in source)
    file = shlex.quote(str(source)) if named else "FILE"
    words = ["sightline plan", file, *as_options({**read_overrides(overrides), **_cluster_of(devices)})]
    words += [f"--{name} {shlex.quote(str(value))}" for name, value in asked.items() if value is not None]
    words += [f"--price {shlex.quote(f'{name}={price:g}')}" for name, price in prices.items()]
    return " ".join([*words, *(["--launchable"] if launchable else [])])


def _cluster_of(devices: Sequence[str]) -> dict[str, Any]:
    """The setting that stands for devices."""
    if not devices:
        return {}
    return {"cluster": devices[0] if len(devices) == 1 else {"any": list(devices)}}


def _counts(source: object, overrides: Overrides) -> list[int]:
    """Devices of the clusters that a source states, each count once."""
    spaces = _spaces(source, None, (), overrides)
    return list(dict.fromkeys(space.scenario.cluster.devices for space in spaces))


def _pareto(axes: Sequence[str] | None) -> tuple[str, str] | None:
    if axes is None:
        return None
    if len(axes) != 2 or axes[0] == axes[1]:
        raise InputError(f"pareto is {show(','.join(axes))}; allowed: two of {', '.join(OBJECTIVES)}")
    return check_objective(axes[0]), check_objective(axes[1])


def _count(top: int | None, pareto: Sequence[str] | None) -> int:
    """How many plans are returned."""
    if top is None:
        return USUAL_TOP if pareto is None else USUAL_ON_FRONT
    if top < 1:
        raise InputError(f"top is {top}; allowed: a whole number of 1 or more")
    return top


def _spaces(
    source: object, free: Iterable[str] | None, devices: Sequence[str], overrides: Overrides
) -> list[Space[Any]]:
    if isinstance(source, Scenario | GenerationScenario):
        return [_opened(source, free)]
    spaces = load_spaces(source, {**read_overrides(overrides), **_cluster_of(devices)})
    if free is None:
        return spaces
    return [replace(_opened(space.scenario, free), warnings=space.warnings) for space in spaces]


def together(spaces: Sequence[Space[Any]]) -> list[Space[Any]]:
    """Return fewer spaces: those that differ in nothing but the number of devices are searched at once."""
    alike: dict[Any, list[Space[Any]]] = {}
    for space in spaces:
        question = space.scenario
        cluster = replace(question.cluster, devices=0, name="")
        fixed = {name: value for name, value in fields_of(question.plan).items() if name not in space.values}
        parts = (cluster, question.model, question.workload, fixed)
        same = tuple(content(part, _LARGEST_ARRAY) for part in parts)
        others = {key: value for key, value in space.options.items() if key.partition(".")[0] != "cluster"}
        free = dict(space.values)
        key = (same, str(others), str(free), isinstance(question, Scenario) or id(space))
        alike.setdefault(key, []).append(space)
    return [_joined(several) for several in alike.values()]


def _joined(spaces: Sequence[Space[Any]]) -> Space[Any]:
    first, *others = spaces
    if not others:
        return first
    sizes = {space.scenario.cluster.devices: space.scenario.cluster for space in spaces}
    return replace(first, clusters=tuple(sizes[count] for count in sorted(sizes)))


def _opened(scenario: Scenario | GenerationScenario, free: Iterable[str] | None) -> Space[Any]:
    """The space of a scenario with some of its plan's fields free; all others have the values they have."""
    if isinstance(scenario, GenerationScenario):
        from sightline.planning.generation.request import opened

        return opened(scenario, free)
    names = tuple(TRAINING_FIELDS if free is None else free)
    wrong = [name for name in names if name not in TRAINING_FIELDS]
    if wrong:
        raise InputError(
            [f"free names {show(n)}; allowed: {', '.join(TRAINING_FIELDS)}{nearest(n, TRAINING_FIELDS)}" for n in wrong]
        )
    fixed = {name: (getattr(scenario.plan, name),) for name in TRAINING_FIELDS if name not in names}
    if "data_parallel" in fixed and {"tensor_parallel", "pipeline_parallel", "context_parallel"} & set(names):
        del fixed["data_parallel"]
    if fixed.get("micro_batch") == (None,):
        del fixed["micro_batch"]
    values: dict[str, tuple[Any, ...] | None] = {name: fixed.get(name) for name in TRAINING_FIELDS}
    return Space(scenario=scenario, values=values)


def _check_generation(spaces: Sequence[Space[Any]], **of_training: object) -> None:
    """Refuse what cannot be asked of generation."""
    if not all(isinstance(space.scenario, GenerationScenario) for space in spaces):
        raise InputError("scenarios have the workload.task of training and of generation; allowed: one kind at a time")
    stated = [name for name, value in of_training.items() if value is not None]
    if stated:
        raise InputError([f"{name} is for training; workload.task is generate" for name in stated])


def _check(spaces: Sequence[Space[Any]], request: Request, **of_generation: object) -> None:
    """Refuse what cannot be asked together."""
    limits = request.limits
    stated = [name for name, value in of_generation.items() if value is not None]
    if stated:
        raise InputError([f"{name} is for workload.task generate; this one is training" for name in stated])
    lacking = [space for space in spaces if space.scenario.workload.total_tokens is None]
    if lacking and (limits.deadline_s is not None or limits.budget_usd is not None):
        name = "deadline" if limits.deadline_s is not None else "budget"
        raise InputError(f"{name} needs workload.total_tokens: how many tokens the whole run is trained on")


def _answer(spaces: Sequence[Space[Scenario]], request: Request, crowd: Crowd | None, progress: Progress) -> PlanAnswer:
    """Search every space, and join what they found."""
    if crowd is None:
        parts = [search_space(space, request, progress=progress) for space in spaces]
    else:
        from sightline.planning.training.distributed import search_spaces

        parts = search_spaces(spaces, request, crowd, progress)
    counts = Counts()
    found = []
    for space, (counted, kept) in zip(spaces, parts, strict=True):
        measure = Measure(space=space, availability=request.availability)
        counts = counts.joined(counted)
        found += [(measure, candidate) for candidate in kept]
    plans = _ranked(found, request)
    of_scenarios = (warning for space in spaces for warning in space.scenario.warnings)
    return PlanAnswer(
        objective=request.objective,
        evaluated=counts.evaluated,
        feasible=counts.feasible,
        rejected=counts.rejected,
        seconds=0.0,
        plans=plans,
        pareto_axes=request.pareto,
        pareto=tuple(range(len(plans))) if request.pareto else (),
        free=tuple(dict.fromkeys(name for space in spaces for name in (*space.options, *space.free))),
        assumptions=_assumptions(spaces),
        warnings=tuple(dict.fromkeys((*of_scenarios, *_without_plans(spaces, [counted for counted, _ in parts])))),
        stopped=counts.stopped,
    )


def _without_plans(spaces: Sequence[Space[Scenario]], counts: Sequence[Counts]) -> Iterator[str]:
    """Yield a sentence for each value beside the mesh that no valid plan has, where another has some."""
    are_there = [bool(one.evaluated or one.stopped or one.not_evaluated) for one in counts]
    if not any(are_there):
        return
    for key in dict.fromkeys(key for space in spaces if not space.clusters for key in space.options):
        having = {str(space.options[key]) for space, there in zip(spaces, are_there, strict=True) if there}
        values = dict.fromkeys(show(space.options[key]) for space in spaces if str(space.options[key]) not in having)
        yield from (f"{key} {value} has no valid plan" for value in values)


def _ranked(found: Sequence[tuple[Measure, Candidate]], request: Request) -> list[RankedPlan]:
    """The best of what was found, each predicted."""
    scenarios = [(measure, candidate, resolved(measure.space, candidate.fields)) for measure, candidate in found]
    if request.pareto:
        keys = np.array([candidate.keys for _, candidate, _ in scenarios]).reshape(-1, 2).T
        front = [scenarios[i] for i in front_of(keys)]
        order = [front[i] for i in spread_over([(one.keys[0], one.keys[1]) for _, one, _ in front], request.top)]
    else:
        same = SAME if request.objective in UNCERTAIN else 0.0
        order = in_order([(one[1].keys[0], one[2].plan, one) for one in scenarios], same)[: request.top]
    plans = [_plan(rank, measure, scenario, request) for rank, (measure, _, scenario) in enumerate(order, start=1)]
    return with_ties(plans, "step_time_s") if request.objective in ("time", "cost") and not request.pareto else plans


def _plan(rank: int, measure: Measure, scenario: Scenario, request: Request) -> RankedPlan:
    profile = predict(scenario, anchor=request.known)
    evaluated = measure.of_profile(profile)
    run = measure.whole_run(evaluated)
    obstacles = tuple(broken_rules(OFFERED, facts_of(scenario)))
    return RankedPlan(
        rank=rank,
        profile=profile,
        value=shown_value(request.objective, measure, evaluated),
        launchable=not obstacles,
        obstacles=obstacles,
        figures={} if run is None else {k: None if v is None else float(v) for k, v in run.figures.items()},
    )


def _assumptions(spaces: Sequence[Space[Scenario]]) -> dict[str, str]:
    devices = {space.scenario.cluster.device.name: space.scenario.cluster.device for space in spaces}
    return {f"price of {name}": said_of_price(device) for name, device in devices.items()}

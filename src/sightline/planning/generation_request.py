"""What people ask of serving plans - limits on latency and memory, objectives - read and answered."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sightline.errors import InputError
from sightline.loading.sources import with_settings
from sightline.planning.clusters import reads_back
from sightline.planning.generation.generation_search import search
from sightline.planning.generation.space import GenerationSpace
from sightline.planning.generation_objectives import ALLOWED_AXES, check_known, figure_key
from sightline.planning.plan_answer import LazySequence, NearestPlan, PlanAnswer
from sightline.planning.plan_limits import BY_KEY, Command, Options, by_key, read_limits
from sightline.planning.rationale.generation_rationale import explained_generation
from sightline.planning.request_spaces import read_axes
from sightline.prediction.generation.batch_profile import predict_generation
from sightline.progress import Progress


def plan_generation(
    spaces: Sequence[GenerationSpace], options: Options, command: Command, progress: Progress
) -> PlanAnswer:
    """Return the best plans to serve a model, as `sightline.planning.search.plan` is asked for them.

    Raises:
        InputError: every mistake in the request.
    """
    mixed = next((space.scenario.cluster for space in spaces if space.scenario.cluster.groups), None)
    anchor, typed = options["anchor"], command({})
    asked = {name: options[name] for name in ("objective", "top")}
    asked["limits"] = known = by_key(read_limits(**{name: options[name] for name in ("max_memory", "ttft", "tpot")}))
    asked["pareto"] = read_axes(options["pareto"], figure_key, ALLOWED_AXES)
    axes = asked["pareto"]
    check_known(
        spaces[0].scenario.workload, objective=() if axes else (asked["objective"],), pareto=axes or (), limit=known
    )
    if mixed is not None:
        if len(spaces) > 1 or anchor is not None:
            raise InputError(
                f"cluster has {mixed.in_words}; allowed with several clusters or anchors: devices of one type"
            )
        return _on_heterogeneous_devices(spaces[0], command=typed, progress=progress, **asked)
    found = search(spaces, **asked, anchor=anchor, progress=progress)
    near = [_relaxed(one, known, typed) for one in found.nearest]
    plans = (
        found.plans
        if anchor is None
        else [replace(plan, profile=anchor.predict(plan.profile.scenario)) for plan in found.plans]
    )
    answer = replace(found, plans=plans, nearest=near)
    predict = predict_generation if anchor is None else anchor.predict
    command_line = " ".join((typed, *_as_limits(known)))
    return explained_generation(answer, spaces, limits=known, predict=predict, command=command_line)


def _on_heterogeneous_devices(
    space: GenerationSpace, *, objective: str, limits: Mapping[str, float], command: str, **asked: Any
) -> PlanAnswer:
    """The answer where a cluster has several kinds of devices: of these together, and of each alone."""
    from sightline.planning.heterogeneous_generation import Searched, parts_of, plan_heterogeneous, with_rationale

    parts = parts_of(space)
    found, listed = plan_heterogeneous(space, parts, objective=objective, limits=limits, **asked)
    searched = Searched(objective=objective, limits=limits, parts=parts, listed=listed)
    answer = with_rationale(found, searched, command)
    if answer.plans or answer.stopped:
        return answer
    return replace(answer, nearest=LazySequence(lambda: [_relaxed(one, limits, command) for one in answer.nearest]))


def _relaxed(one: NearestPlan, limits: Mapping[str, float], command: str) -> NearestPlan:
    """The nearest plan with the limits to type, a little above what it needs; one with a command stays as it is."""
    if one.command or not reads_back(one.plan.profile.scenario.cluster):
        return one
    kept = {key: value for key, value in one.set.items() if key not in BY_KEY}
    loosened = {key: float(value) * 1.001 for key, value in one.set.items() if key in BY_KEY}
    stated = {_option(key): _typed(key, limit) for key, limit in loosened.items()}
    words = _as_limits({**limits, **loosened})
    return replace(one, set=kept | stated, command=" ".join((with_settings(command, kept), *words)))


def _as_limits(limits: Mapping[str, float]) -> Iterator[str]:
    """Yield the option of each limit."""
    yield from (f"--{_option(key)} '{_typed(key, limit)}'" for key, limit in limits.items())


def _option(key: str) -> str:
    """The option of the limit on a figure."""
    return BY_KEY[key][0].replace("_", "-")


def _typed(key: str, value: float) -> str:
    """A limit as it is typed."""
    return f"{value:.4g} {BY_KEY[key][1].unit}"

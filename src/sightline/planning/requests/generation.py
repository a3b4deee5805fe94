"""What people ask of serving plans - limits on latency and memory, objectives - read and answered."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sightline.errors import InputError
from sightline.planning.answer import NearestPlan, PlanAnswer
from sightline.planning.generation.objectives import figure_key
from sightline.planning.generation.search import search
from sightline.planning.generation.space import GenerationSpace
from sightline.planning.limits import read_limit
from sightline.planning.why.serving import explained_serving
from sightline.prediction.generation.predict import predict_generation
from sightline.progress import Progress
from sightline.quantities import BYTES, SECONDS, show

if TYPE_CHECKING:
    from sightline.prediction.anchoring import Anchored

LIMIT_OPTIONS: Mapping[str, tuple[str, str]] = {
    "ttft_s": ("--ttft", "s"),
    "tpot_s": ("--tpot", "s"),
    "memory_bytes.total": ("--max-memory", "B"),
}
"""The options by which limits are typed, and their units."""


def plan_generation(
    spaces: Sequence[GenerationSpace],
    *,
    objective: str,
    pareto: Sequence[str] | None,
    top: int,
    max_memory: object,
    ttft: object,
    tpot: object,
    anchor: "Anchored | None",
    command: str,
    progress: Progress,
) -> PlanAnswer:
    """Return the best plans to serve a model, as `sightline.planning.search.plan` is asked for them.

    Raises:
        InputError: every mistake in the request.
    """
    mixed = next((space.scenario.cluster for space in spaces if space.scenario.cluster.groups), None)
    limits = read_limits(max_memory=max_memory, ttft=ttft, tpot=tpot)
    if mixed is not None:
        from sightline.planning.generation.mixed import plan_mixed_serving

        if len(spaces) > 1 or anchor is not None:
            raise InputError(f"cluster has {mixed.in_words}; allowed with several clusters or anchors: equal devices")
        return plan_mixed_serving(
            spaces[0], objective=objective, limits=limits, top=top, pareto=_axes(pareto), progress=progress
        )
    found = search(spaces, objective, limits, top=top, pareto=_axes(pareto), progress=progress)
    near = [_relaxed(one, limits, command) for one in found.nearest]
    plans = found.plans if anchor is None else [_corrected(plan, anchor) for plan in found.plans]
    answer = replace(found, plans=plans, nearest=near)
    return explained_serving(answer, spaces, limits=limits, predict=_predict(anchor), command=command)


def _predict(known: "Anchored | None") -> Any:
    return predict_generation if known is None else known.predict


def read_limits(*, max_memory: object, ttft: object, tpot: object) -> dict[str, float]:
    """Return limits by the figures that they are on, from texts such as "300 ms"; None is no limit."""
    asked = {
        "ttft_s": ("ttft", ttft, SECONDS),
        "tpot_s": ("tpot", tpot, SECONDS),
        "memory_bytes.total": ("max_memory", max_memory, BYTES),
    }
    found: dict[str, float] = {}
    problems: list[str] = []
    for key, (name, value, dimension) in asked.items():
        try:
            if value is not None:
                found[key] = read_limit(name, value, dimension)
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return found


def _axes(pareto: Sequence[str] | None) -> tuple[str, str] | None:
    if pareto is None:
        return None
    if len(pareto) != 2 or figure_key(pareto[0]) == figure_key(pareto[1]):
        raise InputError(f"pareto is {show(','.join(pareto))}; allowed: two objectives, such as latency,throughput")
    return pareto[0], pareto[1]


def _corrected(plan: Any, known: "Anchored") -> Any:
    """A plan as own runs correct its prediction."""
    return replace(plan, profile=known.predict(plan.profile.scenario))


def _relaxed(one: NearestPlan, limits: Mapping[str, float], command: str) -> NearestPlan:
    """The nearest plan with the limits to type, a little above what it needs."""
    typed = {key: _typed(key, float(value) * 1.001) for key, value in one.set.items()}
    options = ({key: _typed(key, limit) for key, limit in limits.items()} | typed).items()
    words = (f"{LIMIT_OPTIONS[key][0]} '{value}'" for key, value in options)
    stated = {LIMIT_OPTIONS[key][0].removeprefix("--"): value for key, value in typed.items()}
    return replace(one, set=stated, command=" ".join((command, *words)))


def _typed(key: str, limit: float) -> str:
    return f"{limit:.4g} {LIMIT_OPTIONS[key][1]}"

"""Why a plan of generation is the best, and what would serve where no plan fits."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from sightline.loading.sources import with_settings
from sightline.planning.generation.evaluation import with_most_users
from sightline.planning.generation.generation_search import search
from sightline.planning.generation.space import GenerationSpace, may_be_tried
from sightline.planning.generation_objectives import FIGURES, figure_key, missed_by, more_is_better
from sightline.planning.plan_answer import LazySequence, NearestPlan, Neighbour, PlanAnswer, by_loss
from sightline.planning.plan_limits import BY_KEY
from sightline.planning.rationale.hardware import hardware_changes
from sightline.planning.rationale.relaxed import larger_clusters
from sightline.prediction.changes import candidate_changes, changed, does_not_fit, memory_needed, settings_of
from sightline.prediction.generation.batch_profile import predict_generation
from sightline.profile import Profile
from sightline.profile.metrics import metric_of
from sightline.quantities import SECONDS, format_quantity
from sightline.scenario import GenerationScenario

Limits: TypeAlias = Mapping[str, float]
"""By the result key that they are on."""
ALIKE = 1e-9
"""Loss below which a change is none."""
SEEN = 0.005
"""Share by which a latency differs for a sentence to name it."""
LATENCIES = ("ttft_s", "tpot_s")
"""Times of a plan that sentences compare, by result key."""


def explained_generation(
    answer: PlanAnswer,
    spaces: Sequence[GenerationSpace],
    *,
    limits: Limits,
    predict: Callable[[GenerationScenario], Profile] = predict_generation,
    command: str,
) -> PlanAnswer:
    """Return the answer of a search of plans of generation with why its first is the best, or what would fit instead.

    Args:
        answer: The answer.
        spaces: What was searched.
        limits: Those on latency and memory.
        predict: What predicts a plan.
        command: What was typed to ask, to which changes are added.
    """
    if answer.plans:
        best, key = answer.plans[0].profile, figure_key(answer.objective)
        return replace(
            answer,
            neighbours=LazySequence(lambda: _neighbours(best, key, limits, answer.free, predict, spaces[0])),
            hardware=LazySequence(lambda: hardware_changes(best, lambda profile: small(key, profile), predict)),
        )
    if answer.stopped:
        return answer

    def nearest() -> list[NearestPlan]:
        # Where latencies alone are missed, looser limits are known already.
        kinds = [_steady_load(spaces[0], limits), *([] if answer.nearest else kinds_of(spaces[0]))]
        return [*nearest_of(kinds, answer.objective, limits, command), *answer.nearest]

    return replace(answer, nearest=LazySequence(nearest))


def small(key: str, profile: Profile) -> Any:
    """Return a figure of which less is better: the inverse of one of which more is."""
    value: Any = FIGURES[key](profile)
    if value is None:
        return None
    return 1.0 / np.asarray(value, dtype=float) if more_is_better(key) else value


def _neighbours(
    best: Profile,
    key: str,
    limits: Limits,
    free: Collection[str],
    predict: Callable[[GenerationScenario], Profile],
    space: GenerationSpace,
) -> list[Neighbour]:
    """The obvious neighbours of the best plan, the least loss first, those without a loss last."""
    own, searched, found = float(small(key, best) or 0.0), {name.rpartition(".")[2] for name in free}, []
    for change in candidate_changes(best.scenario):
        other = changed(best.scenario, change)
        is_searched = change.keys() - {"replicas"} <= searched and not (key == "batch" and "batch" in change)
        if not (is_searched and may_be_tried(space, other)):
            continue
        stated = settings_of({name: value for name, value in change.items() if name != "replicas"})
        # Where users are counted, each plan has its own.
        profile = predict(with_most_users(other, limits) if key == "batch" else other)
        if not profile.fits:
            found.append(Neighbour(set=stated, loss=None, sentence=does_not_fit(profile)))
            continue
        its = small(key, profile)
        loss = None if not own or its is None else float(its / own - 1)
        if loss is None or abs(loss) > ALIKE:
            users = f"{profile.scenario.workload.batch:,} users, " if key == "batch" else ""
            found.append(Neighbour(set=stated, loss=loss, sentence=users + compared(best, profile, limits)))
    return by_loss(found)


def compared(best: Profile, other: Profile, limits: Limits) -> str:
    """Return both latencies beside those of the best, and the limits that are missed."""
    said = [
        f"{_latency(key, other)} instead of {format_quantity(float(getattr(best, key)), SECONDS)}"
        for key in _latencies(best)
        if abs(getattr(other, key) / getattr(best, key) - 1) >= SEEN
    ]
    missed = [key for key, limit in limits.items() if missed_by(key, FIGURES[key](other), limit) > 1]
    said += [f"misses the limit for {BY_KEY[key][1].label if key in BY_KEY else key}" for key in missed]
    return ", ".join(said) or "same latencies"


def _latencies(profile: Profile) -> list[str]:
    """The latencies that a plan has: one output token has no time per further one."""
    return [key for key in LATENCIES if getattr(profile, key) is not None]


def _latency(key: str, profile: Profile) -> str:
    return f"{metric_of(key).label} {format_quantity(float(getattr(profile, key)), SECONDS)}"


def kinds_of(space: GenerationSpace) -> list["Variations"]:
    """Return what may take less memory or less time: other formats, fewer sequences, more devices."""
    return [_formats(space), _smaller_batches(space), _more_devices(space)]


def nearest_of(kinds: Iterable["Variations"], objective: str, limits: Limits, command: str) -> Iterator[NearestPlan]:
    """Yield what meets the limits with other settings: the first of each kind."""
    for kind in kinds:
        for stated, other in kind:
            found = search([other], objective, limits, top=1)
            if found.plans:
                plan = found.plans[0]
                latencies = ", ".join(_latency(key, plan.profile) for key in _latencies(plan.profile))
                price = plan.figures.get("cost_usd_per_million_tokens")
                said = f"{memory_needed(plan.profile)}, {latencies}"
                said += "" if price is None else f", {price:.2f} USD per million tokens"
                words = with_settings(command, stated)
                yield NearestPlan(set=stated, sentence=said, plan=plan, command=words)
                break


Variations: TypeAlias = Iterator[tuple[dict[str, Any], GenerationSpace]]


def _steady_load(space: GenerationSpace, limits: Limits) -> Variations:
    """A load that comes and goes, where a batch that is sent at once misses limits on latency."""
    work = space.scenario.workload
    if not work.continuous and {"ttft_s", "tpot_s"} & set(limits):
        steady = replace(space.scenario, workload=replace(work, continuous=True))
        yield {"workload.continuous": True}, replace(space, scenario=steady)


def _formats(space: GenerationSpace) -> Variations:
    """Weights in formats that the engine and the device have, where the question fixes another."""
    if space.values.get("quantization", ()) is None:
        return
    for word in ("fp8", "w4a16"):
        offered = space.scenario.plan.engine.offers.get("quantization")
        if offered is None or word in offered:
            yield {"plan.quantization": word}, replace(space, values={**space.values, "quantization": ((word,),)})


def _smaller_batches(space: GenerationSpace) -> Variations:
    batch = int(space.scenario.workload.batch) // 2
    while batch >= 1 and "batch" not in space.values:
        work = replace(space.scenario.workload, batch=batch)
        yield {"workload.batch": batch}, replace(space, scenario=replace(space.scenario, workload=work))
        batch //= 2


def _more_devices(space: GenerationSpace) -> Variations:
    for stated, cluster in larger_clusters(space.scenario.cluster):
        yield stated, replace(space, scenario=replace(space.scenario, cluster=cluster))

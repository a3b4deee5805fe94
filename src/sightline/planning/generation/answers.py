"""What a search of serving plans found, as its answer: ranked plans with their profiles, and what it rests on."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Any, cast

from sightline.planning.answer import NearestPlan, RankedPlan
from sightline.planning.fronts import spread_over
from sightline.planning.generation.objectives import figure, within
from sightline.planning.generation.ranking import Kept, Ranked
from sightline.planning.generation.space import GenerationSpace
from sightline.planning.limits import BY_KEY
from sightline.planning.prices import price_assumptions
from sightline.prediction.generation.predict import predict_generation
from sightline.profile import MEMORY_PARTS, NumbersOnDemand, Profile
from sightline.quantities import COUNT, format_quantity
from sightline.scenario import GenerationScenario
from sightline.scenario.space import GENERATION_FIELDS, Space

_ON_DEMAND = ("phases", "limits", "energy_j", "evidence", "missing", "warnings", "rows", "interval", "advice")


def free_fields(spaces: Sequence[Space[Any]]) -> tuple[str, ...]:
    """Return the fields that were searched, restricted ones too."""
    found: list[str] = []
    for space in spaces:
        found += [*space.options, *(name for name in GENERATION_FIELDS if space.values.get(name, ()) is None)]
        found += [name for name, values in space.values.items() if values is not None and len(values) > 1]
        # Workers of their own are never stated whole in a space.
        found += ["disaggregate"] if True in (space.values.get("disaggregate") or ()) else []
    return tuple(dict.fromkeys(found))


def profile_of_kept(plan: Kept) -> Profile:
    """Return the profile of a plan: what the search compared is there, all else is predicted when it is read."""
    scenario = plan.scenario
    whole = cache(partial(predict_generation, scenario))
    parts: dict[str, Callable[[], Any]] = {name: partial(_part, whole, name) for name in (*MEMORY_PARTS, "total")}
    return Profile(
        scenario=scenario,
        source="predicted",
        ttft_s=plan.figures["ttft_s"],
        tpot_s=plan.figures["tpot_s"],
        fits=True,
        memory_bytes=NumbersOnDemand({**parts, "total": plan.figures["memory_bytes.total"]}),
        **{name: partial(_figure, whole, name) for name in _ON_DEMAND},
    )


def _part(whole: Callable[[], Profile], name: str) -> Any:
    return whole().memory_bytes[name]


def _figure(whole: Callable[[], Profile], name: str, _: Profile) -> Any:
    return getattr(whole(), name)


def ranked_plan(rank: int, key: str, one: Ranked, users: Callable[[], int] | None = None) -> RankedPlan:
    """Return a plan in its place; ``users`` works out the most that it serves at a time."""
    question = one.plan.variant.scenario
    figures: dict[str, Any] = {**one.plan.figures, **rent_of(question, one.plan.figures["cost_usd_per_million_tokens"])}
    return RankedPlan(
        rank=rank,
        profile=profile_of_kept(one.plan),
        value=one.plan.figures[key],
        tied=one.tied,
        better=one.better,
        figures=cast(Any, NumbersOnDemand(figures if users is None else {**figures, "most_users": users})),
    )


def rent_of(question: GenerationScenario, per_million_usd: float | None) -> dict[str, float | None]:
    """Return an hour's rent and the rent per million tokens: of those generated, and of prompts and these together."""
    cluster, work = question.cluster, question.workload
    usd = cluster.usd_per_hour
    if usd is None or per_million_usd is None:
        return dict.fromkeys(("usd_per_hour", "cost_usd_per_million_tokens", "cost_usd_per_million_total_tokens"))
    generated = float(work.output_tokens / (work.prompt_tokens + work.output_tokens))
    return {
        "usd_per_hour": float(usd) * cluster.devices,
        "cost_usd_per_million_tokens": per_million_usd,
        "cost_usd_per_million_total_tokens": per_million_usd * generated,
    }


def thinned(front: Sequence[Kept], axes: tuple[str, str], count: int) -> list[Kept]:
    """Return so many plans of a front at most, spread over it, both ends among them."""
    return [front[i] for i in spread_over([(plan.figures[axes[0]], plan.figures[axes[1]]) for plan in front], count)]


def places_on(front: Sequence[Kept], plans: Sequence[Ranked]) -> tuple[int, ...]:
    """Return the places of those plans that are on a front."""
    best = {_identity(plan) for plan in front}
    return tuple(place for place, one in enumerate(plans) if _identity(one.plan) in best)


def _identity(plan: Kept) -> tuple[Any, ...]:
    return id(plan.variant), *plan.columns.values()


def nearest_plans(key: str, limits: Mapping[str, float], missed: Iterable[tuple[float, Kept]]) -> list[NearestPlan]:
    """Return the plan that misses the limits by least, with the limits under which it would be one."""
    least = min(missed, key=lambda one: one[0], default=None)
    if least is None:
        return []
    return [needed_limits(limits, ranked_plan(1, key, Ranked(least[1], tied=False, better=None)))]


def needed_limits(limits: Mapping[str, float], plan: RankedPlan) -> NearestPlan:
    """Return a plan that misses limits, with those under which it would be one."""
    figures = {name: float(figure(name, plan.profile, 1)[0]) for name in limits}
    needed = {name: figures[name] for name, limit in limits.items() if not within(name, figures[name], limit)}
    words = (f"{_amount(name, value)} instead of {_amount(name, limits[name])}" for name, value in needed.items())
    sentence = f"the nearest plan has {' and '.join(words)}"
    return NearestPlan(set=needed, sentence=sentence, plan=plan, command="")


def _amount(name: str, value: float) -> str:
    """A figure as a sentence says it."""
    if name not in BY_KEY:
        return f"{name} {format_quantity(value, COUNT)}"
    limit = BY_KEY[name][1]
    return f"{limit.label} {format_quantity(value, limit.dimension)}"


UNKNOWN_QUALITY = "what formats do to the model's answers is not predicted; plan.quantization fixes them"
"""Said where formats are searched."""
_LOADS: Mapping[bool, str] = {
    False: "one batch is sent at once and answered whole, so a first token waits for all prompts; "
    "workload.continuous=true plans for a steady load",
    True: "steady: a finished sequence is replaced at once, so decoding waits for prompts of others",
}
"""What latencies rest on, by ``workload.continuous``."""


def assumptions(spaces: Sequence[GenerationSpace]) -> dict[str, str]:
    """Return what the answer rests on, by name."""
    said = {"load": _LOADS[spaces[0].scenario.workload.continuous]} if spaces else {}
    said["memory"] = "all sequences of a batch are in memory at a time"
    if any(space.values.get("quantization", ()) is None for space in spaces):
        said["quantization"] = UNKNOWN_QUALITY
    said["cost"] = "rent per million output tokens; prompts add to the rent, not to the tokens"
    devices = {space.scenario.cluster.device.name: space.scenario.cluster.device for space in spaces}
    return said | price_assumptions(devices)

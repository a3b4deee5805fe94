"""The best plans to serve a model: candidates evaluated in lists, the best of all ranked and answered."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import groupby
from math import isnan
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InputError
from sightline.launching.registry import obstacles
from sightline.planning.clusters import price_assumptions
from sightline.planning.generation.candidates import MOST_PLANS, Candidates, Kept, candidates
from sightline.planning.generation.evaluation import DOUBLED, Evaluated, evaluated, most_users
from sightline.planning.generation.space import GenerationSpace, Variant, variants
from sightline.planning.generation_objectives import PARETO, figure, figure_key, within
from sightline.planning.plan_answer import Counts, NearestPlan, PlanAnswer, RankedPlan
from sightline.planning.plan_limits import BY_KEY
from sightline.planning.ranking import KEPT, Ranked, best_places, front, ranked, spread_over
from sightline.prediction.generation.batch_profile import predict_generation
from sightline.profile import MEMORY_PARTS, NumbersOnDemand, Profile
from sightline.progress import SILENT, Cancelled, Progress
from sightline.quantities import COUNT, format_quantity
from sightline.scenario import GenerationScenario
from sightline.scenario.space import GENERATION_FIELDS, Space

if TYPE_CHECKING:
    from sightline.prediction.anchoring import Anchored

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
    known: dict[str, Any] = {name: None if isnan(value) else value for name, value in one.plan.figures.items()}
    figures = known | rent_of(question, known["cost_usd_per_million_tokens"])
    return RankedPlan(
        rank=rank,
        profile=profile_of_kept(one.plan),
        value=one.plan.figures[key],
        tied=one.tied,
        better=one.better,
        obstacles=obstacles(one.plan.scenario),
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


UNKNOWN_QUALITY = "the effect of formats on answer quality is not predicted; fix the format with plan.quantization"
"""Said where formats are searched."""
_LOADS: Mapping[bool, str] = {
    False: "one batch is sent at once, so the first token waits for all prompts; use workload.continuous=true to "
    "plan for a steady load",
    True: "steady load: finished sequences are replaced immediately, so decoding waits for the prompts of others",
}
"""What latencies rest on, by ``workload.continuous``."""


def assumptions(spaces: Sequence[GenerationSpace]) -> dict[str, str]:
    """Return what the answer rests on, by name."""
    said = {"load": _LOADS[spaces[0].scenario.workload.continuous]} if spaces else {}
    said["memory"] = "all sequences of a batch are in memory at once"
    if any(space.values.get("quantization", ()) is None for space in spaces):
        said["quantization"] = UNKNOWN_QUALITY
    said["cost"] = "cost per million output tokens; prompts add to the cost, not to the tokens"
    devices = {space.scenario.cluster.device.name: space.scenario.cluster.device for space in spaces}
    return said | price_assumptions(devices)


SHOWN = (
    *("output_tokens_per_s_per_device", "output_tokens_per_s", "output_tokens_per_s_per_user"),
    *("ttft_s", "tpot_s", "latency_s", "cost_usd_per_million_tokens", "memory_bytes.total", "batch"),
)
"""Figures that are worked out for every plan that is kept."""
LEFT_OUT = (
    "too many pairs of prefill and decode workers; workers with uncommon degrees were skipped; set degrees in "
    "plan.disaggregate to narrow the search"
)


@dataclass(slots=True, kw_only=True, eq=False)
class Found(Counts):
    """What a search found so far."""

    key: str
    axes: tuple[str, str]
    most_users: bool = False
    """Whether each plan is looked at with the most users that it serves."""
    best: list[Kept] = field(default_factory=list)
    front: list[Kept] = field(default_factory=list)
    nearest: list[tuple[float, Kept]] = field(default_factory=list)
    """The plan that misses the limits by least, of each list without one that meets them."""
    most_plans: int = MOST_PLANS
    """Disaggregated plans that are tried."""
    candidates: int = 0
    remarks: dict[str, None] = field(default_factory=dict)

    @property
    def tries(self) -> int:
        """Batches that each candidate is evaluated with at once."""
        return len(DOUBLED) if self.most_users else 1

    def look(self, variant: Variant, of: Candidates, wanted: tuple[str, ...], limits: Mapping[str, float]) -> None:
        """Evaluate a list of candidates, with the figures ``wanted``."""
        of = _with_most_users(variant, of, limits) if self.most_users else of
        self.add(variant, evaluated(variant, of, wanted, limits))

    def add(self, variant: Variant, of: Evaluated) -> None:
        """Count a list of plans and keep the best of it."""
        self.evaluated += of.evaluated
        self.rejected.update(of.rejected)
        count = len(of.columns["batch"])
        self.feasible += count
        if of.nearest is not None:
            miss, columns, figures = of.nearest
            self.nearest.append((miss, Kept(variant=variant, columns=columns, figures=figures)))
        if count:
            self.keep(variant, of)

    def keep(self, variant: Variant, of: Evaluated) -> None:
        """Keep the best of a list, and its front."""
        self.best += kept(variant, of, best_places(self.key, of.figures[self.key], KEPT))
        self.front += kept(variant, of, front(self.axes, of.figures))

    def ordered(self) -> list[Kept]:
        """The best plans of all lists in order."""
        values = np.array([plan.figures[self.key] for plan in self.best])
        return [self.best[i] for i in best_places(self.key, values, KEPT)]

    def correct(self, anchor: "Anchored", count: int) -> None:
        """Give the best plans, so many, and those of the front the figures that they have with an anchor."""
        known = dict[tuple[Any, ...], Kept]()
        for plan in (*self.ordered()[:count], *self.on_front()):
            if _identity(plan) not in known:
                profile = anchor.predict(plan.scenario)
                figures = {name: float(figure(name, profile, 1)[0]) for name in plan.figures}
                known[_identity(plan)] = Kept(variant=plan.variant, columns=plan.columns, figures=figures)
        self.front = [known[_identity(plan)] for plan in self.on_front()]
        self.best = [known[_identity(plan)] for plan in self.ordered()[:count]]

    def on_front(self) -> list[Kept]:
        """The plans of all lists that no other beats in both figures of the front."""
        figures = {key: np.array([plan.figures[key] for plan in self.front]) for key in self.axes}
        return [self.front[i] for i in front(self.axes, figures)]


def kept(variant: Variant, of: Evaluated, places: NDArray[np.intp]) -> list[Kept]:
    """Return the plans at some places of a list."""
    columns = {name: column[places].tolist() for name, column in of.columns.items()}
    figures = {key: values[places].tolist() for key, values in of.figures.items()}
    rows = zip(zip(*columns.values(), strict=True), zip(*figures.values(), strict=True), strict=True)
    return [
        Kept(
            variant=variant,
            columns=dict(zip(columns, own, strict=True)),
            figures=dict(zip(figures, said, strict=True)),
        )
        for own, said in rows
    ]


def search(
    spaces: Sequence[GenerationSpace],
    objective: str = "throughput",
    limits: Mapping[str, float] | None = None,
    *,
    top: int = 10,
    pareto: tuple[str, str] | None = None,
    anchor: "Anchored | None" = None,
    progress: Progress = SILENT,
) -> PlanAnswer:
    """Return the best plans to serve a model by an objective, within limits; those on the usual front are marked.

    Args:
        spaces: What is free, a space for each cluster.
        objective: throughput (output tokens per second and device), latency (time per output token), cost (per million
            output tokens), energy, memory, batch (the most users at a time), or a key of ``FIGURES``.
        limits: By such a key at most so much, and at least of what more is better. All sequences of a batch have to
            fit in memory at a time.
        top: Plans to return.
        pareto: Two objectives instead: the Pareto-optimal plans, in order of the first.
        anchor: What runs of one's own teach: corrects the best plans' figures, by which they are then ranked.
        progress: Told how far the search is; when it is cancelled the best until then are returned.

    Raises:
        InputError: an objective, limit or axis that nobody knows.
    """
    began = time.perf_counter()
    axes = (figure_key(pareto[0]), figure_key(pareto[1])) if pareto else PARETO
    key = axes[0] if pareto else figure_key(objective)
    bounds = {figure_key(name): float(limit) for name, limit in (limits or {}).items()}
    most = key == "batch" and not pareto and all(space.values.get("batch") is None for space in spaces)
    found = Found(key=key, axes=axes, most_users=most)
    try:
        go_through(spaces, found, tuple(dict.fromkeys((*SHOWN, key, *axes))), bounds, progress)
    except Cancelled:
        found.stopped = True
    if anchor is not None:
        found.correct(anchor, 4 * top)
    return _answer(spaces, found, bounds, objective=objective, pareto=pareto, top=top, began=began)


def _answer(
    spaces: Sequence[GenerationSpace],
    found: Found,
    limits: Mapping[str, float],
    *,
    objective: str,
    pareto: tuple[str, str] | None,
    top: int,
    began: float,
) -> PlanAnswer:
    """What was found, ranked."""
    key = found.key
    front = found.on_front()
    if pareto:
        plans = [Ranked(plan, tied=False, better=None) for plan in thinned(front, found.axes, top)]
        first = plans[0].plan.figures if plans else {}
        behind = [tuple(one.figures[axis] / first[axis] for axis in found.axes) for one in found.ordered()]
    else:
        plans, behind = ranked(key, found.ordered(), top), []
    return found.answer(
        _answered(key, plans, limits),
        pareto,
        sampled=behind,
        objective=ANSWERED.get(objective, objective),
        seconds=time.perf_counter() - began,
        pareto=places_on(front, plans),
        free=(*free_fields(spaces), *(["batch"] if found.most_users else [])),
        nearest=[] if plans else nearest_plans(key, limits, found.nearest),
        assumptions=assumptions(spaces),
        warnings=(*dict.fromkeys(w for space in spaces for w in space.scenario.warnings), *found.remarks),
    )


ANSWERED = {"time": "throughput", "latency": "tpot_s", "users": "batch"}
"""What an answer calls objectives that have another word in the results of training."""


def go_through(
    spaces: Sequence[GenerationSpace],
    found: Found,
    wanted: tuple[str, ...],
    limits: Mapping[str, float],
    progress: Progress,
    until: float | None = None,
) -> None:
    """Evaluate all candidates of spaces, with the figures ``wanted``, and add them to what was found.

    ``until`` is the share of the work that is done then.

    Raises:
        InputError: no engine runs the model.
    """
    every = [(space, variant) for space in spaces for variant in variants(space)]
    if not every:
        raise InputError(_nobody_runs(spaces))
    pooled = sum(variant.pooled for _, variant in every)
    for space, variant in progress.each(every, "searching", until):
        pieces = candidates(space, variant, pooled, found.tries, found.most_plans)
        found.candidates += pieces.total
        found.remarks |= {} if pieces.complete else {LEFT_OUT: None}
        for some in pieces.lists():
            progress.check()
            found.look(variant, some, wanted, limits)
    if not found.candidates:
        found.rejected["engine_devices"] += 1


def _nobody_runs(spaces: Sequence[GenerationSpace]) -> list[str]:
    """Sentences that no engine of the catalog runs the model on the devices."""
    questions = (space.scenario for space in spaces)
    return [
        f"no engine in the catalog is known to run {of.model.name} on {of.cluster.device.name}; set "
        "plan.framework to search one anyway"
        for of in questions
    ]


def _with_most_users(variant: Variant, of: Candidates, limits: Mapping[str, float]) -> Candidates:
    """Candidates, each with the largest batch that it serves within the limits; with 1 where it serves none."""
    return of._replace(columns={**of.columns, "batch": np.maximum(most_users(variant, of.columns, limits), 1)})


def _answered(key: str, plans: Sequence[Ranked], limits: Mapping[str, float]) -> list[RankedPlan]:
    """The plans as they are answered, with the most users that each serves, worked out when somebody reads it."""
    users = cache(partial(_users, [one.plan for one in plans], limits))

    def of(place: int) -> Callable[[], int]:
        return lambda: users()[place]

    return [ranked_plan(place + 1, key, one, of(place)) for place, one in enumerate(plans)]


def _users(plans: Sequence[Kept], limits: Mapping[str, float]) -> list[int]:
    """The most users that plans serve at a time, those of a variant together."""
    found = dict[int, int]()
    of_variant = [id(plan.variant) for plan in plans]
    for _, places in groupby(sorted(range(len(plans)), key=of_variant.__getitem__), of_variant.__getitem__):
        several = list(places)
        rows = [plans[place].columns for place in several]
        layouts = {name: np.array([row[name] for row in rows], dtype=np.int64) for name in rows[0]}
        found |= zip(several, most_users(plans[several[0]].variant, layouts, limits).tolist(), strict=True)
    return [found[place] for place in range(len(plans))]

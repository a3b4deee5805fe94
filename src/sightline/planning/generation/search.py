"""The best plans to serve a model: candidates of every variant evaluated in lists, the best of all kept and ranked."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InputError
from sightline.planning.answer import PlanAnswer, RankedPlan
from sightline.planning.generation.answers import (
    assumptions,
    free_fields,
    nearest_plans,
    places_on,
    ranked_plan,
    thinned,
)
from sightline.planning.generation.candidates import Candidates, candidates
from sightline.planning.generation.evaluation import Evaluated, evaluated
from sightline.planning.generation.objectives import PARETO, figure_key
from sightline.planning.generation.ranking import KEPT, Kept, Ranked, best_places, front, ranked
from sightline.planning.generation.space import GenerationSpace, Variant, variants
from sightline.planning.generation.users import DOUBLED, most_users
from sightline.progress import SILENT, Cancelled, Progress

SHOWN = (
    "output_tokens_per_s_per_device",
    "output_tokens_per_s",
    "output_tokens_per_s_per_user",
    "ttft_s",
    "tpot_s",
    "latency_s",
    "cost_usd_per_million_tokens",
    "memory_bytes.total",
    "batch",
)
"""Figures that are worked out for every plan that is kept."""
LEFT_OUT = (
    "there are too many pairs of prefill and decode workers: of these, workers with uncommon degrees were left out; "
    "degrees in plan.disaggregate narrow the search"
)


@dataclass(slots=True, kw_only=True, eq=False)
class Found:
    """What a search found so far."""

    key: str
    axes: tuple[str, str]
    most_users: bool = False
    """Whether each plan is looked at with the most users that it serves."""
    best: list[Kept] = field(default_factory=list)
    front: list[Kept] = field(default_factory=list)
    nearest: list[tuple[float, Kept]] = field(default_factory=list)
    """The plan that misses the limits by least, of each list without one that meets them."""
    candidates: int = 0
    evaluated: int = 0
    feasible: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    remarks: dict[str, None] = field(default_factory=dict)
    stopped: bool = False

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
    else:
        plans = ranked(key, found.ordered(), top)
    return PlanAnswer(
        objective=ANSWERED.get(objective, objective),
        evaluated=found.evaluated,
        feasible=found.feasible,
        rejected={rule: count for rule, count in found.rejected.items() if count},
        seconds=time.perf_counter() - began,
        plans=_answered(key, plans, limits),
        pareto_axes=pareto,
        pareto=places_on(front, plans),
        free=(*free_fields(spaces), *(["batch"] if found.most_users else [])),
        nearest=[] if plans else nearest_plans(key, limits, found.nearest),
        assumptions=assumptions(spaces),
        warnings=(*dict.fromkeys(w for space in spaces for w in space.scenario.warnings), *found.remarks),
        stopped=found.stopped,
    )


ANSWERED = {"time": "throughput", "latency": "tpot_s", "users": "batch"}
"""What an answer calls objectives that have another word in the results of training."""


def go_through(
    spaces: Sequence[GenerationSpace],
    found: Found,
    wanted: tuple[str, ...],
    limits: Mapping[str, float],
    progress: Progress,
) -> None:
    """Evaluate all candidates of spaces, with the figures ``wanted``, and add them to what was found.

    Raises:
        InputError: no engine runs the model.
    """
    every = [(space, variant) for space in spaces for variant in variants(space)]
    if not every:
        raise InputError(_nobody_runs(spaces))
    pooled = sum(variant.pooled for _, variant in every)
    progress.begin(len(every), "searching")
    for space, variant in every:
        pieces = candidates(space, variant, pooled, len(DOUBLED) if found.most_users else 1)
        found.candidates += pieces.total
        found.remarks |= {} if pieces.complete else {LEFT_OUT: None}
        for some in pieces.lists():
            progress.check()
            with_batches = _with_most_users(variant, some, limits) if found.most_users else some
            found.add(variant, evaluated(variant, with_batches, wanted, limits))
        progress.advance()
    if not found.candidates:
        found.rejected["engine_devices"] += 1


def _nobody_runs(spaces: Sequence[GenerationSpace]) -> list[str]:
    """Sentences that no engine of the catalog runs the model on the devices."""
    questions = (space.scenario for space in spaces)
    return [
        f"no engine of the catalog is known to run {of.model.name} on {of.cluster.device.name}; "
        "plan.framework names one to be searched anyway"
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

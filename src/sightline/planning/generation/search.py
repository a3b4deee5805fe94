"""The best plans to serve a model: candidates of every variant evaluated in lists, the best of all kept and ranked."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

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
from sightline.planning.generation.candidates import candidates
from sightline.planning.generation.evaluation import Evaluated, evaluated
from sightline.planning.generation.objectives import PARETO, figure, figure_key
from sightline.planning.generation.ranking import KEPT, Kept, Ranked, best_places, front, ranked
from sightline.planning.generation.space import GenerationSpace, Variant, variants
from sightline.planning.generation.users import MOST, most_users
from sightline.prediction.generation.predict import predict_generation
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
DOUBLED = tuple(2**i for i in range(17))
"""Batches that are tried where the largest is looked for."""

LEFT_OUT = (
    "there are too many pairs of prefill and decode workers: of these, workers with uncommon degrees were left out; "
    "degrees in plan.disaggregate narrow the search"
)


@dataclass(slots=True, kw_only=True, eq=False)
class _Found:
    """What a search found so far."""

    key: str
    axes: tuple[str, str]
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
        """Keep the best of a list."""
        self.evaluated += of.evaluated
        self.rejected.update(of.rejected)
        count = len(of.columns["batch"])
        self.feasible += count
        if of.nearest is not None:
            miss, columns, figures = of.nearest
            self.nearest.append((miss, Kept(variant=variant, columns=columns, figures=figures)))
        if count:
            self.best += _kept(variant, of, best_places(self.key, of.figures[self.key], KEPT))
            self.front += _kept(variant, of, front(self.axes, of.figures))

    def ordered(self) -> list[Kept]:
        """The best plans of all lists in order."""
        values = np.array([plan.figures[self.key] for plan in self.best])
        return [self.best[i] for i in best_places(self.key, values, KEPT)]

    def on_front(self) -> list[Kept]:
        """The plans of all lists that no other beats in both figures of the front."""
        figures = {key: np.array([plan.figures[key] for plan in self.front]) for key in self.axes}
        return [self.front[i] for i in front(self.axes, figures)]


def _kept(variant: Variant, of: Evaluated, places: NDArray[np.intp]) -> list[Kept]:
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
    doubled = key == "batch" and not pareto and all(space.values.get("batch") is None for space in spaces)
    if doubled:
        spaces = [replace(space, values={**space.values, "batch": DOUBLED}) for space in spaces]
    found = _Found(key=key, axes=axes)
    try:
        _go_through(spaces, found, tuple(dict.fromkeys((*SHOWN, key, *axes))), bounds, progress)
    except Cancelled:
        found.stopped = True
    return _answer(spaces, found, bounds, objective=objective, pareto=pareto, top=top, doubled=doubled, began=began)


def _answer(
    spaces: Sequence[GenerationSpace],
    found: _Found,
    limits: Mapping[str, float],
    *,
    objective: str,
    pareto: tuple[str, str] | None,
    top: int,
    doubled: bool,
    began: float,
) -> PlanAnswer:
    """What was found, ranked; ``doubled`` says that batches were found by doubling."""
    key = found.key
    front = found.on_front()
    if pareto:
        plans = [Ranked(plan, tied=False, better=None) for plan in thinned(front, found.axes, top)]
    else:
        kept = found.ordered()
        plans = ranked(key, _with_most_users(kept[:top], limits) if doubled else kept, top)
    return PlanAnswer(
        objective=ANSWERED.get(objective, objective),
        evaluated=found.evaluated,
        feasible=found.feasible,
        rejected={rule: count for rule, count in found.rejected.items() if count},
        seconds=time.perf_counter() - began,
        plans=_answered(key, plans, limits),
        pareto_axes=pareto,
        pareto=places_on(front, plans),
        free=free_fields(spaces),
        nearest=[] if plans else nearest_plans(key, limits, found.nearest),
        assumptions=assumptions(spaces),
        warnings=(*dict.fromkeys(w for space in spaces for w in space.scenario.warnings), *found.remarks),
        stopped=found.stopped,
    )


ANSWERED = {"time": "throughput", "latency": "tpot_s", "users": "batch"}
"""What an answer calls objectives that have another word in the results of training."""


def _go_through(
    spaces: Sequence[GenerationSpace],
    found: _Found,
    wanted: tuple[str, ...],
    limits: Mapping[str, float],
    progress: Progress,
) -> None:
    """Evaluate all candidates."""
    every = [(space, variant) for space in spaces for variant in variants(space)]
    if not every:
        raise InputError(_nobody_runs(spaces))
    pooled = sum(variant.pooled for _, variant in every)
    progress.begin(len(every), "searching")
    for space, variant in every:
        pieces = candidates(space, variant, pooled)
        found.candidates += pieces.total
        found.remarks |= {} if pieces.complete else {LEFT_OUT: None}
        for some in pieces.lists():
            progress.check()
            found.add(variant, evaluated(variant, some, wanted, limits))
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


def _answered(key: str, plans: Sequence[Ranked], limits: Mapping[str, float]) -> list[RankedPlan]:
    """The plans as they are answered; the first with the most users that it serves within the limits."""
    users = {"most_users": float(_users(plans[0].plan, limits))} if plans and limits else {}
    return [ranked_plan(place, key, one, **(users if place == 1 else {})) for place, one in enumerate(plans, start=1)]


def _with_most_users(kept: list[Kept], limits: Mapping[str, float]) -> list[Kept]:
    """Plans whose batches were found by doubling, each with the most users that it serves, the most first."""
    found = []
    for plan in kept:
        columns = {**plan.columns, "batch": max(_users(plan, limits), plan.columns["batch"])}
        again = predict_generation(replace(plan, columns=columns).scenario)
        figures = {key: float(figure(key, again, 1)[0]) for key in plan.figures}
        found.append(replace(plan, columns=columns, figures=figures))
    return sorted(found, key=lambda plan: -plan.columns["batch"])


def _users(plan: Kept, limits: Mapping[str, float]) -> int:
    """The most users that a plan serves at a time."""
    most = plan.variant.max_sequences
    ranks = plan.columns["data_parallel"] * plan.columns["replicas"]
    return most_users(plan.scenario, limits, MOST if most is None else most * ranks)

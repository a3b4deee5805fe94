"""Where no plan fits: the nearest that do, each with what it costs and the command to try it.

The same search answers, with every field of the plan free. Of the plans that fit, those count that change less of what
was asked than any faster one.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sightline.launching.registry import obstacles
from sightline.loading.sources import with_settings
from sightline.planning.clusters import devices_setting, is_usual
from sightline.planning.plan_answer import NearestPlan, RankedPlan
from sightline.planning.rationale.relaxed import FARTHEST, Variation, looser, others, with_more_devices
from sightline.planning.training.best import Candidate, First, Front, Keeper
from sightline.planning.training.candidates import Array, Axes, Choice, resolved
from sightline.planning.training.mesh import Block
from sightline.planning.training.objectives import Measure, exceeded
from sightline.planning.training.training_search import Request, search
from sightline.planning.training.validity import LAUNCHABLE
from sightline.prediction.changes import needs_and_step
from sightline.profile import Profile
from sightline.quantities import GIB, SECONDS, format_quantity
from sightline.scenario import Cluster, Scenario
from sightline.scenario.plan import OFFLOADABLE
from sightline.scenario.rules import TRAINING_RULES
from sightline.scenario.space import TRAINING_FIELDS, Space, opened


class FewestChanges:
    """Keeps the plans that no faster one changes less than."""

    limit = np.inf
    """No bound of a step's time says that a plan changes more."""

    def __init__(self, *, asked: Space[Scenario], measure: Measure) -> None:
        self._asked, self._measure = asked, measure
        self._front = Front(figure=self._figures)
        self._choice: Choice | None = None

    def take(self, block: Block, axes: Axes, choice: Choice) -> None:
        """Look at the plans of a block."""
        self._choice = choice
        self._front.take(block, axes, choice)

    def kept(self) -> list[Candidate]:
        """Return the plans, the fewest changes first."""
        return self._front.kept()

    def _figures(self, block: Block, axes: Axes) -> tuple[Array, Array]:
        time_s = self._measure("time", self._measure.of_block(block, axes))
        return self._changes(block, axes), np.asarray(time_s)

    def _changes(self, block: Block, axes: Axes) -> Array:
        """How many fields of each plan have a value that was not asked for."""
        options = block.fits.ndim - 1
        fields = [name for name in axes.rows if name != "devices"]
        by_row = sum(self._other(name, block.column(name, axes)) for name in fields)
        changes = np.reshape(by_row, (-1, *(1,) * options)) + self._alike()
        schedules = [axes.schedules[i] for i in block.group.schedules]
        for place, values in enumerate(self._by_option(axes, schedules)):
            if block.fits.shape[place + 1] > 1:
                changes = changes + np.reshape(values, [-1 if i == place + 1 else 1 for i in range(options + 1)])
            elif len(values) == 1:
                changes = changes + values[0]
        return np.broadcast_to(changes, block.fits.shape)

    def _alike(self) -> float:
        """Changes that all plans of a block share."""
        choice, shared = self._choice, 0.0
        for name in ("recompute", "attention", "compile"):
            allowed = self._asked.values.get(name, (getattr(self._asked.scenario.plan, name),))
            shared += allowed is not None and getattr(choice, name) not in allowed
        return shared

    def _by_option(self, axes: Axes, schedules: list[tuple[str, int]]) -> Iterator[Array]:
        """Changes by ZeRO stage, by each part that may be offloaded, and by schedule with its virtual stages."""
        yield self._other("zero_stage", axes.zero_stage)
        own = self._asked.values.get("offload", (self._asked.scenario.plan.offload,))
        for part in OFFLOADABLE:
            usual = {part in chosen for chosen in own} if own is not None else {True, False}
            yield np.array([(there > 0) not in usual for there in axes.offload[part]], dtype=float)
        yield self._other("schedule", [name for name, _ in schedules])

    def _other(self, name: str, values: Any) -> Array:
        """Whether values of a field are none that were asked for."""
        plan = self._asked.scenario.plan
        allowed = self._asked.values.get(name, (getattr(plan, name, None),))
        return np.zeros(len(values)) if allowed is None else (~np.isin(values, list(allowed))).astype(float)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Unmet:
    """A question that has no plan, and what was asked of one."""

    space: Space[Scenario]
    request: Request = field(default_factory=Request)
    asked: Profile | None = None
    """The plan that does not fit, where one was asked for."""

    @property
    def is_limited(self) -> bool:
        """Whether time or money is limited."""
        return self.request.limits.deadline_s is not None or self.request.limits.budget_usd is not None


def space_of(unmet: Unmet, variation: Variation) -> Space[Scenario]:
    """Return the space of a variation: with the fields that were asked for, or with every field of the plan free.

    Fused attention stays, as nothing needs less memory, and so does compilation where it is fixed.
    """
    if variation.keeps_fields:
        return replace(unmet.space, scenario=variation.scenario, clusters=())
    is_fixed = {
        "attention": variation.scenario.plan.attention == "flash",
        "compile": unmet.space.values.get("compile", ()) is not None,
    }
    free = [name for name in TRAINING_FIELDS if not is_fixed.get(name)]
    return replace(opened(variation.scenario, free), at_most=unmet.space.at_most)


def changes_from(space: Space[Scenario], scenario: Scenario) -> Iterator[tuple[str, Any]]:
    """Yield dotted keys of a plan with values that were not asked for, as a file states them."""
    stated = scenario.plan.to_dict()
    for name in TRAINING_FIELDS:
        allowed = space.values.get(name, (getattr(space.scenario.plan, name),))
        if name != "data_parallel" and allowed is not None and getattr(scenario.plan, name) not in allowed:
            yield f"plan.{name}", stated[name]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Describer:
    """Describes a plan that was found."""

    unmet: Unmet
    predict: Callable[[Scenario], Profile]
    command: str
    """What changes are added to as options."""

    def described(self, variation: Variation, candidate: Candidate) -> NearestPlan:
        """Return a plan that fits with its changes, its figures and the command."""
        space = space_of(self.unmet, variation)
        scenario = resolved(space, candidate.fields)
        profile = self.predict(scenario)
        measure = Measure(space=space, availability=self.unmet.request.availability)
        run = measure.whole_run(measure.of_profile(profile))
        figures = {} if run is None else {key: None if v is None else float(v) for key, v in run.figures.items()}
        value, kept_from = float(profile.step_time_s), obstacles(scenario)
        plan = RankedPlan(rank=1, profile=profile, value=value, obstacles=kept_from, figures=figures)
        changed = {**variation.set, **dict(changes_from(self.unmet.space, scenario))}
        return NearestPlan(
            set=changed,
            sentence=self._sentence(variation, plan),
            plan=plan,
            command=with_settings(self.command, changed | self._replicas(scenario)),
        )

    def _replicas(self, scenario: Scenario) -> dict[str, int]:
        """The replicas, which the file states, where they are others."""
        stated, replicas = self.unmet.space.values.get("data_parallel"), int(scenario.plan.data_parallel)
        return {} if stated is None or replicas in stated else {"plan.data_parallel": replicas}

    def _sentence(self, variation: Variation, plan: RankedPlan) -> str:
        """What a plan needs and takes, and what it costs."""
        profile = plan.profile
        said = needs_and_step(profile)
        if self.unmet.asked is not None:
            said += f", {profile.step_time_s / self.unmet.asked.step_time_s:.2f} x the time"
        said += _price(plan, with_time=self.unmet.is_limited)
        cluster = profile.scenario.cluster
        if profile.scenario.plan.offload and is_usual(cluster):
            said += f"; offloads to {host_memory(cluster)}"
        return f"{said}; {variation.remark}" if variation.remark else said


def host_memory(cluster: Cluster) -> str:
    """Return the memory of the hosts that are assumed where none are stated."""
    host = cluster.host
    return f"{float(host.memory_bytes) / GIB:,.0f} GiB of host memory per node, assumed ({host.name})"


def _price(plan: RankedPlan, *, with_time: bool) -> str:
    """What a plan costs: the run, where its length is known, else an hour."""
    cost, run_s = plan.figures.get("cost_usd"), plan.figures.get("calendar_time_s")
    cluster = plan.profile.scenario.cluster
    said = f", run time {format_quantity(run_s, SECONDS)}" if with_time and run_s is not None else ""
    if cost is not None:
        return f"{said}, {cost:,.{0 if cost >= 100 else 2}f} USD for the run"
    price = cluster.device.usd_per_hour
    return said if price is None else f"{said}, {price * cluster.devices:.2f} USD per hour"


WORTH = 0.9
"""Share of the time of a plan with fewer changes that one with more must not exceed, to be named as well."""
_MOST_ASKED = 4
"""Plans that are told of several questions."""
TOLERABLE = 1.5
"""How many times the time of the plan that does not fit the question as it is may take, for no other to be asked."""


def nearest_plans(
    unmet: Unmet, predict: Callable[[Scenario], Profile], command: str = "sightline plan FILE"
) -> list[NearestPlan]:
    """Return the nearest plans that fit: of the question as it is, then of others.

    Where limits that were set are too tight, those of the question with other limits, fewer tokens or more devices.

    Args:
        unmet: The question.
        predict: What predicts a plan.
        command: What its changes are added to as options.
    """
    describer = Describer(unmet=unmet, predict=predict, command=command)
    if within := _beyond_limits(unmet, describer):
        return within
    loose = _beyond_memory(unmet, _as_asked(unmet), describer)
    found = [describer.described(_as_it_is(unmet), one) for one in _plans(unmet, _as_it_is(unmet))]
    if loose or (found and not _slow(unmet, found)):
        return [*loose, *found]
    if not found and (loose := _beyond_memory(unmet, _as_it_is(unmet), describer)):
        return loose
    return [*found, *_of_other_questions(unmet, describer)]


def _of_other_questions(unmet: Unmet, describer: Describer) -> list[NearestPlan]:
    """Return a plan of each kind of change under which something fits: of other devices after those of the same."""

    def others(found: NearestPlan) -> tuple[bool, bool]:
        return "workload.task" in found.set, any(key.startswith("cluster") for key in found.set)

    return sorted(_of_each_kind(unmet, describer), key=others)


def _of_each_kind(unmet: Unmet, describer: Describer) -> Iterator[NearestPlan]:
    for kind in others(unmet.space.scenario):
        for variation in kind:
            there = _plans(unmet, variation)
            if there:
                yield describer.described(variation, there[-1])
                break


def _beyond_memory(unmet: Unmet, asked: Variation, describer: Describer) -> list[NearestPlan]:
    """The plan of least memory, where a limit of it is what is too tight."""
    anything = replace(unmet, request=replace(unmet.request, max_memory=None))
    least = None if unmet.request.max_memory is None else _best(anything, asked, "memory")
    return [] if least is None else [_with_looser_limits(unmet, describer.described(asked, least))]


def _beyond_limits(unmet: Unmet, describer: Describer) -> list[NearestPlan]:
    """Plans that meet other limits of time and money: with the fields that were asked for, else with any."""
    for asked in (_as_asked(unmet), _as_it_is(unmet)) if unmet.is_limited else ():
        best = _best(unmet, asked)
        if best is not None:
            return list(_near_limits(unmet, asked, best, describer))
    return []


def nearest_of(
    asked: Sequence[Unmet], predict: Callable[[Scenario], Profile], command: str = "sightline plan FILE"
) -> list[NearestPlan]:
    """Return the nearest plans that fit of several questions: of all as they are, before any other is asked."""
    if len(asked) == 1:
        return nearest_plans(asked[0], predict, command)
    if asked[0].is_limited:
        for way_of in (_as_asked, _as_it_is):
            best = [(found.keys[0], place) for place, one in enumerate(asked) if (found := _best(one, way_of(one)))]
            if best:
                return nearest_plans(asked[min(best)[1]], predict, command)
    described, loose = list[NearestPlan](), list[NearestPlan]()
    for unmet in asked:
        describer = Describer(unmet=unmet, predict=predict, command=command)
        variation = replace(_as_it_is(unmet), set=_stated(unmet.space))
        described += [describer.described(variation, one) for one in _plans(unmet, variation)[:1]]
        loose += _beyond_memory(unmet, _as_asked(unmet), describer)
    least = sorted(loose, key=lambda one: float(one.plan.profile.memory_bytes["total"]))[:1]
    nearest = [*least, *sorted(described, key=lambda one: (len(one.set), one.plan.value))][:_MOST_ASKED]
    return nearest or nearest_plans(asked[0], predict, command)


def _stated(space: Space[Scenario]) -> dict[str, Any]:
    """The values by which a question differs from others, of clusters of several sizes the largest."""
    cluster = space.scenario.cluster
    named = devices_setting(cluster) if is_usual(cluster) and "cluster" in space.options else {}
    return {**space.options, **named}


def _near_limits(unmet: Unmet, asked: Variation, best: Candidate, describer: Describer) -> Iterator[NearestPlan]:
    """Yield what meets a deadline and a budget: looser ones, fewer tokens, or more devices."""
    loose = describer.described(asked, best)
    calendar_s, cost = (float(loose.plan.figures[key] or 0.0) for key in ("calendar_time_s", "cost_usd"))
    limits, shares = unmet.request.limits, [1.0]
    if limits.deadline_s is not None:
        shares.append(limits.deadline_s / calendar_s)
    if limits.budget_usd is not None and cost:
        shares.append(limits.budget_usd / cost)
    yield _with_looser_limits(unmet, loose)
    limited = " ".join((describer.command, *_as_typed(unmet)))
    bound = replace(describer, command=limited)
    scenario, tokens = unmet.space.scenario, unmet.space.scenario.workload.total_tokens
    fewer = float(f"{0.995 * min(shares) * float(tokens or 0):.2e}")
    kept = asked.keeps_fields
    variations = [
        Variation(set={"workload.total_tokens": fewer}, scenario=_with_tokens(scenario, fewer), keeps_fields=kept)
    ]
    variations = variations if 1 / min(shares) <= FARTHEST else []
    more = list(with_more_devices(scenario, at_least=1 / min(shares))) if limits.deadline_s is not None else []
    for kind in (variations, [*(replace(variation, keeps_fields=kept) for variation in more), *more]):
        for variation in kind:
            there = _best(unmet, variation, limited=True)
            if there is not None:
                yield bound.described(variation, there)
                break


def _with_looser_limits(unmet: Unmet, found: NearestPlan) -> NearestPlan:
    """A plan with the limits that it meets, each as it was asked for or looser."""
    needed = float(found.plan.profile.memory_bytes["total"])
    request = unmet.request
    options, beyond = looser(request.limits, found.plan.figures, max_memory=request.max_memory, needed=needed)
    typed = re.sub(r" --max-memory ('[^']*'|\S+)", "", found.command) if "max-memory" in options else found.command
    said = " ".join((typed, *(f"--{name} {value}" for name, value in options.items())))
    return replace(found, set={**options, **found.set}, command=said, sentence="; ".join((found.sentence, *beyond)))


def _as_typed(unmet: Unmet) -> Iterator[str]:
    """The limits as options, as they were written if that is known."""
    limits = unmet.request.limits
    if limits.deadline_s is not None:
        written = limits.typed.get("deadline", f"{limits.deadline_s / 86400:g}d")
        yield f"--deadline {shlex.quote(written)}"
    if limits.budget_usd is not None:
        written = limits.typed.get("budget", f"{limits.budget_usd:.10g}")
        yield f"--budget {shlex.quote(written)}"


def _with_tokens(scenario: Scenario, tokens: float) -> Scenario:
    return replace(scenario, workload=replace(scenario.workload, total_tokens=tokens))


def _as_it_is(unmet: Unmet) -> Variation:
    return Variation(set={}, scenario=unmet.space.scenario)


def _as_asked(unmet: Unmet) -> Variation:
    """The question with the fields of the plan that it states, so that limits alone can be what is too tight."""
    return Variation(set={}, scenario=unmet.space.scenario, keeps_fields=True)


def _slow(unmet: Unmet, found: list[NearestPlan]) -> bool:
    """Whether all that was found takes much longer than what was asked."""
    return unmet.asked is not None and all(
        one.plan.profile.step_time_s > TOLERABLE * unmet.asked.step_time_s for one in found
    )


def _best(unmet: Unmet, variation: Variation, objective: str = "", *, limited: bool = False) -> Candidate | None:
    """The best plan: by default the fastest, or the cheapest where only money is limited; None if there is none."""
    objective = objective or ("time" if unmet.request.limits.deadline_s is not None else "cost")
    space = space_of(unmet, variation)
    measure = Measure(space=space, availability=unmet.request.availability)
    keeper = First(figure=lambda block, axes: (np.asarray(measure(objective, measure.of_block(block, axes))),), count=1)
    _search(unmet, space, keeper, measure if limited else None)
    return next(iter(keeper.kept()), None)


def _plans(unmet: Unmet, variation: Variation) -> list[Candidate]:
    """The plan with the fewest changes, and a faster one if there is one; none if nothing fits."""
    space = space_of(unmet, variation)
    keeper = FewestChanges(asked=unmet.space, measure=Measure(space=space, availability=unmet.request.availability))
    _search(unmet, space, keeper, None)
    kept = keeper.kept()
    if not kept:
        return []
    fewest, fastest = kept[0], kept[-1]
    return [fewest, fastest] if fastest.keys[1] < WORTH * fewest.keys[1] else [fewest]


def _search(unmet: Unmet, space: Space[Scenario], keeper: Keeper, limited: Measure | None) -> None:
    """Search a space for what the framework offers; with a measure, for what meets the limits."""

    def beyond(block: Block, axes: Axes) -> dict[str, Any]:
        return {} if limited is None else exceeded(unmet.request.limits, limited, limited.of_block(block, axes))

    rules = LAUNCHABLE if space.launchable else TRAINING_RULES
    search(space, keeper, within=None if limited is None else beyond, max_memory=unmet.request.max_memory, rules=rules)

"""What searches of training plans found, as one answer: the best of all spaces in order, each predicted."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import product
from math import inf, nan, prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from sightline.content import fields_of
from sightline.explanation.compared import SAME
from sightline.launching.registry import obstacles
from sightline.planning.clusters import devices_setting, price_assumptions
from sightline.planning.plan_answer import Counts, LazySequence, Neighbour, PlanAnswer, RankedPlan, by_loss
from sightline.planning.ranking import PLAIN_SCHEDULES, front_of, in_order, numbered, spread_over, with_ties
from sightline.planning.training.best import Candidate, leading
from sightline.planning.training.candidates import resolved
from sightline.planning.training.objectives import UNCERTAIN, Measure, shown_value
from sightline.planning.training.training_search import MICRO_BATCH, SLOWER, Request, search_space
from sightline.prediction import predict
from sightline.prediction.training.knowledge import Knowledge
from sightline.prediction.training.memory import sure_bytes
from sightline.prediction.training.step_profile import predict as predict_step
from sightline.profile import Profile
from sightline.progress import Progress
from sightline.quantities import SECONDS, format_quantity, show, significant
from sightline.scenario import Scenario
from sightline.scenario.rules import broken_by
from sightline.scenario.space import TRAINING_FIELDS, Space

if TYPE_CHECKING:
    from sightline.prediction.anchoring import Anchored
    from sightline.prediction.anchoring.anchored_steps import AnchoredSteps


class Found(NamedTuple):
    """A plan that a search found."""

    keys: tuple[float, ...]
    """What is to be small: the objective, or both of a front."""
    scenario: Scenario
    measure: Measure
    profile: Profile | None = None
    """Its prediction, where it is made already."""
    memory_bytes: float = nan
    """Of its fullest device."""

    @property
    def surely_fits(self) -> bool:
        """Whether the upper end of its memory's interval fits too."""
        if self.profile is not None:
            return self.profile.fit == "yes"
        return self.memory_bytes <= sure_bytes(self.scenario)

    def predicted(self, anchor: "Anchored | None" = None) -> Profile:
        """Return its prediction."""
        return predict(self.scenario, anchor=anchor) if self.profile is None else self.profile


_SEARCHED: Final = 0.8
"""Share of the work that is done when all plans were evaluated: what else could be chosen comes after it."""


def best_plans(
    spaces: Sequence[Space[Scenario]],
    request: Request,
    progress: Progress,
    *,
    workers: str | None = None,
    where: str | None = None,
    others: Callable[[], Sequence[Space[Scenario]]] = tuple,
) -> PlanAnswer:
    """Search every space, and return the best plans of all.

    With ``workers``, or with a place ``where`` what is found is kept, each space is searched in parts. ``others`` are
    spaces of every framework, where none is named: the best plan of each is an alternative.
    """
    if workers is None and where is None:
        parts: list[tuple[Counts, list[Candidate]]] = [
            search_space(space, request, progress=progress, until=_SEARCHED * place / len(spaces))
            for place, space in enumerate(spaces, start=1)
        ]
    else:
        from sightline.planning.training.distributed import search_spaces

        parts = search_spaces(spaces, request, progress, workers=workers, where=where)
    most = max(request.top, request.count // len(spaces))
    good = [_corrected(space, kept, request, most) for space, (_, kept) in zip(spaces, parts, strict=True)]
    found = list[Found]()
    for space, kept in zip(spaces, good, strict=True):
        measure = Measure(space=space, availability=request.availability)
        found += [Found(one.keys, resolved(space, one.fields), measure, memory_bytes=one.memory_bytes) for one in kept]
    plans = ranked(found, request)
    of_scenarios = (warning for space in spaces for warning in space.scenario.warnings)
    devices = {space.scenario.cluster.device.name: space.scenario.cluster.device for space in spaces}
    counted = [counts for counts, _ in parts]
    every = Counts().joined(*counted)
    return every.answer(
        plans,
        request.pareto,
        sampled=_as_multiples(every.sampled, found) if "batch" not in request.axes else (),
        objective=request.objective,
        free=tuple(dict.fromkeys(name for space in spaces for name in (*space.options, *space.free))),
        alternatives=LazySequence(partial(_alternatives, spaces, good, plans, request, others)),
        assumptions=price_assumptions(devices),
        warnings=tuple(dict.fromkeys((*of_scenarios, *_without_plans(spaces, counted)))),
    )


def _as_multiples(sampled: Sequence[tuple[float, float]], found: Sequence[Found]) -> list[tuple[float, float]]:
    """Figures as multiples of those of the front's first plan."""
    if not (sampled and found):
        return []
    first, second = min(one.keys for one in found)
    return [(x / first, y / second) for x, y in sampled]


def _corrected(space: Space[Scenario], kept: Sequence[Candidate], request: Request, most: int) -> Sequence[Candidate]:
    """The best plans of a space, at most so many, with the figures that an anchor gives them, in the order of these."""
    if request.anchor is None or not kept:
        return kept
    measure, sure = Measure(space=space, availability=request.availability), sure_bytes(space.scenario)
    if request.pareto is None:
        keys, memory = np.array([(one.keys[0], one.memory_bytes) for one in kept]).T
        kept = [kept[place] for place in leading(keys, memory, sure, most)]
    found = []
    for one in kept:
        figures = measure.of_profile(predict_step(resolved(space, one.fields), known=_steps(request)))
        found.append(one._replace(keys=tuple(float(measure(axis, figures)) for axis in request.axes)))
    return sorted(found, key=lambda one: (one.memory_bytes > sure, one.keys))


def _alternatives(
    spaces: Sequence[Space[Scenario]],
    kept: Sequence[Sequence[Candidate]],
    plans: Sequence[RankedPlan],
    request: Request,
    others: Callable[[], Sequence[Space[Scenario]]],
) -> Sequence[Neighbour]:
    """The best plan with each other value beside the mesh; none of a front, nor of objectives that are no shares."""
    if not plans or request.pareto or request.objective not in COMPARED:
        return ()

    def money(profile: Profile) -> float | None:
        measure = Measure(space=_asking(profile), availability=request.availability)
        run = measure.whole_run(measure.of_profile(profile))
        return None if run is None or run.cost_usd is None else float(run.cost_usd)

    first = plans[0].profile
    measure = Measure(space=_asking(first), availability=request.availability)
    key = float(measure(request.objective, measure.of_profile(first)))
    own = {space.scenario.plan.framework.name for space in spaces}
    further = [_as_split(space, first) for space in others() if space.scenario.plan.framework.name not in own]
    searched = ((space, search_space(space, request)[1]) for space in further)
    found = [(space, _corrected(space, best, request, request.top)) for space, best in searched if best]
    parts = [*zip(spaces, kept, strict=True), *found]
    if found:
        parts = [(_with_framework(space), best) for space, best in parts]
    return alternatives(parts, plans[0], key, money, partial(predict, anchor=request.anchor))


_SPLIT = ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel")


def _as_split(space: Space[Scenario], first: Profile) -> Space[Scenario]:
    """A space of plans that are split as the first one is, or not at all: soon searched."""
    scenario: Any = first.scenario
    degrees = {name: tuple({1, int(getattr(scenario.plan, name))}) for name in _SPLIT}
    return replace(space, values={**space.values, **{k: v for k, v in degrees.items() if space.values.get(k) is None}})


def _with_framework(space: Space[Scenario]) -> Space[Scenario]:
    """A space that names its framework among what tells it from others."""
    return replace(space, options={**space.options, "plan.framework": space.scenario.plan.framework.name})


def _asking(profile: Profile) -> Space[Scenario]:
    """The space of one plan alone."""
    scenario: Any = profile.scenario
    return Space(scenario=scenario)


def ranked(found: Sequence[Found], request: Request) -> list[RankedPlan]:
    """Return the best of what was found in order, or the Pareto-optimal plans, each predicted."""
    if request.pareto:
        front = [found[i] for i in front_of(np.array([one.keys for one in found]).reshape(-1, 2).T)]
        order = [front[i] for i in spread_over([(one.keys[0], one.keys[1]) for one in front], request.top)]
    else:
        same = SAME if request.objective in UNCERTAIN else 0.0
        keyed = [(one.keys[0], one.scenario.plan, one) for one in found]
        sure, tight = (in_order([one for one in keyed if one[2].surely_fits is fits], same) for fits in (True, False))
        if sure and tight and tight[0].keys < sure[0].keys and request.top > 1:
            sure = sure[: request.top - 1]
        order = [*sure, *tight]
    plan_at = cache(lambda place: _ranked_plan(order[place], request))
    if request.objective not in ("time", "cost") or request.pareto:
        return numbered([plan_at(place) for place in range(len(order))[: request.top]])
    places, reasons = _habitual_first(order, plan_at, request)
    plans = numbered([plan_at(place) for place in places[: request.top]])
    plans[:1] = [replace(one, preferred=reasons) for one in plans[:1]]
    return with_ties(plans, "step_time_s", _steps(request))


def _steps(request: Request) -> "AnchoredSteps | None":
    """What an anchor taught of steps."""
    return None if request.anchor is None else request.anchor.steps


NEAR = 0.05
"""Share by which a less doubtful plan may be slower than a tied one that it goes before."""
PREFERRED = ("calibrated", "less offload", "plain schedule")
"""Why a plan goes before a faster one that cannot be told apart from it, what weighs most first."""


def _doubts(found: Found, known: Knowledge) -> tuple[int, ...]:
    """What speaks against a plan that fits as surely as the others, as `PREFERRED` names what does not."""
    plan = found.scenario.plan
    # Steps of heterogeneous devices were never measured.
    is_known = not found.scenario.cluster.groups and known.evidence(found.scenario) == "calibrated"
    return not is_known, len(plan.offload), plan.schedule not in PLAIN_SCHEDULES


def _habitual_first(
    order: Sequence[Found], plan_at: Callable[[int], RankedPlan], request: Request
) -> tuple[list[int], tuple[str, ...]]:
    """Places in order, the least doubtful plan near and tied with the fastest before it, and why it is there."""
    places, steps = [*range(len(order))], _steps(request)
    first_of = dict[tuple[int, ...], int]()
    for place in (place for place in places if order[place].surely_fits == order[0].surely_fits):
        first_of.setdefault(_doubts(order[place], steps or Knowledge()), place)
    usual = next(iter(first_of), ())
    for doubts, place in sorted(item for item in first_of.items() if item[0] < usual):
        is_near = order[place].keys[0] <= (1.0 + NEAR) * order[0].keys[0]
        if is_near and with_ties([plan_at(0), plan_at(place)], "step_time_s", steps)[1].tied:
            reasons = (name for name, own, its in zip(PREFERRED, doubts, usual, strict=True) if own < its)
            return [place, *places[:place], *places[place + 1 :]], tuple(reasons)
    return places, ()


def _ranked_plan(found: Found, request: Request) -> RankedPlan:
    profile = found.predicted(request.anchor)
    evaluated = found.measure.of_profile(profile)
    run = found.measure.whole_run(evaluated)
    return RankedPlan(
        rank=1,
        profile=profile,
        value=shown_value(request.objective, found.measure, evaluated),
        obstacles=obstacles(found.scenario),
        figures={} if run is None else {k: None if v is None else float(v) for k, v in run.figures.items()},
    )


def _without_plans(spaces: Sequence[Space[Scenario]], counts: Sequence[Counts]) -> Iterator[str]:
    """Yield a sentence for each value beside the mesh that no valid plan has, where another has some."""
    # Valid plans that a bound left out are there too.
    are_there = [
        bool(one.evaluated or one.stopped or one.rejected[MICRO_BATCH] or one.rejected[SLOWER]) for one in counts
    ]
    if not any(are_there):
        return
    for key in dict.fromkeys(key for space in spaces if not space.clusters for key in space.options):
        having = {str(space.options[key]) for space, there in zip(spaces, are_there, strict=True) if there}
        values = dict.fromkeys(show(space.options[key]) for space in spaces if str(space.options[key]) not in having)
        yield from (f"{key} {value} has no valid plan" for value in values)


COMPARED = ("time", "cost", "energy", "memory")
"""Objectives of which a share can be lost."""


class _Option(NamedTuple):
    """The best plan with some values, by what is to be small."""

    set: Mapping[str, Any]
    key: float
    """Infinite where no plan fits; of those of which no plan is kept the least that it could be."""
    scenario: Scenario | None = None


def alternatives(
    parts: Sequence[tuple[Space[Scenario], Sequence[Candidate]]],
    first: RankedPlan,
    key_of_first: float,
    money: Callable[[Profile], float | None],
    predict: Callable[[Scenario], Profile],
) -> list[Neighbour]:
    """Return the best plan with each value that the first plan does not have, the least loss first, then those without.

    Values of which too few plans were kept to know the best are left out.

    Args:
        parts: The spaces that were searched, and the good plans of each.
        first: The best plan of all.
        key_of_first: Of it what is to be small.
        money: Dollars of the run of a prediction; None where nobody knows them.
        predict: What predicts a plan.
    """
    options = [option for space, kept in parts for option in _options(space, kept)]
    own = next((one.set for one in options if _is(one, first.profile.scenario)), None)
    if own is None:
        return []
    found = []
    for key, chosen in own.items():
        values = {str(one.set[key]): one.set[key] for one in options if str(one.set[key]) != str(chosen)}
        for value in values.values():
            having = [one for one in options if str(one.set[key]) == str(value)]
            least = min(having, key=lambda one: one.key)
            if least.scenario is None and least.key < inf:
                continue
            others = {name: one for name, one in least.set.items() if name != key and str(one) != str(own[name])}
            found.append(_told({key: value}, others, least, key_of_first, money, predict))
    return by_loss(found)


def _options(space: Space[Scenario], kept: Sequence[Candidate]) -> Iterator[_Option]:
    """The best plan of a space, or of each number of devices in it."""
    if not space.clusters:
        if space.options:
            yield _Option(dict(space.options), *_best(space, next(iter(kept), None)))
        return
    for cluster in space.clusters:
        best = next((one for one in kept if one.fields["devices"] == cluster.devices), None)
        named = {**space.options, **devices_setting(cluster)}
        yield _Option(named, kept[-1].keys[0]) if best is None and kept else _Option(named, *_best(space, best))


def _best(space: Space[Scenario], best: Candidate | None) -> tuple[float, Scenario | None]:
    return (inf, None) if best is None else (best.keys[0], resolved(space, best.fields))


def _is(option: _Option, own: Scenario) -> bool:
    """Whether a scenario has the values of an option."""
    one = option.scenario
    if one is None or one.cluster is not own.cluster or one.model is not own.model:
        return False
    fixed, its = ({k: v for k, v in fields_of(of.plan).items() if k not in TRAINING_FIELDS} for of in (one, own))
    return str(fixed) == str(its)


def _told(
    value: Mapping[str, Any],
    others: Mapping[str, Any],
    option: _Option,
    best: float,
    money: Callable[[Profile], float | None],
    predict: Callable[[Scenario], Profile],
) -> Neighbour:
    if option.scenario is None:
        return Neighbour(set=value, loss=None, sentence="no plan fits and meets the limits")
    profile = predict(option.scenario)
    said = f"best step time {format_quantity(significant(float(profile.step_time_s), 3), SECONDS)}"
    cost = money(profile)
    if cost is not None:
        said += f", {cost:,.{0 if cost >= 100 else 2}f} USD"
    said += "".join(f", with {name.partition('.')[2] or name} {one}" for name, one in others.items())
    return Neighbour(set=value, loss=option.key / best - 1, sentence=f"{said}{'; may not fit' * profile.tight}")


_MOST = 64
"""Combinations of restricted values that are looked at."""
_DEGREES = ("tensor_parallel", "pipeline_parallel", "context_parallel")


def contradictions(spaces: Sequence[Space[Scenario]]) -> list[str]:
    """Return a sentence for every rule that the fixed fields of all spaces break, whatever is chosen for the others.

    A field that is restricted to several values breaks rules where each of them does. Sentences that are said of all
    spaces and values stand for the others.
    """
    found = [[str(broken) for broken in broken_by(one)] for space in spaces for one in _fixed(space)]
    every = list(dict.fromkeys(sentence for sentences in found for sentence in sentences)) if all(found) else []
    return [sentence for sentence in every if all(sentence in sentences for sentences in found)] or every


def _fixed(space: Space[Scenario]) -> Iterator[Scenario]:
    """Yield the scenarios that the restricted fields allow; of too many values those that are fixed to one alone."""
    fields = {name: values for name, values in space.values.items() if values is not None}
    if prod(map(len, fields.values())) > _MOST:
        fields = {name: values for name, values in fields.items() if len(values) == 1}
    for values in product(*fields.values()):
        yield _chosen(space.scenario, dict(zip(fields, values, strict=True)))


def _chosen(scenario: Scenario, fixed: Mapping[str, Any]) -> Scenario:
    """The scenario with some fields, and the number of replicas that its devices have room for."""
    ranks = 1
    for degree in _DEGREES:
        ranks *= int(fixed.get(degree, 1))
    replicas = max(1, scenario.cluster.devices // ranks)
    return replace(scenario, plan=replace(scenario.plan, **{"data_parallel": replicas, **fixed}))

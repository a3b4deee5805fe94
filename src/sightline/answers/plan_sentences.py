"""What a search of plans says in sentences: which plans are tied, what binds them, what was searched, what to try."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from inspect import getdoc
from math import floor, inf
from typing import Any

from sightline.answers import labels, plan_columns, units
from sightline.answers.outline import BAD, FAINT, GOOD, PERHAPS
from sightline.content import grouped
from sightline.launching.engines.rules import LAUNCH_RULES as SERVER_RULES
from sightline.launching.training.rules import LAUNCH_RULES
from sightline.loading import to_mapping
from sightline.loading.plans import OFFERED
from sightline.loading.sources import as_options
from sightline.planning.clusters import PRICE_OF, devices_setting, reads_back
from sightline.planning.plan_answer import PlanAnswer, RankedPlan
from sightline.planning.plan_limits import LIMITS
from sightline.prediction.changes import slower_because
from sightline.profile import Profile, seconds_by_limit
from sightline.profile.metrics import metric_of
from sightline.quantities import counted, percent, relative, significant
from sightline.scenario import Cluster
from sightline.scenario.rules import GENERATION_RULES, TRAINING_RULES
from sightline.scenario.rules.techniques import briefly

TIED, ON_FRONT = ("tied", FAINT), ("Pareto", GOOD)
"""What is said behind the ranks of some plans: they cannot be told apart from the first; no other is better in both."""
UNLAUNCHED, TIGHT = ("not launchable", BAD), ("may not fit", PERHAPS)
"""Its framework does not run it as it is; its interval of memory goes beyond what a device has."""
_LIMITS = {limit.rejects: limit.exceeded for limit in LIMITS.values()}
"""Limits that reject plans, in words; rules have theirs in their first sentence."""
_LEFT_OUT = {
    "micro_batch": "one micro-batch alone does not fit",
    "slower": "their minimum time exceeds the best plan found",
}
"""Why valid plans are not evaluated, in words; neither limits nor rules."""
_KEEPS_FROM_LAUNCH = {rule.__name__ for rule in (*OFFERED, *LAUNCH_RULES, *SERVER_RULES)}
_MOST_RULES, _MOST_LINES, _MOST_OBSTACLES = 3, 8, 4
_NOTHING_NEAR = (
    "none found among other plans, formats, adapters, batches, lengths and frameworks, devices with more memory, and "
    "up to 64 times more devices"
)
"""Said where no change of a request leads to a plan."""
_LEAST_SHARE = 0.05
"""Of the time: what bounds less is not named."""


def title(answer: PlanAnswer) -> str:
    """Return what was planned: the scenario's name, or the model and, where all plans agree, what it runs on."""
    if not answer.plans:
        kind = "launchable plan" if unlaunched(answer) else "plan"
        return f"Stopped before a {kind} was found" if answer.stopped else f"No {kind} {_unmet(answer)}"
    scenario = answer.plans[0].profile.scenario
    named = scenario.name
    clusters = {p.profile.scenario.cluster.in_words for p in answer.plans}
    return named or (labels.title(scenario) if len(clusters) == 1 else scenario.model.name)


def _unmet(answer: PlanAnswer) -> str:
    """What no plan does: fit, or what those that fit exceed."""
    limits = [said for name, said in _LIMITS.items() if name != "memory" and answer.rejected.get(name)]
    met = " and ".join(said.removeprefix("exceed ") for said in limits)
    return f"that fits meets {met}" if met else "fits"


def unlaunched(answer: PlanAnswer) -> dict[str, int]:
    """Return how many candidates cannot be launched, by the rule that they break; nothing where these were searched."""
    return {name: count for name, count in answer.rejected.items() if name in _KEEPS_FROM_LAUNCH}


def subtitle(answer: PlanAnswer) -> list[str]:
    """Return what runs on what, and what all plans share of how."""
    if not answer.plans:
        return []
    scenario = answer.plans[0].profile.scenario
    about = labels.subtitle(scenario)[0].split(" · ")
    held = [part for part in about if all(part in labels.subtitle(p.profile.scenario)[0] for p in answer.plans)]
    clusters = [one.profile.scenario.cluster for one in answer.plans]
    if len({cluster.device.name for cluster in clusters}) == 1 < len({cluster.devices for cluster in clusters}):
        held.insert(1, clusters[0].device.name)
    common = plan_columns.shared(answer)
    return [" · ".join(held), *([f"all plans: {', '.join(common)}"] if common and len(answer.plans) > 1 else [])]


def none_in_words(answer: PlanAnswer) -> str:
    """Return that there is no plan, and how many times the memory of the devices the smallest one needs."""
    if answer.stopped:
        return "none found before the search was stopped"
    if answer.least_share < inf and not answer.limits:
        needs = f"needs {significant(answer.least_share, 2):,g} x the memory of these devices"
        return (
            f"none fits: {needs if answer.least_share > 1.0 else 'what is offloaded exceeds the memory of the hosts'}"
        )
    return "none meets the request"


def best_in_words(answer: PlanAnswer) -> str:
    """Return how the first plan runs and on what, as people say it."""
    scenario = answer.plans[0].profile.scenario
    return ", ".join([scenario.cluster.in_words, *labels.phrases(scenario)])


def costs(answer: PlanAnswer) -> str:
    """Return what the first plan costs, failures included: its run, its devices by the hour, tokens of a service."""
    best = answer.plans[0]
    if best.profile.task.name == "serving":
        return ", ".join(_rent(answer, best))
    calendar_s = plan_columns.value(best, "calendar_time_s")
    if calendar_s is not None:
        return ", ".join(_parts_of_run(answer, best, calendar_s))
    hourly = plan_columns.value(best, "usd_per_hour")
    if hourly is None or best.profile.task.name != "training" or plan_columns.value(best, "cost_usd") is not None:
        return ""
    for_run = "set workload.total_tokens or workload.samples for the whole run"
    return f"{plan_columns.shown('usd_per_hour', hourly)} per hour; {for_run}"


def why_it_wins(answer: PlanAnswer) -> str:
    """Return what the obvious other choices would lose or why they do not fit, the closest ones first; or nothing."""
    found = [
        f"{labels.setting(one.set)}: {_changed(answer, one.loss)} {compared_by(answer)} ({one.sentence})"
        if one.loss is not None
        else f"{labels.setting(one.set)} {one.sentence}"
        for one in answer.neighbours
        if one.loss is None or one.loss >= 0
    ]
    return "; ".join(found[:2])


def standing(answer: PlanAnswer) -> list[str]:
    """Return how likely another plan than the first is the better one, tied plans in one sentence."""
    others = answer.plans[1:]
    tied = [one for one in others if one.tied]
    if tied:
        odds = [one for one in tied if one.better is not None]
        chance = (
            f": {odds[0].rank} is better than 1 with a probability of {_chance(odds[0].better or 0.0)}" if odds else ""
        )
        rest = [one.better or 0.0 for one in odds[1:]]
        others_too = f", {ranks([one.rank for one in odds[1:]])} with {_between(rest)}" if rest else ""
        which = ranks([1, *(one.rank for one in tied)])
        return [f"{which} are tied: the difference is within the uncertainty{chance}{others_too}"]
    if others and others[0].better is not None:
        return [f"{others[0].rank} is better than 1 with a probability of {_chance(others[0].better)}"]
    return []


def _between(chances: Sequence[float]) -> str:
    low, high = (f"{100 * end:.0f}" for end in (min(chances), max(chances)))
    return f"{low} %" if low == high else f"{low} to {high} %"


def ranks(numbers: Sequence[int]) -> str:
    """Return ranks as people list them: 1 to 4 and 7."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    said = [
        f"{run[0]} to {run[-1]}" if len(run) > 2 else str(one) for run in runs for one in (run if len(run) < 3 else [0])
    ]
    return _listed(said)


def obstacles(plans: Sequence[RankedPlan], most: int = _MOST_OBSTACLES) -> list[str]:
    """Return what frameworks do not offer, a sentence for the plans that it keeps from being launched."""
    by = grouped((briefly(sentence), one.rank) for one in plans for sentence in one.obstacles)
    found = [f"{ranks(places)} not launchable: {sentence}" for sentence, places in by.items()]
    rest = len(found) - most
    return [*found[:most], *([f"{rest} more reasons"] if rest > 0 else [])]


def most_surely(profile: Profile) -> str:
    """Return the memory that a plan may take at most for the upper end of its interval to fit, as an option's value."""
    _, high = profile.interval["memory_bytes.total"]
    share = float(profile.memory_bytes["total"]) / float(high or 1.0)
    return f"{floor(share * float(profile.usable_bytes) / 1e8) / 10:g}GB"


def chips(answer: PlanAnswer, position: int) -> list[tuple[str, str]]:
    """Return what is said behind a plan's rank; not what is so of all plans, but for what speaks against them."""
    one, ties = answer.plans[position], sum(other.tied for other in answer.plans[1:])
    tied = 0 < ties < len(answer.plans) - 1 and (one.tied or position == 0)
    on_front = position in answer.pareto and len(answer.pareto) < len(answer.plans)
    said = {TIED: tied, ON_FRONT: on_front, UNLAUNCHED: not one.launchable, TIGHT: one.profile.tight}
    return [chip for chip, is_so in said.items() if is_so]


def front(answer: PlanAnswer) -> list[str]:
    """Return what it means to be on the Pareto front, in a sentence; nothing where nobody asked and all plans are."""
    if not answer.pareto or not (answer.pareto_axes or len(answer.pareto) < len(answer.plans)):
        return []
    which = "all plans are" if len(answer.pareto) == len(answer.plans) else "Pareto:"
    axes = " and ".join(map(plan_columns.name, plan_columns.front_axes(answer)))
    return [f"{which} on the Pareto front: no other plan is better in both {axes}"]


def second(answer: PlanAnswer) -> list[str]:
    """Return why plan 2 stands below plan 1, in a sentence: by how much the leading figure differs, and from what."""
    if len(answer.plans) < 2 or answer.pareto_axes:
        return []
    key, (first, other) = plan_columns.leading(answer), answer.plans[:2]
    own, its = plan_columns.value(first, key), plan_columns.value(other, key)
    if not own or its is None:
        return []
    metric, (mine, theirs) = metric_of(key), (plan_columns.shown(key, one) for one in (own, its))
    if mine == theirs:
        return [f"2 stands below 1: the same {plan_columns.name(key)}, but 1 is simpler"]
    words = ("shorter", "longer") if metric.unit == "s" else ("lower", "higher")
    differs = f"{relative(its / own, *words)} {plan_columns.name(key)} ({theirs} instead of {mine})"
    if (its > own) != (metric.better == "higher"):
        is_timed = first.profile.task.name == "training" and answer.objective in ("time", "cost")
        return [f"2 stands below 1: {differs}{f'; {slower_because(first.profile, other.profile)}' if is_timed else ''}"]
    reasons = ", ".join((*first.preferred, *["2 may not fit"] * other.profile.tight))
    return [f"2 stands below 1 despite its {differs}{f'; 1 is preferred: {reasons}' if reasons else ''}"]


def _chance(probability: float) -> str:
    return "under 1 %" if probability < 0.01 else percent(probability)


def binding(answer: PlanAnswer) -> list[str]:
    """Return how many users the first plan serves, and what binds the second where that is something else.

    Of a load: what limits the first two.
    """
    if any(one.profile.limited_by for one in answer.plans[:2]):
        return [f"{one.rank}: {one.profile.limited_by}" for one in answer.plans[:2]]
    users = [(one.rank, users) for one in answer.plans[:1] if (users := one.figures.get("most_users"))]
    served = [f"{rank} serves up to {count:,.0f} concurrent users within memory and limits" for rank, count in users]
    limits = [_bounds(one) for one in answer.plans[:2]]
    differ = len({one.partition(" (")[0] for one in limits}) > 1
    return [*served, *([f"2 is bound by {limits[1]}"] if differ and limits[1] else [])]


def _bounds(plan: RankedPlan) -> str:
    limits = {bound: float(seconds) for bound, seconds in seconds_by_limit(plan.profile).items()}
    whole = sum(limits.values())
    shares = {bound: seconds / whole for bound, seconds in limits.items()} if whole else {}
    ranked = sorted(shares.items(), key=lambda item: -item[1])
    said = [
        f"{bound.replace('_', ' ')} ({percent(share)})"
        for position, (bound, share) in enumerate(ranked)
        if share >= _LEAST_SHARE or not position
    ]
    return ", ".join(said)


def searched(answer: PlanAnswer) -> str:
    """Return how many plans were evaluated, in which time, and how many of them are feasible."""
    said = f"evaluated {counted(answer.evaluated, 'plan')} in {units.seconds(answer.seconds)}"
    none = "none found" if answer.stopped else "none fits"
    feasible = f"{answer.feasible:,} feasible" if answer.feasible else none
    stopped = " (stopped early, best so far)" if answer.stopped else ""
    return f"{said}: {feasible}{stopped}"


def held_fixed(answer: PlanAnswer) -> list[str]:
    """Return the choices of the plan that were not searched, in a sentence."""
    names = ", ".join(key.removeprefix("plan.") for key in answer.held_fixed)
    return [f"held fixed: {names}"] if names else []


def left_out(answer: PlanAnswer) -> list[str]:
    """Return how many valid plans were not evaluated, a sentence for each reason."""
    limited = {"deadline", "budget"} & answer.rejected.keys()
    return [
        f"{count:,} skipped: {said}{' or a limit' if limited and name == 'slower' else ''}"
        for name, said in _LEFT_OUT.items()
        if (count := answer.rejected.get(name, 0))
    ]


def beyond_limits(answer: PlanAnswer) -> list[tuple[str, str, str]]:
    """Return how many valid plans exceed each limit, with its words, the most first."""
    return _counted({name: count for name, count in answer.rejected.items() if name in _LIMITS})


def rejections(answer: PlanAnswer) -> list[tuple[str, str, str]]:
    """Return how many candidates break each rule, with its words, the most first; all of them where none is valid.

    Where no valid plan fits, only the rules count by which others cannot be launched.
    """
    if answer.evaluated and not answer.plans:
        return _counted(unlaunched(answer), _MOST_RULES)
    most = _MOST_RULES if answer.plans else len(answer.rejected)
    others = (*_LIMITS, *_LEFT_OUT)
    return _counted({name: count for name, count in answer.rejected.items() if name not in others}, most)


def _counted(rejected: Mapping[str, int], most: int = len(_LIMITS)) -> list[tuple[str, str, str]]:
    ranked = sorted(rejected.items(), key=lambda item: -item[1])
    most = most if len(ranked) > most + 1 else len(ranked)
    shown = [(f"{count:,}", name, words(name)) for name, count in ranked[:most]]
    rest = ranked[most:]
    return [*shown, *([(f"{sum(c for _, c in rest):,}", f"{len(rest)} more rules", "")] if rest else [])]


def words(rule: str) -> str:
    """Return what a rule or limit says, in a sentence without its stop."""
    if rule in _LIMITS:
        return _LIMITS[rule]
    known = {
        one.__name__: getdoc(one) or "" for one in (*TRAINING_RULES, *LAUNCH_RULES, *GENERATION_RULES, *SERVER_RULES)
    }
    return known.get(rule, "").partition(". ")[0].partition("\n")[0].rstrip(".")


def compared_by(answer: PlanAnswer) -> str:
    """Return what neighbours and better hardware are compared by: the objective; of a front in training the time."""
    return plan_columns.name(_compared_key(answer)) if answer.plans else ""


def _compared_key(answer: PlanAnswer) -> str:
    by_time = answer.plans[0].profile.task.name == "training" and (answer.pareto_axes or answer.objective == "batch")
    return plan_columns.leading(answer, "time" if by_time else "")


def neighbours(answer: PlanAnswer) -> list[tuple[str, str, str]]:
    """Return the obvious other choices with what each loses and why."""
    return _losses(answer, is_gain=False)


def gains(answer: PlanAnswer) -> list[tuple[str, str, str]]:
    """Return the obvious other choices that would be better than the best plan, and why they are not it."""
    return _losses(answer, is_gain=True)


def alternatives(answer: PlanAnswer) -> list[tuple[str, str, str]]:
    """Return what the best plan with each other allowed value loses."""
    return [
        (labels.setting(one.set), _changed(answer, one.loss), one.sentence) for one in answer.alternatives[:_MOST_LINES]
    ]


def _losses(answer: PlanAnswer, *, is_gain: bool) -> list[tuple[str, str, str]]:
    found = [one for one in answer.neighbours if (one.loss is not None and one.loss < 0) == is_gain]
    return [(labels.setting(one.set), _changed(answer, one.loss), one.sentence) for one in found[:_MOST_LINES]]


def _changed(answer: PlanAnswer, loss: float | None) -> str:
    """By how much what is compared is more or less: of a rate that half as much is, a loss of 1 is -50 %."""
    if loss is None:
        return "-"
    change = 1.0 / (1.0 + loss) - 1.0 if metric_of(_compared_key(answer)).better == "higher" else loss
    return percent(change, 1, signed=True)


def hardware(answer: PlanAnswer) -> list[tuple[str, str, str]]:
    """Return what better parts of the hardware would give, most first."""
    ranked = sorted(answer.hardware, key=lambda one: -one.gain)
    return [(f"{one.factor:g} x {one.part}", _changed(answer, -one.gain), one.sentence) for one in ranked[:_MOST_LINES]]


def nearest(answer: PlanAnswer) -> list[tuple[str, str]]:
    """Return changes of the request under which something fits, with the command that tries each."""
    if not (answer.plans or answer.nearest or answer.stopped):
        return [(_NOTHING_NEAR, "")]
    near = answer.nearest[:_MOST_LINES]
    return [(f"{labels.setting(one.set)}: {one.sentence}" if one.set else one.sentence, one.command) for one in near]


def settings(answer: PlanAnswer, plan: RankedPlan) -> list[str]:
    """Return the options that make a scenario this plan: ``--set`` for each searched field that is not its default."""
    return list(as_options(settings_of(answer, plan)))


def settings_of(answer: PlanAnswer, plan: RankedPlan) -> dict[str, Any]:
    """Return what makes a scenario this plan by dotted key: each searched field that is not its default."""
    scenario = plan.profile.scenario
    # Workers of their own are written as the two mappings that they are read from.
    chosen = to_mapping(scenario)["plan"] if hasattr(scenario.plan, "disaggregate") else scenario.plan.to_dict()
    keys = answer.free or [key for key in plan_columns.HEADINGS if key in chosen]
    found: dict[str, Any] = {}
    for name in dict.fromkeys(key.removeprefix("plan.") for key in keys):
        if name == "batch":
            found["workload.batch"] = int(scenario.workload.batch)
        elif name in ("cluster", "cluster.devices"):
            found |= _devices(name, scenario.cluster)
        elif name in chosen and not _goes_without_saying(name, scenario.plan, chosen):
            found[f"plan.{name}"] = _shortly(chosen[name])
    return found


def asked_alone(answer: PlanAnswer, plan: RankedPlan, mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Return the question whose only answer is a plan, by dotted keys.

    Args:
        answer: Of the search.
        plan: One of its plans.
        mapping: What was asked, with the keys of a scenario file.
    """
    resolved = dict(labels.by_dotted_key(to_mapping(plan.profile.scenario)))
    chosen = settings_of(answer, plan)
    found = {
        key: resolved.get(key) if labels.is_restricted(value) else value for key, value in labels.by_dotted_key(mapping)
    }
    if "cluster" in answer.free or any(key.startswith("cluster") for key in chosen):
        found["cluster"] = " + ".join(plan.profile.scenario.cluster.stated)
        chosen = {key: value for key, value in chosen.items() if not key.startswith("cluster")}
    return {key: value for key, value in {**found, **chosen}.items() if value is not None}


def can_be_set(answer: PlanAnswer, plan: RankedPlan) -> bool:
    """Return whether `settings` say on which devices of several kinds a plan runs: by names of the catalog."""
    return "cluster" not in answer.free or reads_back(plan.profile.scenario.cluster)


def _devices(name: str, cluster: Cluster) -> dict[str, Any]:
    """The setting of a plan's devices; none where the scenario states figures of theirs, so that no name reads back."""
    if not reads_back(cluster):
        return devices_setting(cluster) if name == "cluster.devices" and not cluster.groups else {}
    kinds = cluster.stated
    return {"cluster.devices": kinds} if cluster.groups else {name: kinds[0]}


def _shortly(value: Any) -> Any:
    """A choice without what its kind implies."""
    is_adapter = isinstance(value, Mapping) and {"kind", "rank"} <= value.keys()
    return {key: value[key] for key in ("kind", "rank")} if is_adapter else value


def _goes_without_saying(name: str, plan: Any, chosen: Mapping[str, Any]) -> bool:
    """Whether a field has this value where nobody states it."""
    usual = (plan.engine if hasattr(plan, "engine") else plan.framework).defaults
    if name == "data_parallel":
        return "replicas" not in chosen
    if name == "micro_batch" or name in usual:
        return False
    if name == "schedule":
        return bool(chosen[name] == ("interleaved" if chosen["virtual_stages"] > 1 else "1f1b"))
    stated = {field.name: field.default for field in fields(plan)}
    return name in stated and getattr(plan, name) == stated[name]


def assumptions(answer: PlanAnswer) -> list[str]:
    """Return what the figures rest on, a sentence each; of prices those of the plans' devices."""
    names = {part.device.name for one in answer.plans for part in one.profile.scenario.cluster.parts}
    return [
        f"{name}: {value}"
        for name, value in answer.assumptions.items()
        if not name.startswith(PRICE_OF) or name.removeprefix(PRICE_OF) in names
    ]


def _listed(items: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(items[:-1]), *items[-1:])))


_LONG_S = 3 * 365 * 86400.0
"""Seconds of a run that hardly anybody waits for."""


def too_long(answer: PlanAnswer) -> list[str]:
    """Return that no run ends within a time that anybody waits for, in a sentence; nothing of unknown length."""
    times = [plan_columns.value(one, "calendar_time_s") for one in answer.plans]
    is_long = bool(times) and all(one is not None and one > _LONG_S for one in times)
    long = f"no plan shown finishes within {units.seconds(_LONG_S)}; use more devices, or fewer tokens or parameters"
    return [long] * is_long


def _rent(answer: PlanAnswer, first: RankedPlan) -> Iterator[str]:
    """What the devices of a service cost: per hour, and per token at the rate that plans are compared at."""
    tokens = answer.assumptions.get("cost", "cost per million output tokens").removeprefix("cost ")
    for key, said in (("cost_usd_per_million_tokens", tokens), ("usd_per_hour", "per hour")):
        if (figure := plan_columns.value(first, key)) is not None:
            yield f"{plan_columns.shown(key, figure)} {said}"
    rate, capacity = first.profile.scenario.workload.arrival.rate, first.profile.capacity_requests_per_s
    if answer.objective == "cost" and capacity and rate:
        yield f"capacity {units.percent(capacity / rate - 1.0)} above the load"


def _parts_of_run(answer: PlanAnswer, first: RankedPlan, calendar_s: float) -> Iterator[str]:
    profile = first.profile
    low, high = profile.interval.get(profile.task.whole, (None, None))
    ends = [calendar_s * float(end) / float(profile.whole_s) for end in (low, high) if end and profile.whole_s]
    spread = f" (80 %: {units.span(ends[0], ends[1])})" if len(ends) == len((low, high)) else ""
    yield f"{units.seconds(calendar_s)}{spread}"
    asked = [plan_columns.leading(answer, axis) for axis in answer.pareto_axes or (answer.objective,)]
    for key in dict.fromkeys(("cost_usd", *asked)):
        figure = plan_columns.value(first, key)
        if figure is not None and key not in ("step_time_s", "run_time_s", "calendar_time_s"):
            named = "" if key == "cost_usd" else f"{plan_columns.label(key)} "
            yield f"{named}{plan_columns.shown(key, figure)}"

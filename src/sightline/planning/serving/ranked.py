"""Plans that serve a load, as they are asked for: searched, answered, and why others serve less."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from sightline.errors import InputError
from sightline.launching.registry import obstacles
from sightline.loading.sources import with_settings
from sightline.planning.clusters import devices_setting, price_assumptions
from sightline.planning.generation.generation_search import UNKNOWN_QUALITY, free_fields
from sightline.planning.generation_objectives import missed_by
from sightline.planning.plan_answer import LazySequence, NearestPlan, Neighbour, PlanAnswer, RankedPlan, by_loss
from sightline.planning.plan_limits import Command, Options, read_amount, read_limits
from sightline.planning.rationale.generation_rationale import ALIKE, LATENCIES, SEEN
from sightline.planning.serving.layouts import LAYOUT, Finalist, ServingSpace
from sightline.planning.serving.serving_search import (
    SIZE,
    Placed,
    Simulated,
    choices_of,
    is_of_any_format,
    objective_of,
    search,
    single_changes,
)
from sightline.planning.serving.trial import COMPARED, Trial, capacity_interval, has_times, objective_in, tried
from sightline.prediction.changes import does_not_fit
from sightline.profile.metrics import limits_in_words, metric_of
from sightline.progress import Progress
from sightline.quantities import SECONDS, counted, format_quantity
from sightline.scenario import GenerationPlan, Slo
from sightline.simulation.capacity import ENOUGH, searched_as
from sightline.simulation.load import load_of, mean_lengths
from sightline.simulation.results.summary import answered, meets, short_of_rate, times_within
from sightline.simulation.simulate import DRAWS, simulate
from sightline.validators import unusual


def neighbours(best: Placed, found: Simulated, free: Collection[str]) -> list[Neighbour]:
    """Return single changes of the best plan with what each loses, the least loss first, those that do not fit last.

    What the search simulated is told as it was found, other layouts with their own best sizes of iterations; the others
    are simulated.
    """
    searched = {name.rpartition(".")[2] for name in free}
    finalist, against = best.trial.finalist, None
    several = finalist.scenario.plan.replicas > 1 and not finalist.steady.variant.pooled
    said = [_fewer_replicas(best.trial)] if found.stated and several else []
    for stated, plan in single_changes(finalist.scenario, finalist.space):
        names = {name.rpartition(".")[2] for name in stated}
        if not names <= searched:
            continue
        layout = bool(names & {*LAYOUT, "quantization"})
        known = found.trials if layout else found.other_sizes
        trial = next((one for one in known if _is_of(one.finalist, plan, found, sized=not layout)), None)
        is_other_format = stated.get("plan.quantization", "none") != "none"
        if trial is None and layout and (found.stated or is_other_format):
            # On as many devices it may have another number of replicas than it needs; formats were searched.
            continue
        if trial is None:
            # A layout has its own best size of iterations, and every plan its own limit of sequences.
            same = finalist._replace(max_sequences=None).changed(plan)
            own = (one for one in found.swept.finalists if layout and _is_of(one, plan, found, sized=False))
            trial = tried(next(own, same), best.trial.rate, how=COMPARED)
            against = against or tried(best.trial.finalist, best.trial.rate, how=COMPARED)
        if trial is None:
            unfit = simulate(replace(finalist.scenario, plan=plan), intervals=False)
            said.append(Neighbour(set=stated, loss=None, sentence=does_not_fit(unfit)))
            continue
        beside = against if trial.how is COMPARED and against else best.trial
        neighbour = _compared(trial, stated, best, beside, found, (SIZE, "chunked_prefill"))
        said += [neighbour] if neighbour.loss is None or abs(neighbour.loss) > ALIKE else []
    return by_loss(said)


def _compared(
    trial: Trial, stated: dict[str, Any], best: Placed, beside: Trial, found: Simulated, names: Sequence[str]
) -> Neighbour:
    """What a plan loses with what is ``stated``, and in which of ``names`` it differs as well.

    ``beside`` is the best plan, simulated as closely as the other.
    """
    its, own = (found.figures_of(one)[found.compared.key] for one in (trial, beside))
    if not trial.rate or not its or not own:
        return Neighbour(set=stated, loss=None, sentence=trial.capacity.sentence)
    said = _beside(best.trial, trial, trial.rate / beside.rate)
    if found.stated and not trial.meets:
        return Neighbour(set=stated, loss=None, sentence=f"misses the objective: {said}")
    loss = float(missed_by(found.compared.ranked_as, its, own)) - 1.0
    why = f"; {_why_not(trial, found)}" if loss < -ALIKE else ""
    return Neighbour(set=stated, loss=loss, sentence=f"{said}{_with_others(trial, best.trial, stated, names)}{why}")


def _why_not(better: Trial, found: Simulated) -> str:
    """Why a plan that serves more is not the best one."""
    if better in found.trials:
        return "tied with the best plan within the uncertainty, but less simple"
    return "ranked too low by the first estimate to be listed; raise --top to include it"


def alternatives(best: Placed, found: Simulated, spaces: Sequence[ServingSpace]) -> list[Neighbour]:
    """Return the best plan that was simulated with each other choice - an engine, a cluster - the least loss first."""
    own, best_by_length = choices_of(best.trial.finalist), {best.trial.how: best.trial}
    tied = [one.trial for one in found.best(len(found.trials)) if one.place.tied]
    there = [choices_of(one) for one in (*found.swept.finalists, *(of.finalist for of in found.trials))]
    asked = [{"plan.framework": one} for space in spaces for one in space.values.get("framework") or ()]
    said = []
    for key, chosen in own.items():
        values = {str(of[key]): of[key] for of in (*there, *asked) if key in of and str(of[key]) != str(chosen)}
        for word, value in values.items():
            having = [one for one in found.trials if str(choices_of(one.finalist).get(key)) == word]
            if having:
                names = (*LAYOUT, SIZE, "chunked_prefill")
                first = min(having, key=found.rank_value)
                if first.how not in best_by_length:
                    # Shorter runs promise more, to both.
                    again = tried(best.trial.finalist, best.trial.rate, how=first.how, sure=best.trial.how.within)
                    best_by_length[first.how] = again or best.trial
                neighbour = _compared(first, {key: value}, best, best_by_length[first.how], found, names)
                within = "; tied within the uncertainty" if first in tied and neighbour.loss is not None else ""
                said.append(replace(neighbour, sentence=neighbour.sentence + within))
            elif not found.stated and not found.stopped:
                unlisted = all(str(of.get(key)) != word for of in there)
                none = "no layout meets the objective" if unlisted else "does not fit"
                said.append(Neighbour(set={key: value}, loss=None, sentence=none))
    return by_loss(said)


def _with_others(trial: Trial, best: Trial, stated: Mapping[str, Any], names: Sequence[str]) -> str:
    """What a plan has otherwise than the best one beside what is ``stated``, as the end of a sentence."""
    plan, own = trial.finalist.scenario.plan, best.finalist.scenario.plan
    differ = [one for one in names if f"plan.{one}" not in stated and getattr(plan, one) != getattr(own, one)]
    said = " and ".join(f"{name} {str(getattr(plan, name)).lower()}" for name in differ)
    return f", with {said}" if said else ""


def _fewer_replicas(best: Trial) -> Neighbour:
    """The best plan with a replica less, which does not serve the stated load."""
    count = int(best.finalist.scenario.plan.replicas) - 1
    trial = tried(best.finalist.replicated(count))
    sentence = "does not fit" if trial is None else f"misses the objective: {_beside(best, trial)}"
    return Neighbour(set={"plan.replicas": count}, loss=None, sentence=sentence)


def _is_of(finalist: Finalist, plan: GenerationPlan, found: Simulated, *, sized: bool) -> bool:
    """Whether a plan has another's degrees and formats, with as many replicas as it takes; its budget if ``sized``."""
    own, degrees = finalist.scenario.plan, LAYOUT[: -1 if found.stated else None]
    names = (*degrees, "quantization", *((SIZE, "chunked_prefill") if sized else ()))
    return all(getattr(own, name) == getattr(plan, name) for name in names) and own.engine is plan.engine


def _beside(best: Trial, other: Trial, share: float | None = None) -> str:
    """The rate of another plan and its times, where these are of the same load, beside those of the best.

    ``share`` is its rate over that of the best where both were simulated otherwise than the best was.
    """
    rate = other.rate if share is None else share * best.rate
    said = [f"up to {rate:.3g} requests per second instead of {best.rate:.3g}"]
    if has_times(best.finalist.scenario):
        name = f"p{objective_in(best.finalist.scenario).percentile:g}"
        for key in LATENCIES:
            its, own = (getattr(one.profile, key)[name] for one in (other, best))
            if own and its and abs(its / own - 1) >= SEEN:
                times = " instead of ".join(format_quantity(value, SECONDS) for value in (its, own))
                said.append(f"{name} of {metric_of(key).label} {times}")
    return ", ".join(said)


NEAREST = 3
"""Plans that come near an objective that none keeps, at most."""
SHORT = ENOUGH / 2.0
"""Mean latencies of a run below which a capacity is doubtful; loads that are made longer come near `ENOUGH`."""
SPARE = 2.0
"""Times the stated rate that a plan serves from which on fewer devices would do."""
LOOSER = 1.05
"""Times what the requests of the slowest rate take: the limit under which a plan serves more than that."""


def answer_of(found: Simulated, spaces: Sequence[ServingSpace], objective: str, top: int, command: str) -> PlanAnswer:
    """Return the answer: the best plans, or the nearest ones with the limits under which they would serve."""
    best = found.best(top)
    shown = [*enumerate(best, 1), *_as_checkpoint(found, best, spaces)]
    warnings = dict.fromkeys(warning for space in spaces for warning in space.scenario.warnings)
    swept, unfit = found.swept, found.swept.rejected["memory"]
    rejected = {**swept.rejected, "memory": unfit + found.unfit}
    plans = [_plan(found, one.trial, rank=at, tied=one.place.tied, better=one.place.better) for at, one in shown]
    if best and best[0].trial.rate and not found.stopped:
        plans[0] = _with_interval(plans[0], capacity_interval(best[0].trial))
    answer = PlanAnswer(
        objective=objective,
        evaluated=swept.evaluated + unfit,
        feasible=sum(of.feasible for of in swept.of_space) - found.unfit if best else 0,
        rejected={rule: count for rule, count in rejected.items() if count},
        plans=plans,
        free=_free(found, spaces),
        nearest=[] if best else [*_on_more_devices(found, command), *_nearest(found, command)],
        assumptions=_assumptions(found, spaces, shown),
        warnings=(
            *warnings,
            *(_about(best[0].trial, found) if best else ()),
            *_promising(found),
        ),
        stopped=found.stopped,
    )
    if not best or found.stopped:
        return answer
    return replace(
        answer,
        alternatives=alternatives(best[0], found, spaces),
        neighbours=LazySequence(lambda: neighbours(best[0], found, answer.free)),
    )


def _as_checkpoint(
    found: Simulated, best: Sequence[Placed], spaces: Sequence[ServingSpace]
) -> Iterator[tuple[int, Placed]]:
    """Yield the best plan without quantization with its rank, where formats are free and the best have none."""
    if is_of_any_format(spaces) and not any(one.trial.finalist.keeps_numerics for one in best):
        ranks = enumerate(found.best(len(found.trials)), 1)
        plain = ((max(rank, len(best) + 1), one) for rank, one in ranks if one.trial.finalist.keeps_numerics)
        yield from islice(plain, 1)


def _free(found: Simulated, spaces: Sequence[ServingSpace]) -> tuple[str, ...]:
    """The fields that were searched; a limit of sequences is none of steady loops, devices are where rent is least."""
    searched = found.swept.finalists[0].space.options if found.stated and found.swept.finalists else {}
    limit = () if any(space.scenario.plan.max_sequences for space in spaces) else ("max_sequences",)
    return tuple(dict.fromkeys((*searched, *free_fields(spaces), *limit)))


def _plan(found: Simulated, trial: Trial, **place: Any) -> RankedPlan:
    profile, value = trial.profile, found.value(trial)
    figures = found.figures_of(trial)
    return RankedPlan(profile=profile, value=value, obstacles=obstacles(profile.scenario), figures=figures, **place)


def _with_interval(plan: RankedPlan, interval: tuple[float, float | None] | None) -> RankedPlan:
    """The plan with the interval of its highest rate."""
    of = {} if interval is None else {"capacity_requests_per_s": interval}
    return replace(plan, profile=plan.profile.replace(interval={**plan.profile.interval, **of}))


def _about(best: Trial, found: Simulated) -> Iterator[str]:
    """Yield what the stated load is beside what the best plan serves, and that a load is too short to tell."""
    scenario, at_capacity = best.finalist.scenario, best.at_capacity
    rate = scenario.workload.arrival.rate
    if not (found.stated or best.meets) and rate is not None and best.rate >= rate:
        yield f"{short_of_rate(best.profile)}; without that the best plan serves up to {best.rate:.4g} requests/s"
    elif not (found.stated or best.meets):
        shares = best.profile.good_shares or {}
        few = [f"{100 * of:.3g} % of {name}" for name, of in shares.items() if not meets(of, objective_in(scenario))]
        of_load = f"; of the load {' and '.join(few)} keep their limits" if few else ""
        yield (
            f"the load exceeds the best plan, which serves up to {best.rate:.4g} requests per second within "
            f"workload.slo{of_load}"
        )
    elif not found.stated and rate is not None and best.rate > SPARE * rate:
        yield (
            f"the best plan serves up to {best.rate:.3g} requests/s, {rate:g} are requested; --objective cost finds "
            "the fewest devices for that"
        )
    # Its queue may go on growing.
    if at_capacity is not None and at_capacity.duration_s < SHORT * at_capacity.latency_s["mean"]:
        yield best.capacity.sentence


def _promising(found: Simulated) -> Iterator[str]:
    """Yield the most promising layout of a search that was stopped before it simulated one."""
    if found.stopped and not found.trials and found.swept.finalists:
        first = found.swept.finalists[0]
        layout = ", ".join(f"{name} {getattr(first.scenario.plan, name)}" for name in LAYOUT)
        yield (
            f"stopped before a layout was simulated; the most promising of {len(found.swept.finalists)}, by its mean "
            f"load alone: {layout}, {first.requests_per_s:.3g} requests per second"
        )


def _nearest(found: Simulated, command: str) -> Iterator[NearestPlan]:
    """Yield the plans of which the most requests keep the limits at some rate, with limits that they would keep."""
    ordered = sorted(found.trials, key=lambda one: -max(tried.lasting for tried in one.capacity.tried))
    for one in ordered[:NEAREST]:
        needed = _needed(one)
        plan, command_of = _plan(found, one, rank=1), with_settings(command, needed)
        yield NearestPlan(set=needed, sentence=one.capacity.sentence, plan=plan, command=command_of)


def _on_more_devices(found: Simulated, command: str) -> Iterator[NearestPlan]:
    """Yield plans that serve the stated load on more devices than there are, the fewest first; each number once."""
    seen: set[int] = set()
    for one in sorted(found.beyond, key=lambda one: one.finalist.scenario.cluster.devices):
        cluster, plan = one.finalist.scenario.cluster, one.finalist.scenario.plan
        if cluster.devices in seen:
            continue
        seen.add(cluster.devices)
        needed = devices_setting(cluster)
        count, per_hour = int(plan.replicas), found.figures_of(one)["usd_per_hour"]
        replicas = f"{counted(count, 'replica')} of {counted(cluster.devices // count, 'device')}"
        rent = "" if per_hour is None else f" for {per_hour:,.2f} USD per hour"
        said = f"{replicas} {'serves' if count == 1 else 'serve'} the load within workload.slo{rent}"
        ranked = _plan(found, one, rank=1)
        yield NearestPlan(set=needed, sentence=said, plan=ranked, command=with_settings(command, needed))


def _needed(trial: Trial) -> dict[str, Any]:
    """The limits of the objective, those that are missed as long as so many requests take as have to keep them."""
    slo, outcome = objective_in(trial.finalist.scenario), trial.lowest.outcome
    if outcome is None or not trial.lowest.completed:
        return {}
    if short_of_rate(trial.lowest):
        return {"workload.arrival.concurrency": "null"}
    missed = [
        {key.removesuffix("_s"): _as_typed(LOOSER * took) for key, took in times.items() if took > limits[key]}
        for times, limits in zip(times_within(answered(outcome), slo).values(), slo.of_classes, strict=True)
    ]
    if slo.classes and any(missed):
        return {"workload.slo.classes": [{**unusual(of), **its} for of, its in zip(slo.classes, missed, strict=True)]}
    return {f"workload.slo.{key}": limit for key, limit in missed[0].items()}


def _as_typed(seconds: float) -> str:
    """A time as somebody writes it."""
    return f"{seconds:.1f} s" if seconds >= 1.0 else f"{1e3 * seconds:.3g} ms"


def _limits(slo: Slo) -> str:
    """The limits of an objective in words, of each class by name."""
    names = [f"{each.name}: " for each in slo.classes] or [""]
    said = "; ".join(f"{name}{limits_in_words(of)}" for name, of in zip(names, slo.of_classes, strict=True))
    return f"the limits of their class ({said})" if slo.classes else said


def _assumptions(
    found: Simulated, spaces: Sequence[ServingSpace], shown: Sequence[tuple[int, Placed]]
) -> dict[str, str]:
    """What the answer rests on, by name."""
    scenario = spaces[0].scenario
    slo = objective_in(scenario)
    at = "the load" if has_times(scenario) else "the capacity"
    each = f"(latency + {format_quantity(found.think_s, SECONDS)} think time)" if found.think_s else "latency"
    devices = {space.scenario.cluster.device.name: space.scenario.cluster.device for space in spaces}
    tries = (
        f"sized {len(found.sized)} for the load" if found.stated else f"simulated {len(found.brief)} of them briefly"
    )
    as_searched = f"; {said}" if (said := searched_as(scenario)) else ""
    plain = next((f"; plan {rank} is the best without" for rank, one in shown if one.trial.finalist.keeps_numerics), "")
    return {
        "search": f"priced {found.swept.evaluated:,} plans of {len(found.swept.finalists):,} layouts in a steady loop, "
        f"{tries} and simulated the best {len(found.trials)} closely",
        **({"quantization": f"{UNKNOWN_QUALITY}{plain}"} if is_of_any_format(spaces) else {}),
        "capacity": f"the highest request rate at which {slo.percentile:g} % of the requests meet "
        f"{_limits(slo)}{as_searched}; the objective goodput is that rate per device",
        "times": f"percentiles of {' and '.join(metric_of(key).label for key in LATENCIES)} are at {at}",
        "users": f"capacity x {each}: each user sends the next request after the answer"
        + (f"; in the mean over {DRAWS + 1} streams of requests" if found.compared.key == "most_users" else ""),
        "cost": f"cost per million output tokens at {'the load' if found.stated else 'the capacity'}",
    } | price_assumptions(devices)


USUAL_TOP = 5
"""Plans that are returned where nobody says how many: each is simulated at several rates."""


def plan_serving(spaces: Sequence[ServingSpace], options: Options, command: Command, progress: Progress) -> PlanAnswer:
    """Return the best plans to serve a load, as `sightline.planning.search.plan` is asked for them.

    Raises:
        InputError: every mistake in the request.
    """
    name = objective_of(options["objective"])
    mixed = next((space.scenario.cluster for space in spaces if space.scenario.cluster.groups), None)
    if mixed is not None:
        raise InputError(f"cluster has {mixed.in_words}; allowed in a serving search: devices of one type")
    limits = {key: options[key] for key in ("ttft", "tpot") if options[key] is not None}
    limits_s = {f"{key}_s": value for key, value in read_limits(**limits).items()}
    spaces = [_within_limits(space, limits_s) for space in spaces]
    think_s = _think_s(options["think_time"], spaces)
    count = options["top"] or USUAL_TOP
    found = search(spaces, name, top=count, think_s=think_s, progress=progress)
    settings = {f"workload.slo.{key}": value for key, value in limits.items()}
    return answer_of(found, spaces, name, count, command({"think-time": options["think_time"]}, settings))


def _within_limits(space: ServingSpace, limits: Mapping[str, Any]) -> ServingSpace:
    """A space whose load has further limits."""
    if not limits:
        return space
    work = space.scenario.workload
    slo = replace(work.slo or Slo(), **limits)
    return replace(space, scenario=replace(space.scenario, workload=replace(work, slo=slo)))


def _think_s(stated: object, spaces: Sequence[ServingSpace]) -> float:
    """Seconds that a user thinks: as stated, else as the load's clients do; raise `InputError` for what is no time."""
    if stated is None:
        return mean_lengths(load_of(spaces[0].scenario)).pause_s
    return read_amount("think_time", stated, SECONDS, zero=True)

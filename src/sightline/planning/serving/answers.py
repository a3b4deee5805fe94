"""What a search of plans that serve a load found, as its answer."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sightline.loading.sources import with_settings
from sightline.planning.answer import NearestPlan, PlanAnswer, RankedPlan
from sightline.planning.clusters import devices_setting
from sightline.planning.generation.answers import UNKNOWN_QUALITY, free_fields
from sightline.planning.lazy import LazySequence
from sightline.planning.prices import price_assumptions
from sightline.planning.serving.neighbours import alternatives, neighbours
from sightline.planning.serving.search import Placed, Simulated
from sightline.planning.serving.sweep import ServingSpace, limits_of
from sightline.planning.serving.trial import Trial, has_times, objective_in
from sightline.quantities import SECONDS, counted, format_quantity
from sightline.simulation.capacity import ENOUGH
from sightline.simulation.results.totals import answered

NEAREST = 3
"""Plans that come near an objective that none keeps, at most."""
SHORT = ENOUGH / 2.0
"""Mean latencies of a run below which a capacity is doubtful; loads that are made longer come near `ENOUGH`."""
LOOSER = 1.05
"""Times what the requests of the slowest rate take: the limit under which a plan serves more than that."""


def answer_of(found: Simulated, spaces: Sequence[ServingSpace], objective: str, top: int, command: str) -> PlanAnswer:
    """Return the answer: the best plans, or the nearest ones with the limits under which they would serve."""
    best = found.best(top)
    warnings = dict.fromkeys(warning for space in spaces for warning in space.scenario.warnings)
    swept, unfit = found.swept, found.swept.rejected["memory"]
    rejected = {**swept.rejected, "memory": unfit + found.unfit}
    answer = PlanAnswer(
        objective=objective,
        evaluated=swept.evaluated + unfit,
        feasible=sum(of.feasible for of in swept.of_space) - found.unfit if best else 0,
        rejected={rule: count for rule, count in rejected.items() if count},
        seconds=0.0,
        plans=[_ranked(rank, one, found.compared.key) for rank, one in enumerate(best, 1)],
        free=_free(found, spaces),
        nearest=[] if best else [*_on_more_devices(found, command), *_nearest(found, command)],
        assumptions=_assumptions(found, spaces),
        warnings=(*warnings, *(() if found.stated else _beyond(best)), *_too_short(best)),
        stopped=found.stopped,
    )
    if not best or found.stopped:
        return answer
    return replace(
        answer,
        alternatives=alternatives(best[0], found, spaces),
        neighbours=LazySequence(lambda: neighbours(best[0], found, answer.free)),
    )


def _free(found: Simulated, spaces: Sequence[ServingSpace]) -> tuple[str, ...]:
    """The fields that were searched; a limit of sequences is none of steady loops, devices are where rent is least."""
    searched = found.swept.finalists[0].space.options if found.stated and found.swept.finalists else {}
    limit = () if any(space.scenario.plan.max_sequences for space in spaces) else ("max_sequences",)
    return tuple(dict.fromkeys((*searched, *free_fields(spaces), *limit)))


def _ranked(rank: int, one: Placed, key: str) -> RankedPlan:
    tied, better = one.place.tied, one.place.better
    return _plan(one.trial, one.figures, key, rank=rank, tied=tied, better=better)


def _plan(trial: Trial, figures: Mapping[str, Any], key: str, **place: Any) -> RankedPlan:
    profile = trial.profile.replace(capacity_requests_per_s=trial.capacity.rate)
    value = figures[key]
    return RankedPlan(profile=profile, value=float("nan") if value is None else value, figures=figures, **place)


def _beyond(best: Sequence[Placed]) -> Iterator[str]:
    """Yield that the stated load is more than the best plan serves."""
    for one in best[:1]:
        if not one.trial.meets:
            yield (
                f"the stated load is more than the best plan serves within workload.slo, which is up to "
                f"{one.trial.rate:.4g} requests per second"
            )


def _too_short(best: Sequence[Placed]) -> Iterator[str]:
    """Yield that the load of the best plan is too short to show whether its queue goes on growing."""
    for one in best[:1]:
        profile = one.trial.at_capacity
        if profile is not None and profile.duration_s < SHORT * profile.latency_s["mean"]:
            yield one.trial.capacity.sentence


def _nearest(found: Simulated, command: str) -> Iterator[NearestPlan]:
    """Yield the plans of which the most requests keep the limits at some rate, with limits that they would keep."""
    ordered = sorted(found.trials, key=lambda one: -max(tried.lasting for tried in one.capacity.tried))
    for one in ordered[:NEAREST]:
        needed = _needed(one)
        plan = _plan(one, found.figures_of(one), found.compared.key, rank=1)
        yield NearestPlan(set=needed, sentence=one.capacity.sentence, plan=plan, command=with_settings(command, needed))


def _on_more_devices(found: Simulated, command: str) -> Iterator[NearestPlan]:
    """Yield plans that serve the stated load on more devices than there are, the fewest first; each number once."""
    seen: set[int] = set()
    for one in sorted(found.beyond, key=lambda one: one.finalist.scenario.cluster.devices):
        cluster, plan = one.finalist.scenario.cluster, one.finalist.scenario.plan
        if cluster.devices in seen:
            continue
        seen.add(cluster.devices)
        needed = devices_setting(cluster)
        figures = found.figures_of(one)
        replicas = (
            f"{counted(int(plan.replicas), 'replica')} of {counted(cluster.devices // int(plan.replicas), 'device')}"
        )
        rent = "" if figures["usd_per_hour"] is None else f" for {figures['usd_per_hour']:,.2f} USD per hour"
        serve = "serves" if plan.replicas == 1 else "serve"
        said = f"{replicas} {serve} the stated load within workload.slo{rent}"
        ranked = _plan(one, figures, found.compared.key, rank=1)
        yield NearestPlan(set=needed, sentence=said, plan=ranked, command=with_settings(command, needed))


def _needed(trial: Trial) -> dict[str, Any]:
    """The limits of the objective, those that are missed as long as so many requests take as have to keep them."""
    slo, outcome = objective_in(trial.finalist.scenario), trial.lowest.outcome
    if outcome is None or not trial.lowest.completed:
        return {}
    times = answered(outcome)
    taken = {key: float(np.nanpercentile(getattr(times, key), slo.percentile)) for key in limits_of(slo)}
    missed = {key: took for key, took in taken.items() if took > limits_of(slo)[key]}
    return {f"workload.slo.{key.removesuffix('_s')}": _as_typed(LOOSER * took) for key, took in missed.items()}


def _as_typed(seconds: float) -> str:
    """A time as somebody writes it."""
    return f"{seconds:.1f} s" if seconds >= 1.0 else f"{1e3 * seconds:.3g} ms"


def _assumptions(found: Simulated, spaces: Sequence[ServingSpace]) -> dict[str, str]:
    """What the answer rests on, by name."""
    scenario = spaces[0].scenario
    slo = objective_in(scenario)
    limits = ", ".join(
        f"{key.removesuffix('_s').upper()} {format_quantity(limit, SECONDS)}" for key, limit in limits_of(slo).items()
    )
    at = "the stated load" if has_times(scenario) else "the capacity"
    thinks = f" thinks {format_quantity(found.think_s, SECONDS)} and" if found.think_s else ""
    devices = {space.scenario.cluster.device.name: space.scenario.cluster.device for space in spaces}
    of_all = "those that serve the most in a steady loop of requests of mean lengths"
    fewest = "with as many replicas as the stated load needs, " if found.stated else ""
    formats = any(space.values.get("quantization", ()) is None for space in spaces)
    return {
        "search": f"{len(found.trials)} of {len(found.swept.finalists)} layouts simulated, {fewest}{of_all}",
        **({"quantization": UNKNOWN_QUALITY} if formats else {}),
        "capacity": f"the highest rate of arrivals at which {slo.percentile:g} % of the requests keep {limits}; "
        "goodput is that rate per device",
        "times": f"percentiles of TTFT and TPOT are those at {at}",
        "users": f"a user waits for the answer,{thinks} sends the next request: the capacity times the seconds between "
        "two requests of a user",
        "cost": f"rent per million output tokens at {'the stated load' if found.stated else 'the capacity'}",
    } | price_assumptions(devices)

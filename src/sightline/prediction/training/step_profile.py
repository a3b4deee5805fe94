"""The prediction of one scenario, or of an open mesh of plans: seconds, bytes, joules - assembled into a profile."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from math import isqrt
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.content import record
from sightline.cost.clock import at_its_clock
from sightline.errors import InputError
from sightline.prediction.changes import what_would_fit
from sightline.prediction.common_figures import (
    LONGER,
    energy_per_step_j,
    evidence_of_step,
    lower_bounds,
    power_by_phase_w,
)
from sightline.prediction.training.constants import TrainingConstants
from sightline.prediction.training.knowledge import Knowledge
from sightline.prediction.training.memory import StageLedger, fullest_stage, stage_ledgers, step_intervals
from sightline.prediction.training.offload import STAYS, as_kept, fits_on_host, host_bytes
from sightline.prediction.training.priced import Priced, price
from sightline.prediction.training.step import StepTimes, step_times, step_with_constants
from sightline.prediction.training.step_rows import hardware_flops, levels_of, limits_of, model_flops, rows_of
from sightline.profile import Profile, StageMemory
from sightline.quantities import Number, added_up, anywhere, larger, percent
from sightline.scenario import Cluster, Scenario
from sightline.scenario.rules import broken_by, verdict

GB = 1e9


def with_fastest_micro_batch(scenario: Scenario, profile_of: Callable[[Scenario], Profile]) -> Scenario:
    """Return ``scenario`` with the fastest micro-batch that fits, or the one that needs least memory when none does.

    Candidates are the divisors of a replica's share of the batch that the schedule allows, all predicted at once along
    one array axis.
    """
    plan, batch = scenario.plan, scenario.workload.global_batch
    if batch % plan.data_parallel:
        raise InputError(f"workload.global_batch {batch} cannot be divided by plan.data_parallel {plan.data_parallel}")
    candidates = divisors(batch // int(plan.data_parallel))
    allowed = np.broadcast_to(verdict(_with_micro_batch(scenario, candidates)).valid, candidates.shape)
    if not allowed.any():
        raise InputError(broken_by(_with_micro_batch(scenario, int(candidates[0]))))
    candidates = candidates[allowed]
    mesh = profile_of(_with_micro_batch(scenario, candidates))
    time_s, fits = np.broadcast_arrays(mesh.step_time_s, mesh.fits)
    best = np.where(fits, time_s, np.inf).argmin() if fits.any() else np.argmin(mesh.memory_bytes["total"])
    return _with_micro_batch(scenario, int(candidates[best]))


def _with_micro_batch(scenario: Scenario, micro_batch: Any) -> Scenario:
    return replace(scenario, plan=replace(scenario.plan, micro_batch=micro_batch))


def divisors(number: int) -> NDArray[np.int64]:
    """Return the divisors of a positive number, smallest first; those up to its root name the others."""
    up_to_root = np.arange(1, isqrt(number) + 1)
    small = up_to_root[number % up_to_root == 0]
    return np.union1d(small, number // small)


def predict(scenario: Scenario, constants: TrainingConstants | None = None, known: Knowledge | None = None) -> Profile:
    """Predict a training step of ``scenario``.

    The plan's degrees may be arrays that broadcast (an open mesh); then every number of the profile is an array and
    ``profile[i]`` is one plan's. Without a micro-batch the fastest that fits is taken. ``constants`` replace those of
    the catalog, as a fit does; ``known`` replaces what they are believed to be.

    Raises:
        InputError: no micro-batch divides the batch, or the schedule allows none.
    """
    answer = partial(profile_of, constants=constants, known=known)
    if scenario.plan.micro_batch is None and not scenario.cluster.groups and scenario.plan.stage_layers is None:
        scenario = with_fastest_micro_batch(scenario, answer)
    return answer(scenario)


def assemble(
    scenario: Scenario, constants: TrainingConstants | None = None
) -> tuple[Priced, StepTimes, Sequence[StageLedger]]:
    """Return the step of a scenario with a micro-batch, and its memory in terms that lie on few axes of a mesh each."""
    priced = price(at_its_clock(as_kept(scenario)), constants)
    return priced, *assembled(priced)


def step_of(scenario: Scenario, constants: TrainingConstants | None = None) -> StepTimes:
    """Return the step of a scenario with a micro-batch, whatever memory it takes."""
    return step_times(price(at_its_clock(as_kept(scenario)), constants))


def assembled(priced: Priced) -> tuple[StepTimes, Sequence[StageLedger]]:
    """Return the step and the memory of a micro-batch that is priced."""
    times = step_times(priced)
    return times, stage_ledgers(priced, times)


def profile_of(
    scenario: Scenario, constants: TrainingConstants | None = None, known: Knowledge | None = None
) -> Profile:
    """The profile of a scenario whose micro-batch is given."""
    known = known or Knowledge()
    if scenario.cluster.groups or scenario.plan.stage_layers is not None:
        return _unlike(scenario, constants, known)
    step = assemble(scenario, constants or known.constants(scenario))
    answer = partial(profile_of, constants=constants, known=known)
    details: dict[str, Any] = {}
    if np.ndim(step[1].step_time_s) == 0:
        details = {
            "rows": lambda _: rows_of(*step[:2]),
            "interval": lambda p: interval_with(p, constants, lambda: spread_of(scenario, *step[:2], known)),
            "advice": lambda p: what_would_fit(p, answer),
        }
    return described(scenario, *step, constants=constants, known=known, details=details)


def spread_of(scenario: Scenario, priced: Priced, times: StepTimes, known: Knowledge) -> Any:
    """Return the logarithmic half-width of the interval of a step's time."""
    return known.spread(scenario, lambda tried: step_with_constants(priced, times, tried).step_time_s)


def described(
    scenario: Scenario,
    priced: Priced,
    times: StepTimes,
    ledgers: Sequence[StageLedger],
    *,
    constants: TrainingConstants | None,
    known: Knowledge,
    details: Mapping[str, Any],
) -> Profile:
    """Return the profile of a step that is priced; ``details`` are what one plan alone has."""
    stages, memory = [ledger.memory for ledger in ledgers], fullest_stage(ledgers)
    host_fits = fits_on_host(stages, scenario.cluster)
    return Profile(
        scenario=scenario,
        source="predicted",
        step_time_s=times.step_time_s,
        phases=lambda _: times.phases,
        memory_bytes=memory,
        fits=(memory["total"] <= scenario.cluster.device.memory_bytes) & host_fits,
        host_fits=host_fits,
        model_flops=lambda _: model_flops(scenario),
        hardware_flops=lambda _: hardware_flops(scenario, priced.program),
        limits=lambda _: limits_of(priced, times),
        levels=lambda _: levels_of(priced, times),
        energy_per_step_j=lambda profile: energy_per_step_j(scenario, profile.phases),
        stages=stages,
        stage_times=lambda _: times.slot_s,
        forward_pass_s=times.forward_pass_s,
        evidence=lambda _: {
            **evidence_of_step(scenario, priced.device_model),
            "framework": "given" if constants else known.evidence(scenario),
        },
        missing=lambda _: {} if constants else known.missing(scenario),
        warnings=lambda _: (*scenario.warnings, *remarks(scenario), *host_remarks(stages, scenario.cluster)),
        **details,
    )


def _unlike(scenario: Scenario, constants: TrainingConstants | None, known: Knowledge) -> Profile:
    """The profile of a scenario whose devices or stages differ."""
    from sightline.prediction.training.heterogeneous_profile import unlike_profile

    return unlike_profile(
        scenario,
        constants,
        known,
        spread_of=lambda one: known.spread(one, lambda tried: step_of(one, tried).step_time_s),
        remarks_of=lambda one, stages: [*remarks(one), *host_remarks(stages, one.cluster)],
    )


def interval_with(
    profile: Profile,
    constants: TrainingConstants | None,
    spread: Callable[[], Number],
) -> Mapping[str, tuple[float, float | None]]:
    """The interval of each result; a bound on what any framework reaches has none above."""
    if constants is None and profile.scenario.plan.framework.is_bound:
        return lower_bounds(profile, LONGER)
    return step_intervals(profile, float(spread() if constants is None else constants.spread))


def remarks(scenario: Scenario) -> list[str]:
    """Return a sentence for each thing the scenario asks for whose effect is not, or only roughly, predicted."""
    plan, cluster, device = scenario.plan, scenario.cluster, scenario.cluster.device
    sentences = []
    cap = cluster.power_cap_w
    if cap is not None and np.any(np.asarray(cap) > device.tdp_w):
        sentences.append(
            f"cluster.power_cap {cap:g} W exceeds the device limit of {device.tdp_w:g} W and has no effect"
        )
    sentences += _fill(scenario)
    if as_kept(scenario) is not scenario:
        sentences.append(f"plan.offload has no effect on a CPU: {STAYS}")
    if plan.quantization != "none" and plan.adapter is None:
        sentences.append(
            f"weights in {plan.quantization} are not trained; without plan.adapter, only embedding, head, norms "
            "and biases are"
        )
    chunks = plan.pipeline_parallel * plan.virtual_stages
    layers = scenario.model.layers
    # Embedding and head count as a layer each where layers alone do not divide (`stage_layers`).
    if np.ndim(chunks) == 0 and plan.virtual_stages > 1 and layers % chunks and (layers + 2) % chunks:
        sentences.append(f"{layers} layers do not divide into {chunks} chunks; predicted as if they did")
    return sentences


def _fill(scenario: Scenario) -> list[str]:
    """How much of rows of different samples is real; nothing where all are equally long."""
    workload, plan = scenario.workload, scenario.plan
    if workload.lengths is None or plan.micro_batch is None or np.ndim(plan.micro_batch):
        return []
    rows = workload.rows(plan.micro_batch)
    real = rows.real / float(rows.tokens)
    if workload.packing:
        apart = float(rows.tokens**2 / rows.squares)
        full = f"packed rows of {rows.tokens:,.0f} tokens are {percent(real, 1)} full"
        return [f"{full}; attention is predicted for {apart:.1f} equal samples per row"]
    return [
        (
            f"samples are padded to {rows.tokens:,.0f} tokens, of which {percent(real, 1)} are real; tokens_per_s "
            f"counts real tokens, and memory is that of {workload.longest_row:,} tokens, the longest sample"
        )
    ]


def host_remarks(stages: Sequence[StageMemory], cluster: Cluster) -> list[str]:
    """Return a sentence where what one plan offloads is more than the memory of its hosts."""
    needed = host_bytes(stages, cluster)
    if np.ndim(needed) or fits_on_host(stages, cluster):
        return []
    there = float(cluster.host.memory_bytes)
    return [f"offloading needs {float(needed) / GB:.0f} GB of {there / GB:.0f} GB of host memory"]


Terms = tuple[Number, ...]
"""Summands, as few as `merged` leaves."""


@record
class Sums:
    """Summands of every figure of a mesh that a search looks at."""

    step_s: Terms
    energy_j: Terms
    """Of one step on all devices."""
    peaks: tuple[Terms, ...]
    """Bytes of the fullest device: the largest of these sums."""
    on_host: tuple[Terms, ...]
    """Bytes in the memory of a host: the largest of these sums; none where nothing is offloaded."""


def sums_of(priced: Priced, *, energy: bool = False) -> Sums:
    """Return the summands of a mesh of plans whose operators are priced."""
    times, ledgers = assembled(priced)
    phases = times.terms_of_phases if energy else {}
    cluster = priced.scenario.cluster
    power_w = power_by_phase_w(cluster, phases)
    joules = [cluster.devices * power_w[phase] * term for phase, terms in phases.items() for term in terms]
    return Sums(
        step_s=merged(times.terms),
        energy_j=merged(joules),
        peaks=_compared([terms for ledger in ledgers for terms in ledger.moments]),
        on_host=_on_host(ledgers, priced.scenario.cluster),
    )


def _on_host(ledgers: Sequence[StageLedger], cluster: Cluster) -> tuple[Terms, ...]:
    """Bytes of a host's devices, each taken to keep as much as the one that keeps most."""
    devices = cluster.devices_per_host
    there = [ledger.on_host for ledger in ledgers if any(map(anywhere, ledger.on_host))]
    return tuple(merged([devices * term for term in terms]) for terms in there)


def _compared(moments: Sequence[Sequence[Number]]) -> tuple[Terms, ...]:
    """Return fewer sums with the same largest one: those with the same largest summand share all that they can."""
    alike: dict[int, list[Sequence[Number]]] = {}
    for terms in moments:
        alike.setdefault(id(max(terms, key=np.size)), []).append(terms)
    return tuple(_joined(several) for several in alike.values())


def _joined(moments: Sequence[Sequence[Number]]) -> Terms:
    """Return one sum in the place of several: the summands that all have, and the largest of what they differ in."""
    first, *others = moments
    shared = [term for term in first if all(any(term is shared_term for shared_term in terms) for terms in others)]
    rests = [[term for term in terms if not any(term is shared_term for shared_term in shared)] for terms in moments]
    return merged([*shared, reduce(larger, map(added_up, rests))])


def merged(terms: Iterable[Number], joined: Callable[[Any, Any], Number] = add) -> Terms:
    """Join terms (add them up) as far as no result lies on more axes than one of its terms, the smallest first."""
    groups: list[Number] = []
    for term in sorted(terms, key=np.size):
        for i, group in enumerate(groups):
            if np.broadcast_shapes(np.shape(group), np.shape(term)) in (np.shape(group), np.shape(term)):
                groups[i] = joined(group, term)
                break
        else:
            groups.append(term)
    return tuple(groups)

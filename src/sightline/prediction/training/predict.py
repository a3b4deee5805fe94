"""The prediction of one scenario, or of an open mesh of plans: seconds, bytes, joules - assembled into a profile."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import exp, isqrt

import numpy as np
from numpy.typing import NDArray

from sightline.cost.clock import at_its_clock
from sightline.cost.collectives.families import collective_evidence
from sightline.cost.device_model import DeviceModel
from sightline.errors import InputError
from sightline.prediction.changes import what_would_fit
from sightline.prediction.energy import energy_per_step_j
from sightline.prediction.memory.ledger import StageLedger, fullest, stage_ledgers
from sightline.prediction.operators.answer import within
from sightline.prediction.training.flops import hardware_flops, model_flops
from sightline.prediction.training.framework import TrainingConstants, load_training, training_family
from sightline.prediction.training.offload import as_kept, fits_on_host
from sightline.prediction.training.priced import Priced, price
from sightline.prediction.training.remarks import host_remarks, remarks
from sightline.prediction.training.rows import limits_of, rows_of
from sightline.prediction.training.step import StepTimes, step_times
from sightline.profile import Profile
from sightline.scenario import Scenario

LONGER = ("step_time_s", "run_time_s", "cost_usd")
"""Results that grow with the step."""
SHORTER = ("tokens_per_s", "tokens_per_s_per_device", "model_flops_per_s_per_device", "mfu", "hfu")
"""Results that fall with it."""


def spread_of(scenario: Scenario, constants: TrainingConstants | None = None) -> float:
    """Logarithmic half-width of the interval: that of the constants' set."""
    if constants is None:
        framework = scenario.plan.framework
        family = training_family(scenario.cluster.device, framework.name)
        constants, _ = load_training(family, framework.name, framework.version)
    return constants.spread


def intervals(profile: Profile, spread: float) -> dict[str, tuple[float, float]]:
    """Return the interval of each result that follows from the step's time; none where the spread is unknown.

    Symmetric in the logarithm: an error of a factor is as likely up as down. Left out: that some operators and some
    plans are known better than others.
    """
    if spread <= 0:
        return {}
    factor = exp(spread)
    values = {key: getattr(profile, key) for key in (*LONGER, *SHORTER)}
    return {key: (float(v) / factor, float(v) * factor) for key, v in values.items() if v is not None}


def with_fastest_micro_batch(scenario: Scenario, profile_of: Callable[[Scenario], Profile]) -> Scenario:
    """Return ``scenario`` with the fastest micro-batch that fits, or the one that needs least memory when none does.

    Candidates are the divisors of a replica's share of the batch, all predicted at once along one array axis.
    """
    plan, batch = scenario.plan, scenario.workload.global_batch
    if batch % plan.data_parallel:
        raise InputError(f"workload.global_batch: {batch} can't be divided among {plan.data_parallel} replicas")
    share = batch // int(plan.data_parallel)
    candidates = divisors(share)
    mesh = profile_of(replace(scenario, plan=replace(plan, micro_batch=candidates)))
    time_s, fits = np.broadcast_arrays(mesh.step_time_s, mesh.fits)
    best = np.where(fits, time_s, np.inf).argmin() if fits.any() else np.argmin(mesh.memory_bytes["total"])
    return replace(scenario, plan=replace(plan, micro_batch=int(candidates[best])))


def divisors(number: int) -> NDArray[np.int64]:
    """Return the divisors of a positive number, smallest first; those up to its root name the others."""
    up_to_root = np.arange(1, isqrt(number) + 1)
    small = up_to_root[number % up_to_root == 0]
    return np.union1d(small, number // small)


def predict(scenario: Scenario, constants: TrainingConstants | None = None) -> Profile:
    """Predict a training step of ``scenario``.

    The plan's degrees may be arrays that broadcast (an open mesh); then every number of the profile is an array and
    ``profile[i]`` is one plan's. Without a micro-batch the fastest that fits is taken. ``constants`` replace those of
    the catalog's calibration, as a fit does.

    Raises:
        InputError: no micro-batch divides the batch.
    """
    answer = partial(profile_of, constants=constants)
    if scenario.plan.micro_batch is None:
        scenario = with_fastest_micro_batch(scenario, answer)
    return answer(scenario)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Assembly:
    """A scenario's step and memory in terms that lie on few axes of a mesh each."""

    run: Scenario
    """The scenario as its devices run it."""
    priced: Priced
    times: StepTimes
    ledgers: Sequence[StageLedger]


def assemble(scenario: Scenario, constants: TrainingConstants | None = None) -> Assembly:
    """Write, price and put together the step of a scenario whose micro-batch is given."""
    run = as_kept(scenario)
    priced = price(at_its_clock(run), constants)
    times = step_times(priced)
    return Assembly(run=run, priced=priced, times=times, ledgers=stage_ledgers(run, priced, times))


def profile_of(scenario: Scenario, constants: TrainingConstants | None = None) -> Profile:
    """The profile of a scenario whose micro-batch is given."""
    assembly = assemble(scenario, constants)
    priced, times = assembly.priced, assembly.times
    step_time_s = times.step_time_s
    scalar = np.ndim(step_time_s) == 0
    stages, memory = [ledger.memory for ledger in assembly.ledgers], fullest(assembly.ledgers)
    answer = partial(profile_of, constants=constants)
    return Profile(
        scenario=scenario,
        source="predicted",
        step_time_s=step_time_s,
        phases=lambda _: times.phases,
        memory_bytes=memory,
        fits=(memory["total"] <= scenario.cluster.device.memory_bytes) & fits_on_host(stages, scenario.cluster),
        model_flops=lambda _: model_flops(scenario),
        hardware_flops=lambda _: hardware_flops(scenario, priced.program),
        limits=lambda _: limits_of(priced, times),
        energy_per_step_j=lambda profile: energy_per_step_j(scenario, profile.phases),
        rows=(lambda _: rows_of(priced, times)) if scalar else (),
        stages=stages,
        stage_times=lambda _: times.slot_s,
        forward_pass_s=times.forward_pass_s,
        interval=(lambda p: intervals(p, spread_of(scenario, constants))) if scalar else {},
        advice=(lambda p: what_would_fit(p, answer)) if scalar else (),
        evidence=lambda _: {**_operator_evidence(scenario, priced.device_model), "framework": priced.evidence},
        warnings=lambda _: (*scenario.warnings, *remarks(scenario), *host_remarks(stages, scenario.cluster)),
    )


def _operator_evidence(scenario: Scenario, model: DeviceModel) -> dict[str, str]:
    """Where the operators' constants come from: this device's measurements, a relative's, or the datasheet."""
    cluster = scenario.cluster
    inside = cluster.nodes == 1  # networks between nodes were measured on another cluster
    return {
        "matmul": model.evidence("matmul"),
        "attention": model.evidence("attention"),
        "collectives": within(collective_evidence(cluster, "all_reduce"), measured=inside),
    }

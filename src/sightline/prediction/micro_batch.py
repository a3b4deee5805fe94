"""The micro-batch a scenario leaves open: the fastest that fits."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sightline.errors import InputError
from sightline.profile import Profile
from sightline.scenario import Scenario


def with_fastest_micro_batch(scenario: Scenario, profile_of: Callable[[Scenario], Profile]) -> Scenario:
    """Return ``scenario`` with the fastest micro-batch that fits, or the one that needs least memory when none does.

    Candidates are the divisors of a replica's share of the batch, all predicted at once along one array axis.
    """
    plan, batch = scenario.plan, scenario.workload.global_batch
    if batch % plan.data_parallel:
        raise InputError(f"workload.global_batch: {batch} can't be divided among {plan.data_parallel} replicas")
    share = batch // int(plan.data_parallel)
    candidates = np.array([b for b in range(1, share + 1) if share % b == 0])
    mesh = profile_of(replace(scenario, plan=replace(plan, micro_batch=candidates)))
    time_s, fits = np.broadcast_arrays(mesh.step_time_s, mesh.fits)
    best = np.where(fits, time_s, np.inf).argmin() if fits.any() else np.argmin(mesh.memory_bytes["total"])
    return replace(scenario, plan=replace(plan, micro_batch=int(candidates[best])))

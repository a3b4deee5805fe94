"""The micro-batch a scenario leaves open: the fastest that fits."""

from collections.abc import Callable
from dataclasses import replace
from math import isqrt

import numpy as np
from numpy.typing import NDArray

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

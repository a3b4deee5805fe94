"""Replicas on unlike devices: each takes its share of the batch, and gradients travel at the slowest group's pace."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sightline.errors import InputError
from sightline.prediction.shares import balanced_shares
from sightline.prediction.training.data_parallel import Replication, replication
from sightline.prediction.training.priced import Priced
from sightline.prediction.training.stages import DenseAndExperts
from sightline.prediction.training.step import step_times
from sightline.prediction.training.unlike.groups import ConstantsOf, GroupStep, group_step, priced_groups
from sightline.quantities import Number
from sightline.scenario import Scenario


def replicas_of_groups(scenario: Scenario) -> list[int]:
    """Return the data-parallel replicas of each group."""
    plan = scenario.plan
    ranks = int(plan.tensor_parallel * plan.pipeline_parallel * plan.context_parallel)
    return [part.devices // ranks for part in scenario.cluster.parts]


def replica_steps(scenario: Scenario, constants_of: ConstantsOf) -> list[GroupStep]:
    """Return the step of each group of replicas; ``scenario`` states the sequences that each group takes."""
    batches = scenario.plan.group_batches
    if batches is None:
        raise ValueError("the shares of the batch are still open")
    priced = priced_groups(scenario, constants_of)
    on = slowest_replication(priced, scenario)
    per_replica = [batch / count for batch, count in zip(batches, replicas_of_groups(scenario), strict=True)]
    found = []
    for group, one, share in zip(scenario.cluster.parts, priced, per_replica, strict=True):
        own = with_share(one, share)
        found.append(group_step(group, own, step_times(own, on=on)))
    return found


def with_share(priced: Priced, sequences: Number) -> Priced:
    """Return the micro-batch of a step in which every replica takes so many sequences."""
    scenario = priced.scenario
    batch: Any = sequences * scenario.plan.data_parallel
    work = replace(scenario.workload, global_batch=batch)
    return replace(priced, scenario=replace(scenario, workload=work))


def slowest_replication(priced: Sequence[Priced], scenario: Scenario) -> Replication:
    """Return where replicas meet, as seen from the group whose links take longest for all of them.

    A ring or tree over all replicas is as fast as its slowest links; groups meet over the network between them.
    """
    seen = [replace(one.scenario.cluster, network=scenario.cluster.network) for one in priced]
    found = [
        replication(scenario.plan, cluster, one.library, one.constants, one.device_model)
        for cluster, one in zip(seen, priced, strict=True)
    ]
    gradients = DenseAndExperts(dense=2.0 * scenario.model.parameters, experts=0.0)
    seconds = [float(on.seconds("all_reduce", gradients, 1.0, lambda ranks: ranks.all)) for on in found]
    return found[int(np.argmax(seconds))]


def best_batches(scenario: Scenario, constants_of: ConstantsOf) -> tuple[int, ...]:
    """Return the sequences of a step that each group takes so that the last group ends first.

    Raises:
        InputError: the batch has no whole micro-batches for every replica.
    """
    plan, batch = scenario.plan, scenario.workload.global_batch
    size, replicas = int(plan.sequences), replicas_of_groups(scenario)
    whole, rest = divmod(batch, size)
    priced = priced_groups(scenario, constants_of)
    on = slowest_replication(priced, scenario)
    seconds = []
    for one, count in zip(priced, replicas, strict=True):
        most = (whole - sum(replicas) + count) // count
        shares = np.arange(1, max(most, 1) + 1)
        times = step_times(with_share(one, shares * float(size)), on=on).step_time_s
        seconds.append(np.broadcast_to(times, shares.shape))
    found = None if rest else balanced_shares(replicas, seconds, whole)
    if found is None:
        raise InputError(
            f"workload.global_batch is {batch}; {' and '.join(map(str, replicas))} replicas on unlike devices cannot "
            f"share it in whole micro-batches of {size}"
        )
    return tuple(share * count * size for share, count in zip(found, replicas, strict=True))

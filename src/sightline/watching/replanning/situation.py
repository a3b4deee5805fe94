"""The scenario of a job as it is now: with the devices that there are, the samples that come, the link as it is."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sightline.planning.clusters import resizer
from sightline.scenario import Cluster, Scenario


def scenario_now(
    scenario: Scenario, *, devices: int | None = None, sequence_length: float | None = None, link_factor: float = 1.0
) -> Scenario:
    """Return a scenario with what has changed. The plan stays as far as it can run there.

    Each replica keeps its samples of a step, so that fewer replicas make a smaller global batch. Devices that no whole
    replica of the plan fills stay idle. Where none is filled, the cluster is that of all devices, and the plan cannot
    run there (`can_run`).

    Args:
        scenario: What was asked.
        devices: Devices that work; None for all.
        sequence_length: Tokens of a sample; None for the scenario's.
        link_factor: How many times as long as before what crosses the links takes.
    """
    now = scenario
    if sequence_length is not None and round(sequence_length) != scenario.workload.sequence_length:
        now = replace(now, workload=replace(now.workload, sequence_length=round(sequence_length), lengths=None))
    if devices is not None and devices != scenario.cluster.devices and not scenario.cluster.groups:
        now = _on(now, devices)
    if link_factor > 1.0 and link_factor != float("inf"):
        now = replace(now, cluster=_slowed(now.cluster, link_factor))
    return now


def can_run(scenario: Scenario) -> bool:
    """Return whether the plan breaks no rule about what can be at all."""
    from sightline.planning.training.validity import POSSIBLE
    from sightline.scenario.rules import broken_by

    return not any(broken_by(scenario, POSSIBLE))


def on_devices(scenario: Scenario, devices: int) -> Scenario:
    """Return a scenario on other many devices, its plan and batch as they are."""
    return replace(scenario, cluster=resizer(scenario.cluster)(devices))


def _on(scenario: Scenario, devices: int) -> Scenario:
    """The most replicas that can run on devices; one replica on all of them where none can."""
    size = devices_of_replica(scenario)
    for replicas in range(devices // size, 0, -1):
        found = on_devices(_with_replicas(scenario, replicas), replicas * size)
        if can_run(found):
            return found
    return on_devices(_with_replicas(scenario, max(devices // size, 1)), devices)


def devices_of_replica(scenario: Scenario) -> int:
    """Return how many devices hold one replica of the model."""
    plan = scenario.plan
    return int(plan.tensor_parallel * plan.pipeline_parallel * plan.context_parallel)


def _with_replicas(scenario: Scenario, replicas: int) -> Scenario:
    plan, work = scenario.plan, scenario.workload
    # Sharding in groups of replicas is for the number that there was.
    fewer = replace(plan, data_parallel=replicas, data_parallel_shard=None)
    batch = work.global_batch * replicas
    if batch % plan.data_parallel == 0:
        work = replace(work, global_batch=batch // int(plan.data_parallel))
    return replace(scenario, plan=fewer, workload=work)


def _slowed(cluster: Cluster, factor: float) -> Cluster:
    """The cluster with a slower link: the network where there are nodes, else that inside of the node."""
    if cluster.nodes > 1:
        network = cluster.network
        return replace(cluster, network=replace(network, bandwidth_per_node=network.bandwidth_per_node / factor))
    link = cluster.intra_node
    return replace(cluster, intra_node=replace(link, bandwidth=link.bandwidth / factor))


def left_open(scenario: Mapping[str, Any], free: tuple[str, ...]) -> dict[str, Any]:
    """Return a scenario as a file says it, without the fields of its plan that are searched."""
    plan = {key: value for key, value in scenario["plan"].items() if key not in (*free, *_FOLLOWING)}
    return {**scenario, "plan": plan}


_FOLLOWING = ("data_parallel_shard", "stage_layers", "replicas", "attention_kernel")
"""Fields that only make sense with values of free ones."""

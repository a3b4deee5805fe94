"""A cluster as a scenario states it again: by a name that reads back as the same devices, or by their count alone.

Devices that a scenario states figure by figure, or makes of technology, have no name that reads back. Their number is
then a setting of the scenario's own cluster, which keeps what else it states.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sightline import catalog
from sightline.content import fields_of
from sightline.loading.clusters.cluster import read_cluster, read_device
from sightline.loading.clusters.this_machine import THIS_MACHINE
from sightline.planning.answer import NearestPlan
from sightline.scenario import Cluster, Device


def is_of_catalog(device: Device) -> bool:
    """Whether a device is one of the catalog with none of its figures changed, at whatever price."""
    if device.name != THIS_MACHINE and device.name not in catalog.names("devices"):
        return False
    return _figures(device) == _figures(read_device(device.name))


def is_usual(cluster: Cluster) -> bool:
    """Whether a cluster is a number of devices in their usual servers, of which nothing else was stated."""
    if cluster.name != f"{cluster.devices}x {cluster.device.name}" or not is_of_catalog(cluster.device):
        return False
    usual = read_cluster(cluster.name)
    return all(
        fields_of(getattr(cluster, part)) == fields_of(getattr(usual, part))
        for part in ("host", "network", "intra_node")
    )


def resizer(cluster: Cluster) -> Callable[[int], Cluster]:
    """Return what makes a cluster of other many devices: in the device's usual servers if they are in such."""
    if is_usual(cluster):
        return lambda count: replace(read_cluster(f"{count}x {cluster.device.name}"), device=cluster.device)
    node = max(cluster.per_node, cluster.full_node)
    return lambda count: replace(cluster, devices=count, per_node=min(count, node))


def devices_setting(cluster: Cluster) -> dict[str, Any]:
    """Return the setting that gives a scenario as many devices as a cluster of equal ones has."""
    if is_usual(cluster):
        return {"cluster": f"{cluster.devices}x {cluster.device.name}"}
    return {"cluster.devices": f"{cluster.devices}x {cluster.counted}" if cluster.counted else cluster.devices}


def cluster_settings(cluster: Cluster) -> dict[str, Any]:
    """Return what says on which devices of several kinds a plan runs, in their usual servers."""
    kinds = list(cluster.stated)
    return {"cluster.devices": kinds} if len(kinds) > 1 else {"cluster": kinds[0]}


def reads_back(cluster: Cluster) -> bool:
    """Whether the names of a cluster's kinds of devices are those of the catalog, so that `cluster_settings` read."""
    return all(is_of_catalog(part.device) for part in cluster.parts)


def without_names(one: NearestPlan) -> NearestPlan:
    """Return a plan on some of several kinds of devices, without its command where no name reads back as them."""
    return one if reads_back(one.plan.profile.scenario.cluster) else replace(one, command="")


def _figures(device: Device) -> dict[str, Any]:
    """What a device is, without its price."""
    return {name: value for name, value in fields_of(device).items() if name != "usd_per_hour"}

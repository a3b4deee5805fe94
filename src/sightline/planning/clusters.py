"""Clusters of a search: which are asked for, at which prices, and how a scenario states one again.

Devices that a scenario states figure by figure, or makes of technology, have no name that reads back. Their number is
then a setting of the scenario's own cluster, which keeps what else it states.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from sightline import catalog
from sightline.content import fields_of
from sightline.errors import InputError, nearest, noted, refuse
from sightline.loading.clusters.cluster import read_cluster, read_device
from sightline.loading.clusters.this_machine import THIS_MACHINE
from sightline.planning.plan_answer import NearestPlan
from sightline.quantities import USD_PER_HOUR, parse_quantity
from sightline.scenario import Cluster, Device
from sightline.scenario.cluster import Question


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


_RANGE = re.compile(r"\s*(\d{1,8})\s*\.\.\s*(\d{1,8})\s*[xX×*]\s*(\S.*?)\s*", re.ASCII)


def with_counts(names: Iterable[str], usual: Callable[[], Sequence[int]]) -> list[str]:
    """Return clusters as "<count>x <device>" or by name.

    Args:
        names: Devices alone, "<count>x <device>", "<from>..<to>x <device>", which doubles, or names of clusters.
        usual: Returns the counts of a device that is named alone; asked only where one is.

    Raises:
        InputError: a range that is empty or starts at 0.
    """
    found: list[str] = []
    for name in names:
        device = catalog.name_of("devices", name)
        if matched := _RANGE.fullmatch(name):
            found += [f"{count}x {matched[3]}" for count in _doubled(int(matched[1]), int(matched[2]), name)]
        elif device in catalog.names("devices"):
            found += [f"{count}x {device}" for count in usual()]
        else:
            found.append(name)
    return list(dict.fromkeys(found))


def _doubled(low: int, high: int, name: str) -> list[int]:
    if not 1 <= low <= high:
        raise InputError(f"devices is '{name}'; allowed: a doubling range, such as 8..1024x h100-sxm-80gb")
    return [low * 2**doublings for doublings in range((high // low).bit_length())]


Asked = TypeVar("Asked", bound=Question)
PRICE_OF = "price of "
"""What the name of an assumption about a device's price begins with."""


def read_prices(texts: Iterable[str], own: Iterable[str] = ()) -> dict[str, float]:
    """Return dollars per hour by device from texts such as "h100-sxm-80gb=2.50".

    ``own`` are the devices of a scenario, those that it writes out too, whose names no catalog knows.

    Raises:
        InputError: a text has another form, names no device or no price; all of them at once.
    """
    found, problems = {}, []
    theirs = tuple(own)
    known = (*theirs, *catalog.names("devices"))
    for text in texts:
        name, equals, price = text.partition("=")
        device = _device(name.strip(), theirs, known)
        if not equals:
            problems.append(f"price is '{text}'; allowed: NAME=USD_PER_HOUR, such as h100-sxm-80gb=2.50")
        elif device not in known:
            near = nearest(device, known)
            problems.append(
                f"price has unknown device '{name.strip()}'{near}; list all with `sightline catalog devices`"
            )
        else:
            with noted(problems, f"price of {device} "):
                found[device] = parse_quantity(price.strip(), USD_PER_HOUR, zero=True)
    refuse(problems)
    return found


def _device(name: str, own: Sequence[str], known: Sequence[str]) -> str:
    """The device that a name stands for: the only one of a scenario's that begins so, before any of the catalog."""
    if name in known:
        return name
    begun = [one for one in dict.fromkeys(own) if one.startswith(f"{name.lower()}-")]
    return begun[0] if len(begun) == 1 else catalog.name_of("devices", name)


def priced(cluster: Cluster, prices: Mapping[str, float]) -> Cluster:
    """Return the cluster with the prices of those of its devices that are given."""
    price = prices.get(cluster.device.name)
    groups = tuple(priced(part, prices) for part in cluster.groups)
    device = cluster.device if price is None else replace(cluster.device, usd_per_hour=price)
    return replace(cluster, device=device, groups=groups) if groups or price is not None else cluster


def with_prices(scenario: Asked, prices: Mapping[str, float]) -> Asked:
    """Return the scenario with the prices of those of its devices that are given."""
    return replace(scenario, cluster=priced(scenario.cluster, prices))


def price_assumptions(devices: Mapping[str, Device]) -> dict[str, str]:
    """Return what the price of each device is and rests on, by the name of the assumption."""
    return {f"{PRICE_OF}{name}": said_of_price(device) for name, device in devices.items()}


def said_of_price(device: Device) -> str:
    """Return what a device's price is and rests on, with its date; that nobody knows one, if so."""
    price = device.usd_per_hour
    if price is None:
        return "unknown; set it with --price"
    amount = f"{float(price):.2f} USD per hour"
    known = catalog.entry("devices", device.name) if device.name in catalog.names("devices") else {}
    if "price" not in known or parse_quantity(known["price"], USD_PER_HOUR) != price:
        return f"{amount}, from --price"
    source, evidence = (known.get(key, {}).get("price", "") for key in ("sources", "evidences"))
    return ", ".join(part for part in (amount, evidence, source) if part)

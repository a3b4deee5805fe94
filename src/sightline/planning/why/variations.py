"""Variations of a question that no plan meets: changes of it under which less memory is needed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sightline import catalog
from sightline.content import fields_of
from sightline.frameworks import read_framework
from sightline.loading.clusters.cluster import read_cluster
from sightline.planning.clusters import devices_setting, is_of_catalog, is_usual, resizer
from sightline.scenario import Adapter, Cluster, Device, Finetune, Scenario
from sightline.scenario.techniques import AdapterKind

SHORTEST = 256
"""Tokens of the shortest samples that are tried."""
MOST_DOUBLINGS = 6
"""How often the number of devices is doubled."""
TUNERS = ("transformers", "deepspeed")
"""Frameworks that train adapters, for questions whose own does not, or not in the memory there is."""
SHARDERS = ("deepspeed", "torchtitan", "megatron")
"""Frameworks that shard, split or offload what others hold whole."""
ROOMIER = 1.25
"""How many times the memory of one device that is tried the next has at least."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Variation:
    """A change of the question."""

    set: Mapping[str, Any]
    """Dotted keys with their values; empty for the question as it is."""
    scenario: Scenario
    remark: str = ""
    """What is another question then."""
    keeps_fields: bool = False
    """Whether fields of the plan have the values that were asked for."""


def others(scenario: Scenario) -> Iterator[Iterator[Variation]]:
    """Yield variations by kind, each kind from the smallest change on: the first that has a plan is enough."""
    if scenario.plan.adapter is None:
        yield iter(_adapted(scenario, "lora", "none"))
        yield iter(_adapted(scenario, "qlora", "nf4"))
    elif scenario.plan.adapter.kind == "lora":
        yield iter(_adapted(scenario, "qlora", "nf4"))
    yield _shorter(scenario)
    yield with_more_devices(scenario)
    yield _on_roomier_devices(scenario)
    yield _with_other_framework(scenario)


def _adapted(scenario: Scenario, kind: AdapterKind, form: str) -> list[Variation]:
    """The fine-tuning of an adapter, by the question's framework or another that has them."""
    own = scenario.plan.framework
    tuned = isinstance(scenario.workload, Finetune)
    workload = scenario.workload if tuned else Finetune(**fields_of(scenario.workload))
    found = []
    for framework in (own, *(read_framework(name) for name in TUNERS if name != own.name)):
        if not (framework.allows("adapter", kind) and framework.allows("quantization", form)):
            continue
        plan = replace(scenario.plan, framework=framework, adapter=Adapter(kind=kind), quantization=form)
        stated = {} if tuned else {"workload.task": "finetune"}
        stated |= {} if framework is own else {"plan.framework": framework.name}
        found.append(
            Variation(
                set={**stated, "plan.adapter": kind},
                scenario=replace(scenario, workload=workload, plan=plan),
                remark="trains an adapter alone",
            )
        )
    return found


def _shorter(scenario: Scenario) -> Iterator[Variation]:
    """Shorter samples, half as long again and again."""
    if scenario.workload.lengths is not None:
        return
    tokens = scenario.workload.sequence_length // 2
    while tokens >= SHORTEST:
        workload = replace(scenario.workload, sequence_length=tokens)
        remark = "a step then trains on fewer tokens"
        yield Variation(
            set={"workload.sequence_length": tokens}, scenario=replace(scenario, workload=workload), remark=remark
        )
        tokens //= 2


def with_more_devices(scenario: Scenario, at_least: float = 2.0) -> Iterator[Variation]:
    """Yield the question on more devices, from ``at_least`` so many times as many on."""
    for stated, cluster in larger_clusters(scenario.cluster, at_least):
        yield Variation(set=stated, scenario=replace(scenario, cluster=cluster))


def _on_roomier_devices(scenario: Scenario) -> Iterator[Variation]:
    """The question on as many devices of the catalog with more memory, from the next larger on.

    Of devices with as much memory the cheapest is tried, of those of the same maker that are rented.
    """
    for stated, cluster in roomier_clusters(scenario.cluster):
        yield Variation(set=stated, scenario=replace(scenario, cluster=cluster))


def roomier_clusters(cluster: Cluster) -> Iterator[tuple[dict[str, Any], Cluster]]:
    """Yield clusters of as many devices with ever more memory, with the key by which a scenario states them."""
    if cluster.groups:
        return
    stated = [f"{cluster.devices}x {name}" for name in catalog.names("devices")]
    keeps_parts = not is_usual(cluster) and is_of_catalog(cluster.device)
    least, known = float(cluster.device.memory_bytes), {one: read_cluster(one) for one in stated}
    rented = [
        (float(one.device.memory_bytes), float(one.device.usd_per_hour), name)
        for name, one in known.items()
        if one.device.usd_per_hour is not None and _stands_in(one.device, cluster.device)
    ]
    for memory_bytes, _, name in sorted(rented):
        if memory_bytes >= ROOMIER * least:
            least = memory_bytes
            # A cluster that was stated part by part keeps its host; figures of a device would change another one too.
            other = replace(known[name], host=cluster.host) if keeps_parts else known[name]
            yield {"cluster.devices" if keeps_parts else "cluster": name}, other


def _stands_in(device: Device, own: Device) -> bool:
    """Whether a device runs what is compiled for another and is no slower at reading memory."""
    makers = {one.architecture.rstrip("0123456789abcdef").partition("_")[0] for one in (device, own)}
    return len(makers) == 1 and bool(device.memory_bandwidth >= own.memory_bandwidth)


def _with_other_framework(scenario: Scenario) -> Iterator[Variation]:
    """The question in a framework that shards and offloads, on as many devices and on more."""
    for name in SHARDERS:
        if name == scenario.plan.framework.name:
            continue
        plan = replace(scenario.plan, framework=read_framework(name))
        other = replace(scenario, plan=plan)
        for variation in (Variation(set={}, scenario=other), *with_more_devices(other)):
            yield replace(variation, set={"plan.framework": name, **variation.set})


def larger_clusters(cluster: Cluster, at_least: float = 2.0) -> Iterator[tuple[dict[str, Any], Cluster]]:
    """Yield clusters of twice as many devices again and again, with the key by which a scenario states them."""
    resized = resizer(cluster)
    for doublings in range(1, MOST_DOUBLINGS + 1):
        if 2**doublings < at_least:
            continue
        other = resized(cluster.devices * 2**doublings)
        yield devices_setting(other), other

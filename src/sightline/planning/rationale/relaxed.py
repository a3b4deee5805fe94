"""Relaxed requests: looser limits, and changes of a question under which a plan needs less memory or time."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil, floor, log10
from typing import Any

from sightline import catalog
from sightline.content import fields_of
from sightline.frameworks import Framework, read_framework
from sightline.loading.clusters.cluster import read_cluster
from sightline.planning.clusters import devices_setting, is_of_catalog, is_usual, resizer
from sightline.planning.training.objectives import RunLimits
from sightline.quantities import significant
from sightline.scenario import Adapter, Cluster, Device, Finetune, Plan, Scenario
from sightline.scenario.techniques import AdapterKind

FARTHEST = 10.0
"""How many times a limit of time or money a plan may take, for a share to say it and for fewer tokens to help."""
_UNITS = (("d", 86400.0), ("h", 3600.0), ("min", 60.0))
"""Units of a deadline, the longest first."""


def looser(
    limits: RunLimits, figures: Mapping[str, float | None], *, max_memory: float | None = None, needed: float = 0.0
) -> tuple[dict[str, str], list[str]]:
    """Return options under which a plan fits, and by how much it exceeds each limit that it does not meet.

    Args:
        limits: Those on the run.
        figures: Of the plan, by result key.
        max_memory: Bytes of a device that a plan may take, where that is limited.
        needed: Bytes that the plan takes.
    """
    options, beyond = dict[str, str](), list[str]()
    if max_memory is not None and needed > max_memory:
        options["max-memory"] = f"{ceil(needed / 1e8) / 10:g}GB"
        beyond.append(_beyond(needed / max_memory, "max-memory"))
    if limits.deadline_s is not None:
        takes_s = figures["calendar_time_s"] or 0.0
        kept = limits.typed.get("deadline", "").replace(" ", "")
        options["deadline"] = _duration(takes_s) if takes_s > limits.deadline_s else kept or _days(limits.deadline_s)
        beyond.append(_beyond(takes_s / limits.deadline_s, "deadline"))
    if limits.budget_usd is not None and (cost := figures["cost_usd"]):
        options["budget"] = _dollars(cost) if cost > limits.budget_usd else f"{limits.budget_usd:.10g}"
        beyond.append(_beyond(cost / limits.budget_usd, "budget"))
    return options, [said for said in beyond if said]


def _beyond(ratio: float, limit: str) -> str:
    """By how much a limit is exceeded; nothing where it is met."""
    if ratio > FARTHEST:
        return f"{significant(ratio, 2):,.0f} times the {limit}"
    return f"{significant(100 * (ratio - 1), 2):g} % beyond the {limit}" if ratio > 1 else ""


def _two_digits(value: float) -> float:
    """The least number of two digits that is no less."""
    digit = 10.0 ** (floor(log10(value)) - 1)
    return ceil(value / digit) * digit


def _dollars(cost: float) -> str:
    """A budget of two digits that pays for it, as it is typed: 110, 5.5k."""
    usd = _two_digits(cost)
    return f"{usd / 1000:g}k" if usd >= 1000 else f"{usd:g}"


def _duration(seconds: float) -> str:
    """A deadline of two digits, or of whole days, that suffices, as it is typed: 3.2min, 14h, 15d."""
    unit, size = next(((unit, size) for unit, size in _UNITS if seconds >= size), _UNITS[-1])
    value = seconds / size
    return f"{ceil(value) if value >= 100 else _two_digits(value):g}{unit}"


def _days(seconds: float) -> str:
    return f"{seconds / 86400:.10g}d"


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
        plan = replace(_run_by(scenario.plan, framework), adapter=Adapter(kind=kind), quantization=form)
        stated = {} if tuned else {"workload.task": "finetune"}
        stated |= {} if framework is own else {"plan.framework": framework.name}
        found.append(
            Variation(
                set={**stated, "plan.adapter": kind},
                scenario=replace(scenario, workload=workload, plan=plan),
                remark="trains only an adapter",
            )
        )
    return found


def _run_by(plan: Plan, framework: Framework) -> Plan:
    """A plan in another framework, which exchanges and overlaps in its own way."""
    if framework.name == plan.framework.name:
        return plan
    decides: dict[str, Any] = {"context_exchange": framework.defaults.get("context_exchange", "ring")}
    return replace(
        plan, framework=framework, tensor_overlap=framework.tensor_overlap(plan.sequence_parallel), **decides
    )


def _shorter(scenario: Scenario) -> Iterator[Variation]:
    """Shorter samples, half as long again and again."""
    if scenario.workload.lengths is not None:
        return
    tokens = scenario.workload.sequence_length // 2
    while tokens >= SHORTEST:
        workload = replace(scenario.workload, sequence_length=tokens)
        remark = "trains on fewer tokens per step"
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
        other = replace(scenario, plan=_run_by(scenario.plan, read_framework(name)))
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

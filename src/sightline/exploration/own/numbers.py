"""Numbers of a scenario that a study lays out as arrays: how their values are read, and where they go.

Whatever else a study varies - names, formats, kernels - changes which operators there are, and is read scenario by
scenario.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sightline.loading.clusters.hardware import DEVICE, HOST, INTERCONNECT, NETWORK, Part
from sightline.loading.loader import Asked
from sightline.quantities import FLOPS, WATTS
from sightline.validators import Kind, fraction, quantity

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NumberKey:
    """A key of a scenario that takes an array."""

    key: str
    read: Kind
    """Returns a value as it is written as a number in SI units."""
    get: Callable[[Asked], Any]
    """The number that a scenario has: a float, or rates by dtype; None where it is not known."""
    put: Callable[[Asked, Any], Asked]
    """The scenario with another."""
    of_device: bool = False
    """Whether prices of operators depend on it, which are shared by all points with the same value."""
    whole: bool = False
    """Whether only whole numbers make sense."""
    unit: str = ""
    """SI unit, or ``share``; empty for a count."""


_DEVICE: Final = {
    "memory": ("memory_bytes", "B"),
    "memory_bandwidth": ("memory_bandwidth", "B/s"),
    "l2": ("l2_bytes", "B"),
    "l2_bandwidth": ("l2_bandwidth", "B/s"),
    "compute_units": ("compute_units", ""),
    "vector_flops": ("vector_flops", "FLOP/s"),
    "tdp": ("tdp_w", "W"),
    "idle_power": ("idle_w", "W"),
    "price": ("usd_per_hour", "USD/hour"),
}
_LINKS: Final = {"bandwidth": ("bandwidth", "B/s"), "latency": ("latency_s", "s")}
_NETWORK: Final = {
    "bandwidth_per_node": ("bandwidth_per_node", "B/s"),
    "latency": ("latency_s", "s"),
    "oversubscription": ("oversubscription", ""),
}
_HOST: Final = {"launch_time": ("launch_time_s", "s"), "device_bandwidth": ("device_bandwidth", "B/s")}
_PARTS: Final[Mapping[str, tuple[Part, Mapping[str, tuple[str, str]]]]] = {
    "device": (DEVICE, _DEVICE),
    "intra_node": (INTERCONNECT, _LINKS),
    "network": (NETWORK, _NETWORK),
    "host": (HOST, _HOST),
}
"""By part of a cluster: the field and the unit of each key."""
_TRAINING_PLAN: Final = (
    *("tensor_parallel", "pipeline_parallel", "context_parallel", "data_parallel", "expert_parallel"),
    *("micro_batch", "zero_stage", "sequence_parallel"),
)
"""Fields of a training plan that may be arrays. A number of virtual stages is none: it changes the schedule."""
_TRAINING_WORK: Final = ("global_batch",)
_GENERATION_WORK: Final = ("batch", "prompt_tokens", "output_tokens")
TECHNOLOGY: Final = "cluster.device.technology"
"""The key of what a device is made of."""
SPLIT: Final = "split."
_UNITS: Final[Mapping[str, str]] = {
    "die_area": "m2",
    "power": "W",
    "pin_rate": "bit/s",
    "memory_capacity": "B",
    "link_bandwidth": "B/s",
    "frequency": "Hz",
    "voltage": "V",
}
TRAINING_TASKS: Final = ("pretrain", "finetune")


def stated_device(mapping: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a scenario states of its device, where it does so in a mapping."""
    cluster: Any = mapping.get("cluster")
    device = cluster.get("device") if isinstance(cluster, Mapping) else None
    return device if isinstance(device, Mapping) else {}


def number_keys(task: str) -> dict[str, NumberKey]:
    """Return the keys that take arrays in scenarios of a task."""
    found = [_of_part(name, field) for name, (_, fields) in _PARTS.items() for field in fields]
    found += [_power_cap(), _peaks(), *([] if task in ("operator", "serve") else _of_plan_and_work(task))]
    return {one.key: one for one in found}


def peak_key(dtype: str) -> NumberKey:
    """Return the key of a device's peak in one dtype."""

    def put(scenario: Asked, value: Any) -> Asked:
        rates = {**scenario.cluster.device.peak_flops, dtype: value}
        return _with_part(scenario, "device", {"peak_flops": rates})

    return NumberKey(
        key=f"cluster.device.peak_flops.{dtype}",
        read=quantity(FLOPS),
        get=lambda scenario: scenario.cluster.device.peak_flops.get(dtype),
        put=put,
        of_device=True,
        unit="FLOP/s",
    )


def technology_key(key: str) -> NumberKey | None:
    """Return the key of a device's technology, None for any other; all axes of it are put in together."""
    below = key.removeprefix(f"{TECHNOLOGY}.")
    if below == key:
        return None
    from sightline.loading.clusters.technology import KEYS
    from sightline.technology.budget import PARTS

    kind: Kind | None = KEYS.get(below)
    is_share = below.startswith(SPLIT) and below.removeprefix(SPLIT) in PARTS
    if is_share:
        kind = fraction
    if kind is None:
        return None
    return NumberKey(
        key=key,
        read=kind,
        get=lambda _: None,
        put=lambda scenario, _: scenario,
        of_device=True,
        unit="share" if is_share else _UNITS.get(below, ""),
    )


def _with_part(scenario: Asked, part: str, fields: Mapping[str, Any]) -> Asked:
    cluster = scenario.cluster
    changed: Any = replace(getattr(cluster, part), **fields)
    return replace(scenario, cluster=replace(cluster, **{part: changed}))


def _of_part(name: str, key: str) -> NumberKey:
    part, fields = _PARTS[name]
    field, unit = fields[key]
    return NumberKey(
        key=f"cluster.{name}.{key}",
        read=part.keys[key],
        get=lambda scenario: getattr(getattr(scenario.cluster, name), field),
        put=lambda scenario, value: _with_part(scenario, name, {field: value}),
        of_device=name == "device",
        unit=unit,
    )


def _power_cap() -> NumberKey:
    def put(scenario: Asked, value: Any) -> Asked:
        return replace(scenario, cluster=replace(scenario.cluster, power_cap_w=value))

    return NumberKey(
        key="cluster.power_cap",
        read=quantity(WATTS),
        get=lambda scenario: scenario.cluster.power_cap_w,
        put=put,
        of_device=True,
        unit="W",
    )


def _peaks() -> NumberKey:
    """All peaks of a device together, of which a study states multiples."""
    return NumberKey(
        key="cluster.device.peak_flops",
        read=quantity(FLOPS),
        get=lambda scenario: scenario.cluster.device.peak_flops,
        put=lambda scenario, value: _with_part(scenario, "device", {"peak_flops": value}),
        of_device=True,
        unit="FLOP/s",
    )


def _of_plan_and_work(task: str) -> list[NumberKey]:
    from sightline.loading.plans import plan_keys

    if task in TRAINING_TASKS:
        declared = plan_keys()
        from sightline.loading.training import WORKLOAD

        plan = [_below("plan", name, declared[name]) for name in _TRAINING_PLAN]
        return [*plan, *(_below("workload", name, WORKLOAD[name]) for name in _TRAINING_WORK)]
    from sightline.loading.generation import GENERATE

    return [_below("workload", name, GENERATE[name]) for name in _GENERATION_WORK]


def _below(part: str, name: str, kind: Kind) -> NumberKey:
    """A field of the plan or the workload."""

    def put(scenario: Any, value: Any) -> Asked:
        changed = replace(getattr(scenario, part), **{name: np.asarray(value) * 1.0 if np.ndim(value) else value})
        scenario = replace(scenario, **{part: changed})
        answered: Asked = scenario
        return answered

    return NumberKey(
        key=f"{part}.{name}",
        read=kind,
        get=lambda scenario: getattr(getattr(scenario, part), name),
        put=put,
        whole=True,
    )

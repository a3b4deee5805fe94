"""A resolved scenario as plain values: what a result shows as ``scenario``, and what loads back as the same scenario."""

from dataclasses import fields
from typing import Any

import numpy as np

from sightline.loading.not_yet import PREDICTED
from sightline.loading.written_model import model_mapping
from sightline.scenario import (
    Cluster,
    Device,
    Generate,
    GenerationPlan,
    GenerationScenario,
    Operation,
    OperatorScenario,
    Plan,
    Scenario,
    Workload,
)
from sightline.scenario.lengths import Lengths

POOL_DEGREES = ("tensor_parallel", "pipeline_parallel", "data_parallel", "expert_parallel", "replicas")
"""Degrees that disaggregated workers have of their own."""


def to_mapping(scenario: Scenario | OperatorScenario | GenerationScenario) -> dict[str, Any]:
    """Return a scenario with the keys of a scenario file, every name resolved, in SI units; arrays become lists."""
    mapping: dict[str, Any]
    if isinstance(scenario, OperatorScenario):
        mapping = {"cluster": _cluster(scenario.cluster), "workload": _operation(scenario.workload)}
    elif isinstance(scenario, GenerationScenario):
        mapping = {
            "model": model_mapping(scenario.model),
            "cluster": _cluster(scenario.cluster),
            "workload": _workload(scenario.workload),
            "plan": _generation_plan(scenario.plan),
        }
    else:
        mapping = {
            "model": model_mapping(scenario.model),
            "cluster": _cluster(scenario.cluster),
            "workload": _workload(scenario.workload),
            "plan": _plan(scenario.plan),
        }
    mapping = {"name": scenario.name, **mapping, "measured": dict(scenario.measured)}
    return {key: _plain(value) for key, value in mapping.items() if value not in ("", {})}


def _cluster(cluster: Cluster) -> dict[str, Any]:
    link, network, host = cluster.intra_node, cluster.network, cluster.host
    written: dict[str, Any] = {
        "name": cluster.name,
        "devices": cluster.devices,
        "per_node": cluster.per_node,
        "device": device_to_mapping(cluster.device),
        "intra_node": {
            "name": link.name,
            "bandwidth": link.bandwidth,
            "latency": link.latency_s,
            "topology": link.topology,
            "peer_to_peer": link.peer_to_peer,
            "in_network_reduction": link.in_network_reduction,
            **({"dimensions": link.dimensions, "closes_at": link.closes_at} if link.topology == "torus" else {}),
            "beyond": None if link.beyond is None else link.beyond.name,
            "shares": link.shares,
        },
        "network": {
            "name": network.name,
            "bandwidth_per_node": network.bandwidth_per_node,
            "latency": network.latency_s,
            "topology": network.topology,
            "oversubscription": network.oversubscription,
            "nodes_per_switch": network.nodes_per_switch,
        },
        "host": {
            "name": host.name,
            "launch_time": host.launch_time_s,
            "speed": host.speed,
            "memory_bandwidth": host.memory_bandwidth,
            "memory": host.memory_bytes,
            "cores": host.cores,
            "device_bandwidth": host.device_bandwidth,
        },
        "power_cap": cluster.power_cap_w,
    }
    for key, source in cluster.sources.items():
        written[key]["source"] = source
    return written


def device_to_mapping(device: Device) -> dict[str, Any]:
    """Return a device under the keys that a catalog entry states it with."""
    return {
        "name": device.name,
        "peak_flops": dict(device.peak_flops),
        "memory": device.memory_bytes,
        "memory_bandwidth": device.memory_bandwidth,
        "l2": device.l2_bytes,
        "l2_bandwidth": device.l2_bandwidth,
        "compute_units": device.compute_units,
        "vector_flops": device.vector_flops,
        "tdp": device.tdp_w,
        "idle_power": device.idle_w,
        "calibration": device.calibration,
        "relatives": list(device.relatives),
        "price": device.usd_per_hour,
    }


def _workload(workload: Workload | Generate) -> dict[str, Any]:
    written = {"task": workload.task} | {f.name: getattr(workload, f.name) for f in fields(workload)}
    lengths = written.get("lengths")
    if isinstance(lengths, Lengths):
        return written | {"lengths": lengths.to_dict()}
    return {key: value for key, value in written.items() if key != "packing"}


def _operation(operation: Operation) -> dict[str, Any]:
    written = {f.name: getattr(operation, f.name) for f in fields(operation)}
    return {"task": operation.task, "operator": operation.operator} | written


def _plan(plan: Plan) -> dict[str, Any]:
    """The plan's fields, and of what this version does not predict yet the neutral value it stands for."""
    written = plan.to_dict()
    neutral = {key: values[0] for key, values in PREDICTED.items() if values and key not in written}
    return {"framework": written.pop("framework")} | written | neutral


def _generation_plan(plan: GenerationPlan) -> dict[str, Any]:
    """The plan's fields under the interface's keys; workers of their own as the two pools they are."""
    written = plan.to_dict()
    split, speculative = plan.disaggregate, plan.speculative
    written["quantization"] = ["none"] if plan.quantization == () else plan.quantization
    written["speculative"] = None if speculative is None else _fields(speculative)
    if split is not None:
        pools = {"prefill": _pool(split.prefill) | {"batch": split.prefill_batch}, "decode": _pool(plan)}
        written = {k: v for k, v in written.items() if k not in POOL_DEGREES} | {"disaggregate": pools}
    return {"framework": written.pop("framework")} | written


def _pool(plan: GenerationPlan) -> dict[str, Any]:
    return {degree: getattr(plan, degree) for degree in POOL_DEGREES}


def _fields(description: Any) -> dict[str, Any]:
    return {f.name: getattr(description, f.name) for f in fields(description)}


def _plain(value: Any) -> Any:
    """Plain JSON values: NumPy's as Python's, absent ones left out."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value

"""A resolved scenario as plain values: what a result shows as ``scenario``, and what loads back as the same scenario."""

from dataclasses import fields
from typing import Any

import numpy as np

from sightline.loading.not_yet import PREDICTED
from sightline.scenario import Cluster, Device, Model, Operation, OperatorScenario, Plan, Scenario, Workload


def to_mapping(scenario: Scenario | OperatorScenario) -> dict[str, Any]:
    """Return a scenario with the keys of a scenario file, every name resolved, in SI units; arrays become lists."""
    mapping: dict[str, Any]
    if isinstance(scenario, OperatorScenario):
        mapping = {"cluster": _cluster(scenario.cluster), "workload": _operation(scenario.workload)}
    else:
        mapping = {
            "model": _model(scenario.model),
            "cluster": _cluster(scenario.cluster),
            "workload": _workload(scenario.workload),
            "plan": _plan(scenario.plan),
        }
    mapping = {"name": scenario.name, **mapping, "measured": dict(scenario.measured)}
    return {key: _plain(value) for key, value in mapping.items() if value not in ("", {})}


def _model(model: Model) -> dict[str, Any]:
    return {
        "name": model.name,
        "model_type": "transformer",
        "hidden_size": model.hidden_size,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads,
        "head_dim": model.head_dim,
        "intermediate_size": model.intermediate_size,
        "vocab_size": model.vocab_size,
        "max_position_embeddings": model.max_positions,
        "norm": model.norm,
        "hidden_act": model.activation,
        "positions": model.positions,
        "tie_word_embeddings": model.tied_embeddings,
        "attention_bias": model.attention_bias,
        "output_bias": model.output_bias,
        "mlp_bias": model.mlp_bias,
        "norm_bias": model.norm_bias,
        "embedding_norm": model.embedding_norm,
        "position_offset": model.position_offset,
        "dropout": model.dropout,
    }


def _cluster(cluster: Cluster) -> dict[str, Any]:
    link, network, host = cluster.intra_node, cluster.network, cluster.host
    written: dict[str, Any] = {
        "name": cluster.name,
        "devices": cluster.devices,
        "per_node": cluster.per_node,
        "device": _device(cluster.device),
        "intra_node": {
            "name": link.name,
            "bandwidth": link.bandwidth,
            "latency": link.latency_s,
            "topology": link.topology,
            "peer_to_peer": link.peer_to_peer,
            "in_network_reduction": link.in_network_reduction,
        },
        "network": {
            "name": network.name,
            "bandwidth_per_node": network.bandwidth_per_node,
            "latency": network.latency_s,
            "topology": network.topology,
        },
        "host": {
            "name": host.name,
            "launch_time": host.launch_time_s,
            "memory_bandwidth": host.memory_bandwidth,
            "memory": host.memory_bytes,
            "cores": host.cores,
        },
        "power_cap": cluster.power_cap_w,
    }
    for key, source in cluster.sources.items():
        written[key]["source"] = source
    return written


def _device(device: Device) -> dict[str, Any]:
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


def _workload(workload: Workload) -> dict[str, Any]:
    return {"task": workload.task} | {f.name: getattr(workload, f.name) for f in fields(workload)}


def _operation(operation: Operation) -> dict[str, Any]:
    written = {f.name: getattr(operation, f.name) for f in fields(operation)}
    return {"task": operation.task, "operator": operation.operator} | written


def _plan(plan: Plan) -> dict[str, Any]:
    """The plan's fields, and of what this version does not predict yet the neutral value it stands for."""
    written = plan.to_dict()
    neutral = {key: values[0] for key, values in PREDICTED.items() if values and key not in written}
    return {"framework": written.pop("framework")} | written | neutral


def _plain(value: Any) -> Any:
    """Plain JSON values: NumPy's as Python's, absent ones left out."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value

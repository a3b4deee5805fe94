"""A resolved scenario as plain values: what a result shows as ``scenario``, and what loads back as the same scenario."""

from dataclasses import MISSING, asdict, fields
from typing import Any

import numpy as np

from sightline.loading.clusters.hardware import device_to_mapping, part_to_mapping
from sightline.loading.models.blocks import BLOCKS
from sightline.loading.models.config import FIELD_KEYS
from sightline.loading.models.family import OWN_FAMILY
from sightline.loading.plans.plan import PREDICTED
from sightline.scenario import (
    Cluster,
    Generate,
    GenerationPlan,
    GenerationScenario,
    Model,
    Operation,
    OperatorScenario,
    Plan,
    Scenario,
    Workload,
)
from sightline.scenario.lengths import Lengths

POOL_DEGREES = ("tensor_parallel", "pipeline_parallel", "data_parallel", "expert_parallel", "replicas")
"""Degrees that disaggregated workers have of their own."""


_WHERE_OTHER = (
    "value_head_dim",
    "window",
    "attention_gate",
    "qk_norm",
    "wide_qk_norm",
    "fp32_router",
    "parallel_block",
    "layer_norms",
    "residual_streams",
    "score_cap",
    "logit_cap",
    "prediction_layers",
    "weights",
    "kv_cache",
)
"""Fields written only where they are not the default, under their own names."""


def to_mapping(scenario: Scenario | OperatorScenario | GenerationScenario) -> dict[str, Any]:
    """Return a scenario with the keys of a scenario file, every name resolved, in SI units; arrays become lists."""
    mapping: dict[str, Any] = {"cluster": _cluster(scenario.cluster)}
    if isinstance(scenario, OperatorScenario):
        mapping |= {"workload": _operation(scenario.workload)}
    else:
        plan = _generation_plan(scenario.plan) if isinstance(scenario, GenerationScenario) else _plan(scenario.plan)
        mapping = {"model": _model(scenario.model), **mapping, "workload": _workload(scenario.workload), "plan": plan}
    mapping = {"name": scenario.name, **mapping, "measured": dict(scenario.measured)}
    return {key: _plain(value) for key, value in mapping.items() if value not in ("", {})}


def _model(model: Model) -> dict[str, Any]:
    """Every figure of a model under the keys of model_type ``transformer``, which load back as the same model."""
    defaults = {f.name: f.default for f in fields(model)}
    blocks = {name: getattr(model, name) for name in BLOCKS}
    return {
        "name": model.name,
        "model_type": OWN_FAMILY,
        **{key: getattr(model, name) for name, key in FIELD_KEYS.items() if name not in (*_WHERE_OTHER, "name")},
        **{name: getattr(model, name) for name in _WHERE_OTHER if getattr(model, name) != defaults[name]},
        **{name: _stated(block) for name, block in blocks.items() if block is not None},
        **({"layer_kinds": [_stated(kind) for kind in model.layer_kinds]} if model.layer_kinds else {}),
        **({"weight_exceptions": dict(model.weight_exceptions)} if model.weight_exceptions else {}),
    }


def _stated(block: Any) -> dict[str, Any]:
    """A block's fields that are needed or not the default."""
    whole = asdict(block)
    return {f.name: whole[f.name] for f in fields(block) if f.default is MISSING or whole[f.name] != f.default}


def _cluster(cluster: Cluster) -> dict[str, Any]:
    link = part_to_mapping(cluster.intra_node)
    if cluster.intra_node.topology != "torus":
        link = {k: v for k, v in link.items() if k not in ("dimensions", "closes_at")}
    beyond = cluster.intra_node.beyond
    written: dict[str, Any] = {
        "name": cluster.name,
        "devices": cluster.devices,
        "per_node": cluster.per_node,
        "device": device_to_mapping(cluster.device),
        "intra_node": link | {"beyond": None if beyond is None else beyond.name},
        "network": part_to_mapping(cluster.network),
        "host": part_to_mapping(cluster.host),
        "power_cap": cluster.power_cap_w,
    }
    for key, source in cluster.sources.items():
        written[key]["source"] = source
    return written


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
    """The plan's fields, and the neutral value of each key that this version does not predict yet."""
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

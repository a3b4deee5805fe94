"""A resolved scenario as plain values: what a result shows as ``scenario``, and what loads back as the same."""

from dataclasses import MISSING, asdict, fields
from typing import Any

import numpy as np

from sightline.content import fields_of
from sightline.loading.clusters.hardware import device_to_mapping
from sightline.loading.models.config import FIELD_KEYS
from sightline.loading.models.family import OWN_FAMILY
from sightline.loading.models.layers import BLOCKS
from sightline.loading.serving import load_written
from sightline.scenario import (
    Cluster,
    Generate,
    GenerationPlan,
    GenerationScenario,
    Model,
    OperatorScenario,
    Scenario,
    Serve,
    ServingScenario,
    Workload,
)
from sightline.scenario.generation import DEGREES, SERVING_ONLY
from sightline.scenario.lengths import Lengths
from sightline.validators import as_stated, unusual

POOL_DEGREES = (*DEGREES, "replicas")
"""Degrees that disaggregated workers have of their own."""


def to_mapping(scenario: Scenario | OperatorScenario | GenerationScenario | ServingScenario) -> dict[str, Any]:
    """Return a scenario with the keys of a scenario file, every name resolved, in SI units; arrays become lists."""
    model = {} if isinstance(scenario, OperatorScenario) else {"model": _plain(_model(scenario.model))}
    mapping = {
        "name": scenario.name,
        **model,
        "cluster": _plain(_cluster(scenario.cluster)),
        **workload_and_plan(scenario),
    }
    mapping["measured"] = _plain(dict(scenario.measured))
    mapping["unread"] = list(scenario.unread)
    return {key: value for key, value in mapping.items() if value not in ("", {}, [])}


def workload_and_plan(scenario: OperatorScenario | Scenario | GenerationScenario | ServingScenario) -> dict[str, Any]:
    """Return the workload and the plan of a scenario with the keys of a scenario file."""
    if isinstance(scenario, OperatorScenario):
        work = scenario.workload
        return {"workload": _plain({"task": work.task, "operator": work.operator} | fields_of(work))}
    if isinstance(scenario, GenerationScenario | ServingScenario):
        plan = _generation_plan(scenario.plan)
    else:
        # Training has one replica.
        plan = {**scenario.plan.to_dict(), "replicas": 1}
    return {"workload": _plain(_workload(scenario.workload)), "plan": _plain(plan)}


def _model(model: Model) -> dict[str, Any]:
    """Every figure of a model under the keys of model_type ``transformer``, which load back as the same model."""
    names = [f.name for f in fields(model)]
    plain = names[1 : names.index("layer_kinds")]
    other = (f for f in fields(model) if f.name not in ("name", *plain) and getattr(model, f.name) != f.default)
    return {
        "name": model.name,
        "model_type": OWN_FAMILY,
        **{key: getattr(model, name) for name, key in FIELD_KEYS.items() if name in plain},
        **{f.name: _beyond_plain(f.name, getattr(model, f.name)) for f in other},
    }


def _beyond_plain(name: str, value: Any) -> Any:
    """What only some models have, written only where it is not the default."""
    match name:
        case "layer_kinds":
            return [_stated(kind) for kind in value]
        case "weight_exceptions":
            return dict(value)
    return _stated(value) if name in BLOCKS else value


def _stated(block: Any) -> dict[str, Any]:
    """A block's fields that are needed or not the default."""
    whole = asdict(block)
    return {f.name: whole[f.name] for f in fields(block) if f.default is MISSING or whole[f.name] != f.default}


def _cluster(cluster: Cluster) -> dict[str, Any]:
    if cluster.groups:
        groups = [_cluster(group) for group in cluster.groups]
        return {"name": cluster.name, "devices": groups, "network": as_stated(cluster.network)}
    written = as_stated(cluster) | {"device": device_to_mapping(cluster.device)}
    links = cluster.intra_node
    written["intra_node"]["beyond"] = None if links.beyond is None else links.beyond.name
    for key in ("dimensions", "closes_at") if links.topology != "torus" else ():
        del written["intra_node"][key]
    if links.topology == "full-mesh":
        # A device has a link per peer of a full node, and those of a smaller one some of them.
        written["per_node"] = max(cluster.per_node, cluster.full_node)
    for key, source in cluster.sources.items():
        written[key]["source"] = source
    return written


def _workload(workload: Workload | Generate | Serve) -> dict[str, Any]:
    if isinstance(workload, Serve):
        return load_written(workload)
    usual = ("preference", "reference") if getattr(workload, "preference", "none") == "none" else ()
    written = {"task": workload.task} | {key: value for key, value in fields_of(workload).items() if key not in usual}
    lengths = written.get("lengths")
    if isinstance(lengths, Lengths):
        return written | {"lengths": lengths.to_dict()}
    drawn = {"sampling": as_stated(written["sampling"])} if written.get("sampling") else {}
    return {key: value for key, value in written.items() if key != "packing"} | drawn


def _generation_plan(plan: GenerationPlan) -> dict[str, Any]:
    """The plan's fields under the interface's keys; workers of their own as the two pools they are."""
    split, engine = plan.disaggregate, {"framework": plan.engine.name, "framework_version": plan.engine.version or None}
    usual = {*SERVING_ONLY} - unusual(plan).keys()
    written = engine | {key: value for key, value in as_stated(plan).items() if key not in usual}
    written["quantization"] = ["none"] if plan.quantization == () else plan.quantization
    if split is not None:
        pools = {"prefill": _pool(split.prefill) | {"batch": split.prefill_batch or None}, "decode": _pool(plan)}
        if split.prefill_device:
            pools["prefill"]["device"] = split.prefill_device
        written = {k: v for k, v in written.items() if k not in POOL_DEGREES} | {"disaggregate": pools}
    return written


def _pool(plan: GenerationPlan) -> dict[str, Any]:
    return {degree: getattr(plan, degree) for degree in POOL_DEGREES}


def _plain(value: Any) -> Any:
    """Plain JSON values: NumPy's as Python's, absent ones left out."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value

"""A scenario of ``task: generate`` into a `GenerationScenario`, or every mistake in it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sightline.errors import InputError
from sightline.frameworks import read_engine
from sightline.loading.clusters import cluster_of
from sightline.loading.complaints import Checked, Complaints, check, require
from sightline.loading.generation_checks import mistakes
from sightline.loading.measured import read_measured
from sightline.loading.model_sources import model_of
from sightline.loading.quantization import read_quantization
from sightline.loading.schema import GenerateKeys, PlanKeys, PoolKeys, ScenarioKeys, SpeculationKeys
from sightline.quantities import show
from sightline.scenario import (
    Cluster,
    Disaggregation,
    Engine,
    Generate,
    GenerationPlan,
    GenerationScenario,
    Model,
    Speculation,
)

DEFAULT_ENGINE = "reference"
NARROW_WORDS = ("nvfp4", "fp8", "awq", "gptq", "int4", "w4a16")
"""What names of checkpoints with narrow weights have in them."""
_PARTS = {
    "model": "a name of the catalog, a path or a mapping",
    "cluster": "'<count>x <device>', a name of the catalog or a mapping",
}
_NEEDED = {
    "batch": "sequences in flight, a whole number of 1 or more",
    "prompt_tokens": "tokens of each prompt, a whole number of 1 or more",
    "output_tokens": "tokens generated per sequence, a whole number of 1 or more",
}
TRAINING_ONLY = {
    "sequence_parallel": False,
    "virtual_stages": 1,
    "context_parallel": 1,
    "context_exchange": None,
    "micro_batch": None,
    "zero_stage": 0,
    "recompute": "none",
    "schedule": None,
    "offload": "none",
    "adapter": "none",
    "optimizer": None,
    "compile": False,
    "attention": "flash",
}
"""Plan keys that generation has no use for, with the value that says so."""
_COPIED = (
    "tensor_parallel",
    "pipeline_parallel",
    "data_parallel",
    "expert_parallel",
    "replicas",
    "chunked_prefill",
    "max_batched_tokens",
    "cuda_graphs",
    "prefix_cache",
    "kv_block_tokens",
    "memory_fraction",
    "expert_skew",
)
"""Plan keys that a `GenerationPlan` takes as they are."""


def is_generation(mapping: object) -> bool:
    """Whether a scenario's mapping asks for generation."""
    workload = mapping.get("workload") if isinstance(mapping, Mapping) else None
    return isinstance(workload, Mapping) and workload.get("task") == "generate"


def generation_from_mapping(mapping: Mapping[str, Any], base: Path | str | None = None) -> GenerationScenario:
    """Return the scenario of a mapping whose task is generate; raise `InputError` with every mistake in it."""
    complaints = Complaints()
    top = check(ScenarioKeys, mapping, "", complaints)
    require(top, _PARTS, "", complaints)
    read = model_of(top, Path(base or ""), complaints)
    cluster = cluster_of(top, complaints)
    workload = _workload(mapping["workload"], complaints)
    model = None if read is None else read.model
    plan = _plan(top.values.get("plan"), "plan", model, cluster, complaints)
    measured = read_measured(top.values.get("measured"), complaints)
    if model is not None and cluster is not None and workload is not None and plan is not None:
        complaints.add(*mistakes(model, cluster, workload, plan, _stated(top)))
    if complaints.problems or model is None or cluster is None or workload is None or plan is None:
        raise InputError(complaints.problems)
    return GenerationScenario(
        name=top.values.get("name", ""),
        model=model,
        cluster=cluster,
        workload=workload,
        plan=plan,
        measured=measured,
        warnings=(*(read.remarks if read else ()), *_remarks(model, workload, plan)),
    )


def _stated(top: Checked) -> Mapping[str, Any]:
    """The plan as it was written, once it is known to be a mapping."""
    return top.values.get("plan") or {}


def _workload(mapping: Mapping[str, Any], complaints: Complaints) -> Generate | None:
    checked = check(GenerateKeys, mapping, "workload", complaints)
    require(checked, _NEEDED, "workload", complaints)
    values = {k: v for k, v in checked.values.items() if k != "task"}
    return Generate(**values) if not checked.wrong and _NEEDED.keys() <= values.keys() else None


def _plan(
    mapping: object, key: str, model: Model | None, cluster: Cluster | None, complaints: Complaints
) -> GenerationPlan | None:
    """The resolved plan where all of it is right; what is left out is the engine's default, then `GenerationPlan`'s."""
    checked = check(PlanKeys, mapping, key, complaints)
    stated = checked.values
    complaints.add(*_no_use(stated, key))
    engine = _engine(stated, checked, complaints)
    if engine is None:
        return None
    values = {**engine.defaults, **stated}
    chosen: dict[str, Any] = {k: values[k] for k in _COPIED if k in values}
    chosen["dtype"] = values.get("dtype", "bf16")
    chosen["memory_fraction"] = values.get("memory_fraction", engine.memory.memory_fraction)
    chosen["quantization"] = read_quantization(values.get("quantization"), f"{key}.quantization", complaints)
    chosen["speculative"] = _speculation(values.get("speculative"), f"{key}.speculative", complaints)
    if checked.wrong or complaints.problems or cluster is None:
        return None
    split = values.get("disaggregate")
    if split is not None:
        return _disaggregated(split, key, engine, {**stated, **chosen}, complaints)
    plan = GenerationPlan(engine=engine, **chosen)
    return _filling(plan, chosen, engine, cluster.devices, model)


def _no_use(stated: Mapping[str, Any], key: str) -> list[str]:
    """Keys of training that say anything but nothing."""
    return [
        f"{key}.{name} is {show(stated[name])}; it is for training, generation has no use for it"
        for name, nothing in TRAINING_ONLY.items()
        if name in stated and not _says_nothing(stated[name], nothing)
    ]


def _says_nothing(value: object, nothing: object) -> bool:
    """Whether a value is the one that asks for nothing, of its very type: ``true`` is not 1."""
    return value in ([], ["none"], {"kind": "none"}) or (type(value) is type(nothing) and value == nothing)


def _engine(stated: Mapping[str, Any], checked: Checked, complaints: Complaints) -> Engine | None:
    if {"framework", "framework_version"} & checked.wrong:
        return None
    try:
        return read_engine(stated.get("framework", DEFAULT_ENGINE), stated.get("framework_version", ""))
    except InputError as error:
        complaints.add(*error.problems)
        return None


def _speculation(mapping: object, key: str, complaints: Complaints) -> Speculation | None:
    if mapping is None:
        return None
    checked = check(SpeculationKeys, mapping, key, complaints)
    require(checked, {"tokens": "tokens drafted per pass", "acceptance": "a number from 0 to below 1"}, key, complaints)
    return Speculation(**checked.values) if {"tokens", "acceptance"} <= checked.values.keys() else None


def _filling(
    plan: GenerationPlan, stated: Mapping[str, Any], engine: Engine, devices: int, model: Model | None
) -> GenerationPlan:
    """The plan with the devices that no degree claims: more data-parallel ranks where experts span them, else replicas.

    Without any degree stated one replica spans the cluster by tensor parallelism, as far as the heads divide.
    """
    degrees = {"tensor_parallel", "pipeline_parallel", "data_parallel", "expert_parallel", "replicas"} & stated.keys()
    if not degrees and not engine.scheduling.splits_layers:
        shared = devices if model is None or model.heads % devices == 0 else 1
        plan = replace(plan, tensor_parallel=shared)
    left, rest = divmod(devices, int(plan.devices))
    if rest or left == 1:
        return plan
    if engine.scheduling.splits_layers and "pipeline_parallel" not in stated:
        return replace(plan, pipeline_parallel=left * plan.pipeline_parallel)
    if "data_parallel" not in stated and plan.expert_parallel > plan.tensor_parallel:
        return replace(plan, data_parallel=left * plan.data_parallel)
    return replace(plan, replicas=left * plan.replicas) if "replicas" not in stated else plan


def _disaggregated(
    mapping: object,
    key: str,
    engine: Engine,
    values: Mapping[str, Any],
    complaints: Complaints,
) -> GenerationPlan | None:
    """Two plans, one per kind of worker; each states its degrees, the rest is shared."""
    if not isinstance(mapping, Mapping) or set(mapping) != {"prefill", "decode"}:
        complaints.add(f"{key}.disaggregate is {show(mapping)}; allowed: a mapping with prefill and decode")
        return None
    shared = {k: v for k, v in values.items() if k in (*_COPIED, "dtype", "quantization", "speculative")}
    plans, batch = {}, 1
    for pool in ("prefill", "decode"):
        checked = check(PoolKeys, mapping[pool], f"{key}.disaggregate.{pool}", complaints)
        own = dict(checked.values)
        batch = own.pop("batch", batch)
        plans[pool] = GenerationPlan(engine=engine, **{**shared, **own})
    if complaints.problems:
        return None
    return replace(plans["decode"], disaggregate=Disaggregation(prefill=plans["prefill"], prefill_batch=batch))


def _beyond_trained(model: Model, workload: Generate) -> tuple[str, ...]:
    length = int(workload.prompt_tokens + workload.output_tokens)
    if length <= model.max_positions:
        return ()
    asked = f"workload.prompt_tokens {workload.prompt_tokens} and output_tokens {workload.output_tokens}"
    return (f"{asked} go beyond the {model.max_positions} tokens {model.name} was trained for",)


def _remarks(model: Model, workload: Generate, plan: GenerationPlan) -> Iterator[str]:
    """What is answered although it may not be meant."""
    yield from _beyond_trained(model, workload)
    said = next((word for word in NARROW_WORDS if word in model.name.lower()), None)
    if said and model.weights == "bf16" and plan.quantization is None:
        yield (
            f"{model.name} is called {said} but its config states no quantization, so its weights are read as bf16; "
            "plan.quantization or model.weights says otherwise"
        )
    if workload.prefix_tokens and not plan.prefix_cache:
        yield f"workload.prefix_tokens {workload.prefix_tokens} are computed again: plan.prefix_cache is off"
    if plan.speculative is not None and not model.prediction_layers:
        yield f"{model.name} has no prediction layer of its own: drafts of plan.speculative are taken to cost nothing"

"""One scenario's mapping into a `Scenario`, or every mistake in it."""

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

from sightline.errors import InputError, nearest
from sightline.loading.checks import mistakes
from sightline.loading.clusters import cluster_of
from sightline.loading.complaints import Complaints, check, require
from sightline.loading.lengths import read_lengths
from sightline.loading.measured import read_measured
from sightline.loading.model_sources import model_of
from sightline.loading.models import ReadModel
from sightline.loading.not_yet import PREDICTED_TASKS, TASKS
from sightline.loading.plans import ReadPlan, read_plan
from sightline.loading.schema import ScenarioKeys, WorkloadKeys
from sightline.quantities import show
from sightline.scenario import Cluster, Finetune, Plan, Pretrain, Scenario, Workload
from sightline.scenario.lengths import Lengths

_TASKS: Mapping[str, type[Pretrain]] = {"pretrain": Pretrain, "finetune": Finetune}
_PARTS = {
    "model": "a name of the catalog, a path or a mapping",
    "cluster": "'<count>x <device>', a name of the catalog or a mapping",
    "workload": "a mapping with task, sequence_length and global_batch",
}


def scenario_from_mapping(mapping: Mapping[str, Any], base: Path | str | None = None) -> Scenario:
    """Return the training scenario of a mapping with the keys of a scenario file; paths are relative to ``base``.

    Raise `InputError` with every mistake in it.
    """
    complaints = Complaints()
    top = check(ScenarioKeys, mapping, "", complaints)
    if isinstance(mapping, Mapping):
        require(top, _PARTS, "", complaints)
    model = model_of(top, Path(base or ""), complaints)
    cluster = cluster_of(top, complaints)
    workload = _workload(top.values.get("workload"), complaints)
    plan = read_plan(top.values.get("plan"), complaints)
    measured = read_measured(top.values.get("measured"), complaints)
    facts = _facts(model, cluster, workload, plan)
    complaints.add(*mistakes(facts))
    if complaints.problems or model is None or cluster is None or plan.framework is None:
        raise InputError(complaints.problems)
    return Scenario(
        name=top.values.get("name", ""),
        model=model.model,
        cluster=cluster,
        workload=_task(workload),
        plan=Plan(framework=plan.framework, **{**plan.values, "data_parallel": facts["data_parallel"]}),
        measured=measured,
        warnings=_warnings(model, workload),
    )


def _workload(mapping: object, complaints: Complaints) -> dict[str, Any]:
    """The workload's good values, mistakes noted."""
    if mapping is None:
        return {}
    task = mapping.get("task") if isinstance(mapping, Mapping) else None
    if isinstance(task, str) and task in TASKS and task not in PREDICTED_TASKS:
        # The keys of other tasks are not known yet; complaining about them would mislead.
        complaints.add(f"workload.task is {show(task)}; this version predicts only {', '.join(PREDICTED_TASKS)}")
        return {}
    if task in ("operator", "generate"):
        complaints.add(f"workload.task is {show(task)}; needed here: {', '.join(_TASKS)}")
        return {}
    checked = check(WorkloadKeys, mapping, "workload", complaints)
    if not isinstance(mapping, Mapping):
        return {}
    needs = {
        "task": ", ".join(PREDICTED_TASKS),
        "sequence_length": "tokens per sample, a whole number of 1 or more",
        "global_batch": "samples per optimizer step, a whole number of 1 or more",
    }
    require(checked, needs, "workload", complaints)
    if "task" in checked.values and task not in TASKS:
        complaints.add(f"workload.task is {show(task)}; allowed: {', '.join(TASKS)}{nearest(task, TASKS)}")
    return read_lengths(checked.values, complaints)


def _task(values: Mapping[str, Any]) -> Workload:
    return _TASKS[values["task"]](**{k: v for k, v in values.items() if k != "task"})


def _facts(
    model: ReadModel | None, cluster: Cluster | None, workload: Mapping[str, Any], plan: ReadPlan
) -> dict[str, Any]:
    """What is known of the scenario, by the names the checks use."""
    facts: dict[str, Any] = {**workload, **plan.values, "plan": plan.values, "dtype_is_stated": "dtype" in plan.stated}
    facts["fp8_recipe_is_stated"] = "fp8_recipe" in plan.stated
    if plan.framework is not None:
        facts["framework"] = plan.framework
    if model is not None:
        facts["model"] = model.model
        facts |= {"heads": model.model.heads, "layers": model.model.layers}
    if cluster is not None:
        facts |= {"devices": cluster.devices, "device": cluster.device}
    facts["data_parallel_is_free"] = "data_parallel" not in facts
    degrees = ("tensor_parallel", "pipeline_parallel", "context_parallel")
    if facts["data_parallel_is_free"] and {"devices", *degrees} <= facts.keys():
        left, rest = divmod(facts["devices"], prod(facts[degree] for degree in degrees))
        facts |= {} if rest else {"data_parallel": left}
    return facts


def _warnings(model: ReadModel, workload: Mapping[str, Any]) -> tuple[str, ...]:
    length, trained = workload["sequence_length"], model.model.max_positions
    lengths: Lengths | None = workload.get("lengths")
    cut = 0.0 if lengths is None else lengths.cut_share(length)
    return (
        *model.remarks,
        *(
            [f"workload.sequence_length {length} is beyond the {trained} tokens {model.model.name} was trained for"]
            if length > trained
            else []
        ),
        *([f"{cut:.1%} of workload.lengths are cut at workload.sequence_length {length}"] if cut else []),
    )

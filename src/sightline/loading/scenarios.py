"""One scenario's mapping into a training scenario, or every mistake in it; and the parts that all tasks have."""

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from sightline.errors import InputError, nearest
from sightline.loading.clusters import cluster_of
from sightline.loading.input.complaints import Complaints, check, require
from sightline.loading.input.kinds import Keys, anything, each, flag, name_or_mapping, quantity, text, whole
from sightline.loading.lengths import read_lengths
from sightline.loading.measured import read_measured
from sightline.loading.models import ReadModel, model_of
from sightline.loading.plans import ReadPlan, read_training_plan
from sightline.loading.plans.keys import PREDICTED_TASKS, TASKS
from sightline.quantities import COUNT, show
from sightline.scenario import Cluster, Finetune, Framework, Plan, Pretrain, Scenario, Workload
from sightline.scenario.lengths import Lengths
from sightline.scenario.rules import TRAINING_RULES, broken_rules, known_facts

SCENARIO: Keys = {
    "name": text,
    **each(name_or_mapping, "model cluster"),
    **each(anything, "workload plan measured"),
}
"""The top of a scenario."""
WORKLOAD: Keys = {
    "task": text,
    **each(whole(), "sequence_length global_batch"),
    "total_tokens": quantity(COUNT),
    "lengths": anything,
    "packing": flag,
}
"""``workload`` of training."""
_TASKS: Mapping[str, type[Pretrain]] = {"pretrain": Pretrain, "finetune": Finetune}
MODEL = {"model": "a name of the catalog, a path or a mapping"}
CLUSTER = {"cluster": "'<count>x <device>', a name of the catalog or a mapping"}
_NEEDED_WORKLOAD = {"workload": "a mapping with task, sequence_length and global_batch"}


class Parts(NamedTuple):
    """What scenarios of all tasks have, as far as it could be read."""

    name: str
    model: ReadModel | None
    cluster: Cluster | None
    measured: Any
    workload: Any
    plan: Any


def read_parts(
    mapping: Mapping[str, Any], needed: Mapping[str, str], base: Path | str | None, complaints: Complaints
) -> Parts:
    """Return the parts of a scenario, mistakes noted; a model is read only where one is ``needed``."""
    top = check(SCENARIO, mapping, "", complaints)
    if isinstance(mapping, Mapping):
        require(top, needed, "", complaints)
    return Parts(
        name=top.values.get("name", ""),
        model=model_of(top, Path(base or ""), complaints) if "model" in needed else None,
        cluster=cluster_of(top, complaints),
        measured=top.values.get("measured"),
        workload=top.values.get("workload"),
        plan=top.values.get("plan"),
    )


def scenario_from_mapping(mapping: Mapping[str, Any], base: Path | str | None = None) -> Scenario:
    """Return the training scenario of a mapping with the keys of a scenario file; paths are relative to ``base``.

    Raise `InputError` with every mistake in it.
    """
    complaints = Complaints()
    parts = read_parts(mapping, {**MODEL, **CLUSTER, **_NEEDED_WORKLOAD}, base, complaints)
    workload = _workload(parts.workload, complaints)
    plan = read_training_plan(parts.plan, complaints)
    measured = read_measured(parts.measured, complaints)
    facts = _facts(parts, workload, plan)
    complaints.add(*broken_rules(TRAINING_RULES, facts))
    if complaints.problems or parts.model is None or parts.cluster is None or plan.framework is None:
        raise InputError(complaints.problems)
    settled = {"data_parallel": facts["data_parallel"]}
    if plan.values["virtual_stages"] > 1:
        settled["schedule"] = "interleaved"
    return Scenario(
        name=parts.name,
        model=parts.model.model,
        cluster=parts.cluster,
        workload=_task(workload),
        plan=Plan(framework=plan.framework, **{**plan.values, **settled}),
        measured=measured,
        warnings=_warnings(parts.model, workload),
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
    checked = check(WORKLOAD, mapping, "workload", complaints)
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


def _facts(parts: Parts, workload: Mapping[str, Any], plan: ReadPlan[Framework]) -> dict[str, Any]:
    """What is known of the scenario. Data parallelism takes what is left of the cluster where it is not stated."""
    facts = known_facts(
        model=None if parts.model is None else parts.model.model,
        cluster=parts.cluster,
        workload=workload,
        plan=plan.values,
        framework=plan.framework,
        stated=plan.stated,
    )
    degrees = ("tensor_parallel", "pipeline_parallel", "context_parallel")
    if "data_parallel" not in facts and {"devices", *degrees} <= facts.keys():
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

"""A scenario of training or fine-tuning into a `Scenario`, or every mistake in it."""

from collections.abc import Mapping
from math import inf, prod
from pathlib import Path
from typing import Any

from sightline.errors import InputError
from sightline.loading.checks import Complaints, check, lengths_read
from sightline.loading.lengths import read_lengths
from sightline.loading.models import ReadModel
from sightline.loading.parts import CLUSTER, MODEL, Parts, facts_of, read_parts
from sightline.loading.plans import TASKS, ReadPlan, candidate_frameworks, not_on_tpu, read_training_plan
from sightline.quantities import percent, show
from sightline.scenario import Finetune, Framework, Plan, Pretrain, Scenario, Workload
from sightline.scenario.lengths import Lengths
from sightline.scenario.rules import TRAINING_RULES, further_devices
from sightline.scenario.rules.rulebook import broken_rules
from sightline.scenario.training import AT_MOST
from sightline.validators import Keys, Needed, choice, keys_of

_TASKS: Mapping[str, type[Pretrain]] = {"pretrain": Pretrain, "finetune": Finetune}
WORKLOAD: Keys = {"task": Needed(choice(*TASKS), ", ".join(TASKS)), **keys_of(Pretrain)}
"""``workload`` of training."""
_USUAL = {"packing": False, "preference": "none", "reference": "model"}
"""What rules know of a workload that says nothing else."""
_NEEDED_WORKLOAD = {"workload": "a mapping with task, sequence_length and global_batch"}


def scenario_from_mapping(
    mapping: Mapping[str, Any], base: Path | str | None = None, free: frozenset[str] = frozenset()
) -> Scenario:
    """Return the training scenario of a mapping with the keys of a scenario file; paths are relative to ``base``.

    Fields of the plan that are ``free`` are not held against the rules: a search does that. Raise `InputError` with
    every mistake in it.
    """
    complaints = Complaints()
    parts = read_parts(mapping, {**MODEL, **CLUSTER, **_NEEDED_WORKLOAD}, base, complaints)
    workload = _workload(parts.workload, base, complaints)
    architecture = "" if parts.cluster is None else parts.cluster.device.architecture
    candidates = candidate_frameworks(str(workload.get("task")), workload.get("preference", "none"), architecture)
    plan = read_training_plan(parts.plan, candidates, complaints, free=free)
    facts = _facts(parts, workload, plan, free)
    if isinstance(workload.get("global_batch"), Mapping):
        workload = _largest_batch(workload, facts, complaints)
        facts = _facts(parts, workload, plan, free)
    complaints.add(*broken_rules(TRAINING_RULES, facts))
    for rules, of_group in further_devices(TRAINING_RULES, parts.cluster, facts):
        complaints.add(*broken_rules(rules, of_group))
    if complaints.problems or parts.model is None or parts.cluster is None or plan.framework is None:
        raise InputError(complaints.problems)
    settled = {"data_parallel": facts.get("data_parallel", 1), "split": facts.get("split")}
    if plan.values["virtual_stages"] > 1:
        settled["schedule"] = "interleaved"
    elif plan.values["pipeline_parallel"] == 1:
        # One stage has no order of micro-batches.
        settled["schedule"] = "1f1b"
    task = _TASKS[workload["task"]](**{key: value for key, value in workload.items() if key != "task"})
    elsewhere = filter(None, [not_on_tpu(plan.framework, parts.cluster.device)])
    said = (*plan.remarks, *elsewhere, *_warnings(parts.model, workload, parts.workload), *_short(task), *parts.remarks)
    return Scenario(
        **parts.described,
        workload=task,
        plan=Plan(framework=plan.framework, **{**plan.values, **settled}),
        warnings=said,
    )


def _workload(mapping: object, base: Path | str | None, complaints: Complaints) -> dict[str, Any]:
    """The workload's good values, mistakes noted."""
    task = mapping.get("task") if isinstance(mapping, Mapping) else None
    if task in TASKS and task not in _TASKS:
        complaints.add(f"workload.task is {show(task)}; allowed: {', '.join(_TASKS)}")
        return {}
    values = check(WORKLOAD, mapping, "workload", complaints).values
    if values.keys() >= {"total_tokens", "samples"}:
        complaints.add("workload has both total_tokens and samples; allowed: one of them")
    if "epochs" in values and "samples" not in values:
        complaints.add("workload.samples is missing; needed with workload.epochs: samples of the training set")
    return _with_lengths(values, base, complaints)


def _with_lengths(workload: Mapping[str, Any], base: Path | str | None, complaints: Complaints) -> dict[str, Any]:
    """Return the workload's values with its lengths as `Lengths`, mistakes noted."""
    if "lengths" not in workload:
        if workload.get("packing"):
            complaints.add(
                "workload.lengths is missing; needed with workload.packing true: the lengths of the packed samples"
            )
        return dict(workload)
    lengths = read_lengths(workload["lengths"], "workload.lengths", complaints, base)
    longest = workload.get("sequence_length", inf)
    if lengths is not None and lengths.mean > longest:
        complaints.add(
            f"workload.lengths.mean is {lengths.mean:g}; allowed: up to workload.sequence_length {longest:g}"
        )
    others = {key: value for key, value in workload.items() if key != "lengths"}
    return others if lengths is None else {**others, "lengths": lengths}


def _largest_batch(workload: dict[str, Any], facts: Mapping[str, Any], complaints: Complaints) -> dict[str, Any]:
    """The workload with the largest batch below its limit that replicas and micro-batch divide."""
    most, others = workload["global_batch"][AT_MOST], {k: v for k, v in workload.items() if k != "global_batch"}
    if "data_parallel" not in facts:
        return others
    step = facts["data_parallel"] * (facts.get("micro_batch") or 1)
    if step > most:
        complaints.add(
            f"workload.global_batch is at most {most}; allowed: {step} or more, plan.data_parallel "
            f"{facts['data_parallel']} x plan.micro_batch {facts.get('micro_batch') or 1}"
        )
        return others
    return {**others, "global_batch": most // step * step}


def _facts(
    parts: Parts, workload: Mapping[str, Any], plan: ReadPlan[Framework], free: frozenset[str]
) -> dict[str, Any]:
    """What is known of the scenario. Data parallelism takes what is left of the cluster where it is not stated."""
    known = {name: value for name, value in plan.values.items() if name not in free}
    facts = facts_of(parts, {**_USUAL, **workload}, plan, known)
    facts = {name: fact for name, fact in facts.items() if name not in free}
    degrees = ("tensor_parallel", "pipeline_parallel", "context_parallel")
    if "data_parallel" not in facts and {"devices", *degrees} <= facts.keys():
        left, rest = divmod(facts["devices"], prod(facts[degree] for degree in degrees))
        facts |= {} if rest else {"data_parallel": left}
    if facts.get("group_devices") and facts.get("split", "") is None and facts.get("pipeline_parallel") == 1:
        # One stage cannot be laid over several groups.
        facts["split"] = "data"
    return facts


def _short(work: Workload) -> list[str]:
    """What is predicted of a run that is no whole step."""
    tokens, of_step = work.total_tokens, work.tokens_per_step
    is_short = tokens is not None and tokens < of_step
    return [f"the run of {tokens:,.0f} tokens is predicted as one step of {of_step:,.0f}"] if is_short else []


def _warnings(model: ReadModel, workload: Mapping[str, Any], stated: object) -> tuple[str, ...]:
    length, trained = workload["sequence_length"], model.model.max_positions
    lengths: Lengths | None = workload.get("lengths")
    cut = 0.0 if lengths is None else lengths.cut_share(length)
    return (
        *model.remarks,
        *lengths_read(stated, workload, "workload"),
        *(
            [f"workload.sequence_length {length} exceeds the {trained} tokens {model.model.name} was trained for"]
            if length > trained
            else []
        ),
        *([f"{percent(cut, 1)} of workload.lengths are cut at workload.sequence_length {length}"] if cut else []),
    )

"""Columns of the best plans: the choices in which they differ, and the figures that they are ranked and judged by."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sightline.answers import labels, summary, units
from sightline.answers.outline import Column, Valued
from sightline.frameworks.choices import CHOICES
from sightline.planning.plan_answer import PlanAnswer, RankedPlan
from sightline.planning.plan_limits import LIMITS
from sightline.profile.metrics import OTHERS, metric_of

MEMORY, SPREAD, HARDWARE = "memory_bytes.total", "interval", "hardware"
HEADINGS = {
    "framework": "framework",
    "tensor_parallel": "tp",
    "pipeline_parallel": "pp",
    "virtual_stages": "virtual",
    "context_parallel": "cp",
    "data_parallel": "dp",
    "expert_parallel": "ep",
    "expert_tensor_parallel": "etp",
    "replicas": "replicas",
    "split": "split",
    "schedule": "schedule",
    "global_batch": "batch",
    "batch": "batch",
    "micro_batch": "micro",
    "zero_stage": "ZeRO",
    "data_parallel_shard": "shard",
    "sequence_parallel": "sp",
    "recompute": "recompute",
    "offload": "offload",
    "attention": "attention",
    "adapter": "adapter",
    "adapter_rank": "rank",
    "quantization": "weights",
    "dtype": "dtype",
    "optimizer": "optimizer",
    "max_batched_tokens": "chunk",
    "max_sequences": "sequences",
    "disaggregate": "prefill",
    "speculative": "drafts",
    "router": "router",
    "compile": "compiled",
    "gradient_reduce_dtype": "reduce",
    "overlap_gradient_reduce": "reduce overlap",
    "overlap_parameter_gather": "gather overlap",
    "tensor_overlap": "tp overlap",
    "context_exchange": "cp exchange",
    "attention_kernel": "kernel",
    "fused_loss": "fused loss",
    "fused_norm": "fused norm",
    "fused_rope": "fused rope",
    "fused_activation": "fused activation",
    "vocabulary_parallel": "vocabulary",
    "state_dtype": "states",
}
"""Choices that have a column where plans differ in them, in this order; several are also degrees of the cluster."""
_IMPLYING = ("framework", "dtype")
"""What implies the choices that a framework offers: these have a column where they differ beyond it."""
DERIVED = ("data_parallel", "replicas")
"""What is left of the cluster: its column is the first to go where a terminal is narrow."""
SERVED_WITH = ("max_batched_tokens", "max_sequences", MEMORY)
"""Of plans that serve a load, columns that go before those."""
MINOR = ("virtual_stages", "schedule")
"""Choices whose columns go before the rent of a run does, which is said."""
GOODPUT = "goodput_requests_per_s_per_device"
_FIGURES = {
    "training": ("step_time_s", "calendar_time_s", "run_time_s", "cost_usd", "energy_j", "usd_per_hour", "mfu"),
    "generation": (
        *("output_tokens_per_s_per_device", "output_tokens_per_s_per_user", "ttft_s", "tpot_s"),
        *("most_users", "cost_usd_per_million_tokens", "latency_s"),
    ),
    "serving": (
        *("capacity_requests_per_s", "ttft_s", "tpot_s", GOODPUT, "usd_per_hour", "most_users"),
        *("goodput_requests_per_usd", "cost_usd_per_million_tokens", "energy_j_per_million_tokens", "mfu"),
    ),
}
"""Result keys that have a column, besides the objective; of the times of a load the percentile that is promised."""
SERVING_AXES = ("output_tokens_per_s_per_user", "output_tokens_per_s_per_device")
"""What a user sees, against what a device yields."""
_WITHOUT_LENGTH = {"energy_j": "energy_per_step_j"}
"""What stands for a result key where the length of the run is not known."""
_WITHOUT_SPREAD = (MEMORY, "global_batch", "batch")
"""Objectives that the interval of the time says nothing about."""


def choices(answer: PlanAnswer) -> list[Column]:
    """Return a column for each choice in which the plans differ; none for weights that the adapter's kind implies."""
    found = [_hardware(answer.plans)]
    stated = [_choices_of(one) for one in answer.plans]
    for key, heading in HEADINGS.items():
        values = [said.get(key) for said in stated]
        cells = tuple(map(units.word, values))
        is_number = all(map(units.is_number, values))
        found.append(Column(key=key, heading=heading, cells=cells, is_number=is_number))
    telling = {column.key: column for column in found if len(set(column.cells)) > 1}
    implied_by = [tuple(said.get(key) for key in _IMPLYING) for said in stated]
    for key in set(telling).intersection((*CHOICES, *(key.removeprefix("plan.") for key in answer.held_fixed))):
        if len(set(zip(implied_by, telling[key].cells, strict=True))) == len(set(implied_by)):
            del telling[key]
    if _is_of(answer, "serving"):
        telling = _in_words(answer, telling, {column.key: column for column in found})
    weights, adapters = telling.get("quantization"), telling.get("adapter")
    if weights and adapters and len(set(zip(weights.cells, adapters.cells, strict=True))) == len(set(adapters.cells)):
        del telling["quantization"]
    return list(telling.values())


IN_WORDS = ("tensor_parallel", "pipeline_parallel", "expert_parallel", "expert_tensor_parallel", "disaggregate")
"""Choices that the words of a layout say."""


def _in_words(answer: PlanAnswer, telling: Mapping[str, Column], every: Mapping[str, Column]) -> dict[str, Column]:
    """Choices with the layout in words, and its ranks and replicas, in place of its other degrees."""
    words = tuple(labels.layout(one.scenario.plan) for one in _profiles(answer))
    first = {key: column for key, column in telling.items() if key in (HARDWARE, "framework")}
    others = {key: column for key, column in telling.items() if key not in (*first, *IN_WORDS)}
    layout = {"layout": Column(key="layout", heading="layout", cells=words, is_number=False)}
    return first | layout | {key: every[key] for key in DERIVED} | others


def figures(answer: PlanAnswer) -> list[Column]:
    """Return the columns of figures: the objective with its interval first, memory last."""
    if not answer.plans:
        return []
    lead = leading(answer)
    axes = [leading(answer, axis) for axis in answer.pareto_axes or ()]
    keys = dict.fromkeys((lead, *axes, *_usual_figures(answer)))
    shown = [key for key in keys if key != MEMORY and _is_known(answer, key)]
    columns = [_figure(answer, key) for key in shown]
    if _is_known(answer, SPREAD):
        cells = tuple(map(summary.spread, _profiles(answer)))
        columns.insert(len(columns) if lead in _WITHOUT_SPREAD else 1, Column(key=SPREAD, heading="80 %", cells=cells))
    known = {column.key for column in columns}
    implied = {"run_time_s"} if "calendar_time_s" in known else set()
    implied |= {column.key for column in columns if column.key == "usd_per_hour" and len(set(column.cells)) == 1}
    implied |= {"most_users"} if lead == "batch" else set()
    return [*(column for column in columns if column.key not in implied), _figure(answer, MEMORY)]


def _usual_figures(answer: PlanAnswer) -> list[str]:
    """The result keys that have a column whatever is asked for."""
    profile = answer.plans[0].profile
    keys, slo = _FIGURES.get(profile.task.name, ()), getattr(profile.scenario.workload, "slo", None)
    return [at_percentile(key, slo.percentile) if slo and key in ("ttft_s", "tpot_s") else key for key in keys]


def at_percentile(key: str, percentile: float) -> str:
    """Return the result key of what so many percent of the requests take at most."""
    return f"{key}.p{percentile:g}"


def leading(answer: PlanAnswer, objective: str = "") -> str:
    """Return the result key of an objective, or of the answer's own."""
    named = objective or answer.objective
    key = _objectives(answer).get(named, named)
    is_known = any(value(one, key) is not None for one in answer.plans)
    return key if is_known else _WITHOUT_LENGTH.get(key, key)


def front_axes(answer: PlanAnswer) -> tuple[str, ...]:
    """Return the result keys of the axes of a front; of generation there always is one."""
    if answer.pareto_axes:
        return tuple(leading(answer, axis) for axis in answer.pareto_axes)
    return SERVING_AXES if answer.pareto and _is_of(answer, "generation") else ()


def _is_of(answer: PlanAnswer, task: str) -> bool:
    return bool(answer.plans) and answer.plans[0].profile.task.name == task


def _objectives(answer: PlanAnswer) -> Mapping[str, str]:
    """What may be looked for, and the result key that tells it."""
    if _is_of(answer, "generation"):
        from sightline.planning.generation_objectives import OBJECTIVES

        return OBJECTIVES
    if _is_of(answer, "serving"):
        from sightline.planning.serving.serving_search import OBJECTIVES as OF_LOADS

        return {name: compared.key for name, compared in OF_LOADS.items()}
    from sightline.planning.training.objectives import OBJECTIVES as OF_TRAINING

    return OF_TRAINING


def value(plan: RankedPlan, key: str) -> float | None:
    """Return one of a plan's figures by its result key; None where it has none."""
    profile = plan.profile
    if key in plan.figures:
        return plan.figures[key]
    if key == MEMORY:
        return float(profile.memory_bytes["total"])
    if key in ("global_batch", "batch"):
        found = getattr(profile.scenario.workload, key, None)
    elif key == "output_tokens_per_s_per_user":
        found = 1.0 / profile.tpot_s if profile.task.name == "generation" and profile.tpot_s else None
    else:
        whole, _, part = key.partition(".")
        found = getattr(profile, whole) if whole in profile.task.metrics else None
        found = found.get(part or "mean") if isinstance(found, Mapping) else found
    return None if found is None else float(found)


def shown(key: str, figure: float | None) -> str:
    """Return a figure with its unit, as far as a column does not have it; a dash for one that is not known."""
    if figure is None:
        return units.NOTHING
    unit = metric_of(_of_percentile(key)[0]).unit
    if unit == "requests/s":
        return units.digits(figure)
    return units.gib(figure) if unit == "B" else units.shown(figure, unit)


def label(key: str) -> str:
    """Return the short name of a result key."""
    whole, percentile = _of_percentile(key)
    return f"{metric_of(whole).short} {percentile}".rstrip()


def name(key: str) -> str:
    """Return the full name of a result key, as a sentence has it."""
    whole, percentile = _of_percentile(key)
    metric = metric_of(whole)
    said = metric.spoken if whole in OTHERS else metric.label
    return f"{percentile} of {said}" if percentile else said


def _of_percentile(key: str) -> tuple[str, str]:
    """A result key without the percentile of it, and the percentile, empty for none."""
    whole, _, part = key.partition(".")
    return (whole, part) if re.fullmatch(r"p[\d.]+", part) else (key, "")


def name_of(answer: PlanAnswer, plan: RankedPlan) -> str:
    """Return a plan's rank, and the choices that it alone makes among the plans."""
    position = next(at for at, one in enumerate(answer.plans) if one is plan)
    told = {column.key for column in figures(answer)}
    chosen = [column for column in choices(answer) if column.key not in (*told, *DERIVED)]
    words = [_chosen(column, position) for column in chosen if column.cells[position] not in _PLAIN]
    return f"{plan.rank}: {', '.join(words)}".rstrip(": ")


def _chosen(column: Column, position: int) -> str:
    cell: str = column.cells[position]
    if column.key == HARDWARE:
        return f"{cell} devices" if column.is_number else cell
    return f"{column.heading} {cell}"


_PLAIN = ("none", "no", "-", "0")
"""Choices that go without saying in the name of a row."""


def shared(answer: PlanAnswer) -> list[str]:
    """Return the phrases about how plans run that are the same for all of them."""
    phrases = [labels.phrases(one.scenario) for one in _profiles(answer)]
    return [phrase for phrase in (phrases[0] if phrases else []) if all(phrase in other for other in phrases)]


def _profiles(answer: PlanAnswer) -> list[Any]:
    return [one.profile for one in answer.plans]


def _choices_of(plan: RankedPlan) -> dict[str, Any]:
    scenario = plan.profile.scenario
    chosen = dict(scenario.plan.to_dict())
    adapter = chosen.get("adapter")
    ranked = isinstance(adapter, dict) and "rank" in adapter
    chosen["adapter_rank"] = adapter["rank"] if ranked and adapter else 0
    if "max_batched_tokens" in chosen and not chosen["quantization"]:
        chosen["quantization"] = "16 bits" if chosen["quantization"] is not None else scenario.model.weights
    drafts, split = chosen.get("speculative"), chosen.get("disaggregate")
    chosen["speculative"] = 0 if drafts is None else drafts.tokens
    if split is not None:
        prefill, prompts = split.prefill, split.prefill_batch
        degrees = (("pp", prefill.pipeline_parallel), ("dp", prefill.data_parallel), ("ep", prefill.expert_parallel))
        further = "".join(f" {word} {degree}" for word, degree in degrees if degree > 1)
        together = f", {prompts} prompts" if prompts > 1 else ""
        chosen["disaggregate"] = f"{prefill.replicas} x tp {prefill.tensor_parallel}{further}{together}"
    sizes = {key: getattr(scenario.workload, key, None) for key in ("global_batch", "batch")}
    return {**chosen, **{key: size for key, size in sizes.items() if size is not None}}


def _hardware(plans: Sequence[RankedPlan]) -> Column:
    """The column of what plans run on: the number of devices alone where they are of one kind."""
    clusters = [one.profile.scenario.cluster for one in plans]
    names = {cluster.device.name for cluster in clusters}
    if len(names) == 1 and not any(cluster.groups for cluster in clusters):
        counts = tuple(f"{one.profile.scenario.cluster.devices:,}" for one in plans)
        return Column(key=HARDWARE, heading="devices", cells=counts)
    short = _short_names({part.device.name for cluster in clusters for part in cluster.parts})
    cells = tuple(
        " + ".join(f"{part.devices:,} x {short[part.device.name]}" for part in cluster.parts) for cluster in clusters
    )
    return Column(key=HARDWARE, heading="devices", cells=cells, is_number=False)


def _short_names(names: Collection[str]) -> dict[str, str]:
    """Names of devices without socket and memory, where those that are left differ."""
    short = {name: re.sub(r"(-(sxm|pcie|nvl|\d+gb))+$", "", name) for name in names}
    return short if len(set(short.values())) == len(short) else {name: name for name in names}


def _figure(answer: PlanAnswer, key: str) -> Column:
    figures = [value(one, key) for one in answer.plans]
    cells = tuple(shown(key, one) if one is None else Valued(shown(key, one), one) for one in figures)
    return Column(key=key, heading=label(key), cells=cells)


def _is_known(answer: PlanAnswer, key: str) -> bool:
    if key == SPREAD:
        # Of a load, times have intervals at one rate, the capacity none.
        return answer.plans[0].profile.task.name != "serving" and any(
            one.interval.get(one.task.whole) for one in _profiles(answer)
        )
    return any(value(one, key) is not None for one in answer.plans)


def least_needed(answer: PlanAnswer) -> list[str]:
    """Return the keys of columns that a narrow terminal does without, those least needed first."""
    lead = leading(answer)
    limits = {limit.key for limit in LIMITS.values() if limit.rejects in answer.rejected}
    kept = {lead, SPREAD, MEMORY, *limits, *(leading(answer, axis) for axis in answer.pareto_axes or ())}
    # Many users are of no use where they wait.
    kept |= {"ttft_s", "tpot_s"} if lead == "batch" else set()
    lesser = [key for key in reversed(_usual_figures(answer)) if key not in kept]
    is_run = any(value(one, "calendar_time_s") is not None for one in answer.plans)
    before_rent = lesser.index("cost_usd") if is_run and "cost_usd" in lesser else len(lesser) if is_run else None
    # Rent tells plans of a run apart for more people than how stages take turns.
    minor = MINOR if before_rent is not None else ()
    first = SERVED_WITH if _is_of(answer, "serving") else ()
    return [*first, *DERIVED, *lesser[:before_rent], *minor, *(lesser[before_rent:] if minor else ()), SPREAD]

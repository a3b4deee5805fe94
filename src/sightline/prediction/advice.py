"""When a plan does not fit: the nearest changes that would fit, each predicted."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from sightline.profile import GENERATION, Profile
from sightline.scenario import GenerationPlan, GenerationScenario, Plan, Scenario
from sightline.scenario.rules import breaks_no_rule

GIB = 2.0**30
WEIGHT_FORMATS = ("fp8", "w4a16")
"""Formats of a served model's weights that are tried."""
TRIED = {
    "training": "micro_batch, recompute, zero_stage, attention, offload or parallel degrees",
    "generation": "batch, quantization or tensor_parallel",
}


def what_would_fit(profile: Profile, predict: Callable[[Any], Profile]) -> Sequence[str]:
    """Return sentences: the memory needed and available, and single changes under which it fits; none if it does."""
    if profile.fits:
        return ()
    parts = {name: size for name, size in profile.memory_bytes.items() if name != "total"}
    largest = max(parts, key=parts.__getitem__)
    needed, usable = profile.memory_bytes["total"] / GIB, profile.usable_bytes / GIB
    sentences = [
        f"does not fit: {needed:.1f} GiB of {usable:.1f} GiB, of which {largest} {parts[largest] / GIB:.1f} GiB"
    ]
    key, time = ("tpot_s", "time per token") if profile.task is GENERATION else ("step_time_s", "step time")
    own_s = getattr(profile, key)
    for change, scenario in _changes(profile):
        other = predict(scenario)
        if other.fits:
            slower = getattr(other, key) / own_s if own_s else 1.0
            total = other.memory_bytes["total"] / GIB
            sentences.append(f"{change} would fit with {total:.1f} GiB, at {slower:.2f} x the {time}")
    return sentences if len(sentences) > 1 else [*sentences, f"no single change of {TRIED[profile.task.name]} fits"]


def _changes(profile: Profile) -> Iterator[tuple[str, Any]]:
    """Single changes that save memory, in words and as scenarios."""
    scenario = profile.scenario
    if profile.task is GENERATION:
        yield from _generation_changes(scenario)
    else:
        yield from ((change, replace(scenario, plan=plan)) for change, plan in _training_plans(scenario))


def _training_plans(scenario: Scenario) -> Iterator[tuple[str, Plan]]:
    """Single changes that save memory and that the framework offers."""
    plan = scenario.plan
    offered = plan.framework.allows
    if plan.sequences > 1:
        yield "micro_batch: 1", replace(plan, micro_batch=1)
    if plan.attention == "eager" and offered("attention", "flash"):
        yield "attention: flash", replace(plan, attention="flash")
    for kind in ("selective", "full"):
        if plan.recompute not in (kind, "full") and offered("recompute", kind):
            yield f"recompute: {kind}", replace(plan, recompute=kind)
    for stage in range(int(plan.zero_stage) + 1, 4):
        if plan.data_parallel > 1 and offered("zero_stage", stage):
            yield f"zero_stage: {stage}", replace(plan, zero_stage=stage)
    needs = plan.framework.offload_needs.get("optimizer", {})
    possible = all(getattr(plan, field) in allowed for field, allowed in needs.items())
    if "optimizer" not in plan.offload and "optimizer" in plan.framework.offers.get("offload", ()) and possible:
        yield "offload: optimizer", replace(plan, offload=plan.offload | {"optimizer"})
    yield from _larger_degrees(scenario)


def _larger_degrees(scenario: Scenario) -> Iterator[tuple[str, Plan]]:
    """Doubling tensor, pipeline or context parallelism at the expense of replicas."""
    plan, model = scenario.plan, scenario.model
    if plan.data_parallel % 2 or scenario.workload.global_batch % max(1, plan.data_parallel // 2 * plan.sequences):
        return
    half = plan.data_parallel // 2
    chunks = model.layers / plan.virtual_stages
    length = scenario.workload.sequence_length
    for field, limit in (
        ("tensor_parallel", model.heads),
        ("pipeline_parallel", chunks),
        ("context_parallel", length // 2),
    ):
        degree = 2 * getattr(plan, field)
        split = replace(plan, data_parallel=half, **{field: degree})
        if limit % degree == 0 and breaks_no_rule(replace(scenario, plan=split)):
            yield f"{field}: {degree}", split


def _generation_changes(scenario: GenerationScenario) -> Iterator[tuple[str, GenerationScenario]]:
    """Single changes that save memory: low-precision weights or cache, more ranks per replica, the largest smaller batch."""
    plan = scenario.plan
    for change, other in _generation_plans(plan):
        yield change, replace(scenario, plan=other)
    batch = int(scenario.workload.batch) // 2
    while batch >= plan.data_parallel * plan.replicas:
        work = replace(scenario.workload, batch=batch)
        yield f"workload.batch: {batch}", replace(scenario, workload=work)
        batch //= 4


def _generation_plans(plan: GenerationPlan) -> Iterator[tuple[str, GenerationPlan]]:
    cache = tuple(word for word in plan.quantization or () if word.startswith("kv-"))
    offered = plan.engine.offers.get("quantization")
    for word in WEIGHT_FORMATS:
        if word not in (plan.quantization or ()) and (offered is None or word in offered):
            yield f"quantization: {word}", replace(plan, quantization=(word, *cache))
    if not cache and (offered is None or "kv-fp8" in offered):
        yield "quantization: kv-fp8", replace(plan, quantization=(*(plan.quantization or ()), "kv-fp8"))
    degrees = plan.engine.offers.get("tensor_parallel")
    twice = int(plan.tensor_parallel) * 2
    if plan.replicas % 2 == 0 and (degrees is None or twice in degrees):
        yield f"tensor_parallel: {twice}", replace(plan, tensor_parallel=twice, replicas=plan.replicas // 2)

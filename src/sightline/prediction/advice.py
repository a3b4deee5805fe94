"""When a plan does not fit: the nearest changes that would, tried and not guessed."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from sightline.profile import Profile
from sightline.scenario import Plan, Scenario
from sightline.scenario.rules import breaks_no_rule

GIB = 2.0**30


def what_would_fit(profile: Profile, profile_of: Callable[[Scenario], Profile]) -> list[str]:
    """Return sentences: what is needed of what there is, and single changes of the plan under which it fits."""
    scenario = profile.scenario
    needed, there = profile.memory_bytes["total"], scenario.cluster.device.memory_bytes
    largest = max((p for p in profile.memory_bytes if p != "total"), key=lambda p: profile.memory_bytes[p])
    parts = f"of which {largest} {profile.memory_bytes[largest] / GIB:.1f} GiB"
    sentences = [f"does not fit: {needed / GIB:.1f} GiB of {there / GIB:.1f} GiB, {parts}"]
    for change, plan in _changes(scenario):
        other = profile_of(replace(scenario, plan=plan))
        if other.fits:
            slower = other.step_time_s / profile.step_time_s
            sentences.append(
                f"{change} would fit with {other.memory_bytes['total'] / GIB:.1f} GiB, at {slower:.2f} x the step time"
            )
    if len(sentences) == 1:
        sentences.append(
            "no single change of micro_batch, recompute, zero_stage, attention, offload or parallel degrees fits"
        )
    return sentences


def _changes(scenario: Scenario) -> Iterator[tuple[str, Plan]]:
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
    yield from _wider(scenario)


def _wider(scenario: Scenario) -> Iterator[tuple[str, Plan]]:
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
        wider = replace(plan, data_parallel=half, **{field: degree})
        if limit % degree == 0 and breaks_no_rule(replace(scenario, plan=wider)):
            yield f"{field}: {degree}", wider

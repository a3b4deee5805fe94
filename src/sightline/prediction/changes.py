"""Single changes of a plan: all that break no rule, and, when it does not fit, those that would fit."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product
from typing import TYPE_CHECKING, Any, get_args

from sightline.profile import GENERATION, Profile
from sightline.quantities import GIB
from sightline.scenario import Plan, Scenario
from sightline.scenario.plan import ContextExchange
from sightline.scenario.rules import breaks_no_rule

if TYPE_CHECKING:
    from sightline.scenario import GenerationPlan, GenerationScenario

SMALLER_WEIGHTS = ("fp8", "w4a16")
"""Formats of a served model's weights that are tried."""
NO_SINGLE_CHANGE = "no single change of"
"""How the sentence begins that says so."""
TRIED = {
    "training": "micro_batch, recompute, zero_stage, attention, offload or parallel degrees",
    "generation": "batch, quantization or tensor_parallel",
}


def does_not_fit(profile: Profile) -> str:
    """Return what a plan needs of what a device has, and its largest part."""
    parts = {name: size for name, size in profile.memory_bytes.items() if name != "total"}
    largest = max(parts, key=parts.__getitem__)
    needed, usable = profile.memory_bytes["total"] / GIB, profile.usable_bytes / GIB
    if needed <= usable:
        return "does not fit: what it offloads is more than the memory of its hosts"
    return f"does not fit: {needed:.1f} GiB of {usable:.1f} GiB, of which {largest} {parts[largest] / GIB:.1f} GiB"


def what_would_fit(profile: Profile, predict: Callable[[Any], Profile]) -> Sequence[str]:
    """Return sentences: the memory needed and available, and single changes under which it fits; none if it does."""
    if profile.fits:
        return ()
    sentences = [does_not_fit(profile)]
    key, time = ("tpot_s", "time per token") if profile.task is GENERATION else ("step_time_s", "step time")
    own_s = getattr(profile, key)

    def fitting(changes: Iterable[tuple[str, Any]]) -> Iterator[str]:
        for change, scenario in changes:
            other = predict(scenario)
            if other.fits:
                slower = getattr(other, key) / own_s if own_s else 1.0
                total = other.memory_bytes["total"] / GIB
                yield f"{change} would fit with {total:.1f} GiB, at {slower:.2f} x the {time}"

    single = [*islice(fitting(_smaller_micro_batches(profile)), 1), *fitting(_changes(profile))]
    if single:
        return [*sentences, *single]
    return [*sentences, f"{NO_SINGLE_CHANGE} {TRIED[profile.task.name]} fits"]


def needs_several(profile: Profile) -> bool:
    """Return whether a plan does not fit and none of its single changes does."""
    return any(sentence.startswith(NO_SINGLE_CHANGE) for sentence in profile.advice)


def _changes(profile: Profile) -> Iterator[tuple[str, Any]]:
    """Single changes that save memory, in words and as scenarios."""
    scenario = profile.scenario
    if profile.task is GENERATION:
        yield from _generation_changes(scenario)
    else:
        yield from ((_in_words(change), _with(scenario, change)) for change in _saving(scenario))


def _smaller_micro_batches(profile: Profile) -> Iterator[tuple[str, Any]]:
    """Micro-batches below a training plan's that divide a replica's share of the batch, the largest first."""
    scenario = profile.scenario
    if profile.task is GENERATION:
        return
    share = scenario.workload.global_batch // int(scenario.plan.data_parallel)
    for sequences in range(int(scenario.plan.sequences) - 1, 0, -1):
        if share % sequences == 0:
            yield f"micro_batch: {sequences}", _with(scenario, {"micro_batch": sequences})


Change = Mapping[str, Any]
"""Fields of a plan with other values."""


def _with(scenario: Scenario, change: Change) -> Scenario:
    return replace(scenario, plan=replace(scenario.plan, **change))


def _in_words(change: Change) -> str:
    """A change as a scenario file would say it: ``recompute: full``. Replicas follow from the other degrees."""
    return ", ".join(f"{field}: {_said(value)}" for field, value in change.items() if field != "data_parallel")


def _said(value: object) -> str:
    if isinstance(value, frozenset):
        return ", ".join(sorted(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def plans_beside(scenario: Scenario) -> Iterator[tuple[str, Plan]]:
    """Yield single changes of a training plan that break no rule, and the plans they lead to.

    Choices take each other value, the micro-batch doubles and halves, tensor, pipeline and context parallelism double
    and halve at the expense of replicas.
    """
    for change in changes_beside(scenario):
        other = _with(scenario, change)
        if breaks_no_rule(other):
            yield _in_words(change), other.plan


def changes_beside(scenario: Scenario) -> Iterator[Change]:
    """Yield the same single changes as fields of the plan, whether or not they break a rule."""
    yield from _choices(scenario.plan)
    yield from _micro_batches(scenario)
    yield from _splits(scenario, (2.0, 0.5))


def _saving(scenario: Scenario) -> Iterator[Change]:
    """Single changes that save memory and that the framework offers."""
    plan = scenario.plan
    offered = plan.framework.allows
    if plan.attention == "eager" and offered("attention", "flash"):
        yield {"attention": "flash"}
    for kind in ("selective", "full"):
        if plan.recompute not in (kind, "full") and offered("recompute", kind):
            yield {"recompute": kind}
    for stage in range(int(plan.zero_stage) + 1, 4):
        if plan.data_parallel > 1 and offered("zero_stage", stage):
            yield {"zero_stage": stage}
    needs = plan.framework.offload_needs.get("optimizer", {})
    possible = all(getattr(plan, field) in allowed for field, allowed in needs.items())
    if "optimizer" not in plan.offload and "optimizer" in plan.framework.offers.get("offload", ()) and possible:
        yield {"offload": frozenset(plan.offload) | {"optimizer"}}
    yield from (change for change in _splits(scenario, (2.0,)) if breaks_no_rule(_with(scenario, change)))


def _choices(plan: Plan) -> Iterator[Change]:
    kinds: dict[str, tuple[Any, ...]] = {"recompute": ("none", "selective", "full"), "attention": ("flash", "eager")}
    if plan.data_parallel > 1:
        kinds["zero_stage"] = (0, 1, 2, 3)
    if plan.tensor_parallel > 1:
        kinds["sequence_parallel"] = (False, True)
    if plan.pipeline_parallel > 1 and plan.virtual_stages == 1:
        kinds["schedule"] = ("1f1b", "zero-bubble")
    if plan.context_parallel > 1:
        kinds["context_exchange"] = get_args(ContextExchange)
    for field, values in kinds.items():
        yield from ({field: value} for value in values if value != getattr(plan, field))


def _micro_batches(scenario: Scenario) -> Iterator[Change]:
    plan, batch = scenario.plan, scenario.workload.global_batch
    for sequences in (plan.sequences * 2, plan.sequences // 2):
        if sequences >= 1 and batch % (plan.data_parallel * sequences) == 0:
            yield {"micro_batch": sequences}


def _splits(scenario: Scenario, factors: Sequence[float]) -> Iterator[Change]:
    """Multiples of a degree of tensor, pipeline or context parallelism, at the expense of replicas."""
    plan, model, batch = scenario.plan, scenario.model, scenario.workload.global_batch
    limits = {
        "tensor_parallel": model.heads,
        "pipeline_parallel": model.layers // plan.virtual_stages,
        "context_parallel": scenario.workload.sequence_length // 2,
    }
    for (field, limit), factor in product(limits.items(), factors):
        degree, replicas = getattr(plan, field) * factor, plan.data_parallel / factor
        whole = degree == int(degree) and replicas == int(replicas)
        if not whole or limit % degree or batch % (replicas * plan.sequences):
            continue
        change: dict[str, Any] = {field: int(degree), "data_parallel": int(replicas)}
        if field == "tensor_parallel" and degree == 1:
            change["sequence_parallel"] = False
        if field == "pipeline_parallel" and degree == 1 and plan.virtual_stages > 1:
            continue
        yield change


def _generation_changes(scenario: "GenerationScenario") -> "Iterator[tuple[str, GenerationScenario]]":
    """Single changes that save memory: low-precision weights or cache, more ranks per replica, a smaller batch."""
    plan = scenario.plan
    for change, other in _generation_plans(plan):
        yield change, replace(scenario, plan=other)
    batch = int(scenario.workload.batch) // 2
    while batch >= plan.data_parallel * plan.replicas:
        work = replace(scenario.workload, batch=batch)
        yield f"workload.batch: {batch}", replace(scenario, workload=work)
        batch //= 4


def _generation_plans(plan: "GenerationPlan") -> "Iterator[tuple[str, GenerationPlan]]":
    cache = tuple(word for word in plan.quantization or () if word.startswith("kv-"))
    offered = plan.engine.offers.get("quantization")
    for word in SMALLER_WEIGHTS:
        if word not in (plan.quantization or ()) and (offered is None or word in offered):
            yield f"quantization: {word}", replace(plan, quantization=(word, *cache))
    if not cache and (offered is None or "kv-fp8" in offered):
        yield "quantization: kv-fp8", replace(plan, quantization=(*(plan.quantization or ()), "kv-fp8"))
    degrees = plan.engine.offers.get("tensor_parallel")
    twice = int(plan.tensor_parallel) * 2
    if plan.replicas % 2 == 0 and (degrees is None or twice in degrees):
        yield f"tensor_parallel: {twice}", replace(plan, tensor_parallel=twice, replicas=plan.replicas // 2)

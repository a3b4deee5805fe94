"""Single changes of a plan that may help: settings of a scenario, of every task, whether or not a rule forbids them."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from sightline.prediction.changes import changes_beside
from sightline.scenario import Scenario

Settings: TypeAlias = Mapping[str, Any]
"""Dotted keys with their new values; the first is the lever, the others follow from it."""
_NUMERICAL = ("plan.dtype", "plan.quantization", "plan.optimizer", "plan.gradient_reduce_dtype")
"""Keys that change what is computed, not only how."""
NUMERICS = "numerics"
"""The decision that all of them are about."""
_FOLLOW = ("plan.data_parallel", "plan.replicas", "plan.framework")
"""Keys that follow from others in the same change."""
_SAME = {"plan.virtual_stages": "plan.schedule"}
_DEGREES = ("tensor_parallel", "pipeline_parallel", "data_parallel")


def candidates(scenario: Any, asked: Any) -> list[Settings]:
    """Return single changes of a resolved scenario; ``asked`` is the one that may leave the micro-batch open."""
    match scenario.workload.task:
        case "pretrain" | "finetune":
            found = list(_of_training(scenario))
            is_open = asked.plan.micro_batch is None
            return [one for one in found if not (is_open and "plan.micro_batch" in one)]
        case "generate":
            return list(_of_engine(scenario))
        case "serve":
            return [*_of_engine(scenario), *_of_load(scenario)]
    return []


def is_numerical(settings: Settings) -> bool:
    """Return whether a change alters the numbers that are computed."""
    return any(key in _NUMERICAL for key in settings)


def levers(settings: Settings) -> frozenset[str]:
    """Return the decisions that a change is about; values of one decision are no further levers."""
    if is_numerical(settings):
        return frozenset({NUMERICS})
    first, *others = settings
    return frozenset(_SAME.get(key, key) for key in (first, *others) if key == first or key not in _FOLLOW)


def _of_training(scenario: Scenario) -> Iterator[Settings]:
    plan = scenario.plan
    for change in changes_beside(scenario):
        yield {f"plan.{name}": _written(value) for name, value in change.items()}
    for factor in (4, 0.25):
        sequences = float(plan.sequences) * factor
        if sequences >= 1 and sequences == int(sequences):
            yield {"plan.micro_batch": int(sequences)}
    if plan.offload:
        yield {"plan.offload": "none"}
    if scenario.model.experts is not None:
        yield from _multiples("expert_parallel", float(plan.expert_parallel))
    yield from _chunks(scenario)
    yield from _switches(scenario)
    yield from _numerical(scenario)


def _chunks(scenario: Scenario) -> Iterator[Settings]:
    """Twice and half as many chunks of layers per stage."""
    plan = scenario.plan
    if float(plan.pipeline_parallel) == 1:
        return
    for chunks in (float(plan.virtual_stages) * 2, float(plan.virtual_stages) / 2):
        if chunks >= 1 and chunks == int(chunks):
            yield {"plan.virtual_stages": int(chunks), "plan.schedule": "interleaved" if chunks > 1 else "1f1b"}


def _switches(scenario: Scenario) -> Iterator[Settings]:
    """What is off and might be on."""
    stated = scenario.plan.to_dict()
    names = ["overlap_gradient_reduce", "overlap_parameter_gather", "compile", "fused_loss"]
    names += ["expert_overlap"] if scenario.model.experts is not None else []
    yield from ({f"plan.{name}": True} for name in names if stated.get(name) is False)
    if float(scenario.plan.tensor_parallel) > 1 and stated.get("tensor_overlap") == "none":
        yield {"plan.tensor_overlap": "all"}


def _numerical(scenario: Scenario) -> Iterator[Settings]:
    plan = scenario.plan
    if plan.dtype in ("bf16", "fp16") and "fp8" in scenario.cluster.device.peak_flops:
        yield {"plan.dtype": "fp8"}
    if plan.dtype in ("fp32", "tf32"):
        yield {"plan.dtype": "bf16"}
    if plan.optimizer == "adamw":
        yield {"plan.optimizer": "adamw-8bit"}
    if plan.to_dict().get("gradient_reduce_dtype") == "fp32":
        yield {"plan.gradient_reduce_dtype": "bf16"}


def _of_engine(scenario: Any) -> Iterator[Settings]:
    """Changes of a served model's plan: layout at the expense of replicas, iterations, formats."""
    plan = scenario.plan
    if plan.disaggregate is not None:
        return
    for name in _DEGREES:
        for factor in (2.0, 0.5):
            degree, replicas = float(getattr(plan, name)) * factor, float(plan.replicas) / factor
            if min(degree, replicas) >= 1 and degree == int(degree) and replicas == int(replicas):
                yield {f"plan.{name}": int(degree), "plan.replicas": int(replicas)}
    for one, other in (("tensor_parallel", "pipeline_parallel"), ("pipeline_parallel", "tensor_parallel")):
        degree, left = float(getattr(plan, one)) * 2, float(getattr(plan, other)) / 2
        if left >= 1 and left == int(left):
            yield {f"plan.{one}": int(degree), f"plan.{other}": int(left)}
    if scenario.model.experts is not None:
        yield from _multiples("expert_parallel", float(plan.expert_parallel))
    if plan.max_batched_tokens:
        yield from _multiples("max_batched_tokens", float(plan.max_batched_tokens))
    for name in ("cuda_graphs", "chunked_prefill"):
        yield {f"plan.{name}": not getattr(plan, name)}
    yield from _formats(plan)


def _formats(plan: Any) -> Iterator[Settings]:
    words = tuple(plan.quantization or ())
    cache = tuple(word for word in words if word.startswith("kv-"))
    if len(words) == len(cache):
        for word in ("fp8", "w8a8", "w4a16"):
            yield {"plan.quantization": [word, *cache] if cache else word}
    if not cache:
        yield {"plan.quantization": [*words, "kv-fp8"] if words else "kv-fp8"}


def _of_load(scenario: Any) -> Iterator[Settings]:
    """Changes of a plan that matter under a load of many requests."""
    plan = scenario.plan
    if plan.max_sequences:
        yield from _multiples("max_sequences", float(plan.max_sequences))
    if not plan.prefix_cache:
        yield {"plan.prefix_cache": True}
    if float(plan.replicas) > 1 and plan.router == "round-robin":
        yield {"plan.router": "least-load"}


def _multiples(name: str, value: float) -> Iterator[Settings]:
    for factor in (2.0, 0.5):
        other = value * factor
        if other >= 1 and other == int(other):
            yield {f"plan.{name}": int(other)}


def _written(value: Any) -> Any:
    """A value of a plan as a scenario file says it."""
    if isinstance(value, frozenset):
        return sorted(value) or "none"
    return int(value) if isinstance(value, float) and value.is_integer() else value

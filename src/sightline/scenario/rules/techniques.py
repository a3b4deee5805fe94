"""Whether the techniques of a training plan fit the model, the device, the framework and each other."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from sightline.frameworks import Engine, Framework, offering
from sightline.quantities import Count, show
from sightline.scenario.adapter import JOINED, Adapter
from sightline.scenario.cluster import Device
from sightline.scenario.low_precision import LOW_PRECISION, computes_in
from sightline.scenario.model import Model
from sightline.scenario.plan import TRAINING_QUANTIZATIONS
from sightline.scenario.recomputation import Recomputation
from sightline.scenario.rules.rulebook import Checks, Mask, is_one_of

LOW = ", ".join(LOW_PRECISION)


def dtype(device: Device, dtype: str, dtype_is_stated: bool) -> Checks:
    """The datasheet has a matmul rate in that dtype."""
    by_default = "" if dtype_is_stated else " (the default)"
    yield (
        computes_in(device, dtype),
        lambda: f"plan.dtype is {show(dtype)}{by_default}; {device.name} computes in {', '.join(device.peak_flops)}",
    )


def low_precision(
    dtype: str,
    quantization: str,
    fp8_recipe: str,
    bf16_layers: Count,
    narrow_head: bool,
    layers: int,
    fp8_recipe_is_stated: bool,
) -> Checks:
    """Recipes are for plain fp8, 16-bit layers for low precision; quantized weights are multiplied in 16 bits."""
    low = dtype in LOW_PRECISION
    yield (
        dtype == "fp8" or not fp8_recipe_is_stated,
        f"plan.fp8_recipe is {fp8_recipe} with plan.dtype {dtype}; allowed: only with plan.dtype fp8",
    )
    yield (
        low | (bf16_layers == 0),
        lambda: f"plan.bf16_layers is {bf16_layers} with plan.dtype {dtype}; allowed: 0, or plan.dtype {LOW}",
    )
    yield (
        low or not narrow_head,
        f"plan.narrow_head is true with plan.dtype {dtype}; allowed: false, or plan.dtype {LOW}",
    )
    yield (
        bf16_layers <= layers,
        lambda: f"plan.bf16_layers is {bf16_layers}; allowed: up to the model's {layers} layers",
    )
    yield (
        quantization == "none" or not low,
        f"plan.quantization is {quantization} with plan.dtype {dtype}; allowed: none, or a plan.dtype of 16 or 32 bits",
    )


def framework_options(framework: Framework | Engine, plan: Mapping[str, Any]) -> Checks:
    """The framework or engine has the options the plan takes."""
    for field, allowed in framework.offers.items():
        for value, without_effect in _taken(field, plan, framework.offers):
            yield without_effect | is_one_of(value, allowed), partial(_not_offered, framework, field, value)


def _not_offered(framework: Framework | Engine, field: str, value: Any) -> str:
    known = offering(field, value) if isinstance(framework, Framework) else []
    others = [name for name in known if name != framework.name]
    elsewhere = f" (it is offered by: {', '.join(others)})" if others else ""
    listed = ", ".join(show(v).strip("'") for v in framework.offers[field]) or "none"
    return f"plan.{field} is {show(value)}; {framework.name} offers {listed}{elsewhere}"


def _taken(field: str, plan: Mapping[str, Any], offers: Mapping[str, Any]) -> Iterator[tuple[Any, Mask]]:
    """The options of a field that a plan takes, by the words of ``offers``, and where they have no effect."""
    if field == "context_exchange":
        degree = plan.get("context_parallel", 2)
        # Where the degree itself is not offered, that is the mistake to report.
        offered = is_one_of(degree, offers["context_parallel"]) if "context_parallel" in offers else True
        yield from ((value, (degree == 1) | np.logical_not(offered)) for value in chosen(plan.get(field)))
    elif field == "schedule" and "schedule" in plan:
        # More than one virtual stage means the interleaved schedule, whatever is stated.
        stages = plan.get("virtual_stages", 1)
        yield "interleaved", stages == 1
        yield plan["schedule"], stages > 1
    else:
        yield from ((value, False) for value in chosen(plan.get(field)))


def chosen(value: object) -> list[Any]:
    """Return the options that a plan's value takes, by the words of ``offers``."""
    match value:
        case None:
            return []
        case Adapter():
            return [value.kind]
        case Recomputation():
            return list(value.words())
        case frozenset():
            return sorted(value)
        case tuple():
            return list(value)
    return [value]


def offloading(framework: Framework, plan: Mapping[str, Any]) -> Checks:
    """What a framework offloads to the host may need certain other choices."""
    for part in sorted(plan.get("offload", ())):
        for field, allowed in framework.offload_needs.get(part, {}).items():
            options = chosen(plan[field]) if field in plan else list(allowed)
            any_allowed: Mask = False
            for option in options:
                any_allowed = any_allowed | is_one_of(option, allowed)
            yield any_allowed, partial(_needs, framework.name, part, field, options, allowed)


def _needs(framework: str, part: str, field: str, options: list[Any], allowed: tuple[Any, ...]) -> str:
    stated, listed = (", ".join(show(v).strip("'") for v in values) for values in (options, allowed))
    return f"plan.{field} is {stated or 'none'}; plan.offload {part} of {framework} needs plan.{field} {listed}"


def muon(optimizer: str, offload: frozenset[str], adapter: Adapter | None) -> Checks:
    """Muon's matrix products are for accelerators, and for matrices that are trained themselves."""
    yield (
        optimizer != "muon" or "optimizer" not in offload,
        "plan.offload is optimizer with plan.optimizer muon, whose matrix products the host would run; allowed: adamw",
    )
    yield (
        optimizer != "muon" or adapter is None,
        lambda: (
            f"plan.optimizer is muon with plan.adapter {adapter and adapter.kind}; allowed with adapters: adamw, "
            "adamw-8bit, sgd"
        ),
    )


def recomputed_modules(model: Model, recompute: str | Recomputation, attention: str) -> Checks:
    """What runs again is there in some layer."""
    modules = recompute.modules if isinstance(recompute, Recomputation) else frozenset[str]()
    missing = {
        "moe": model.experts is None,
        "moe_activation": model.experts is None,
        "shared_experts": model.experts is None or not model.experts.shared,
        "latent_up": all(kind.mixer != "latent" for kind in model.kinds),
    }
    what = {"latent_up": "latent attention", "shared_experts": "shared experts"}
    for word in sorted(modules & missing.keys()):
        yield not missing[word], f"plan.recompute names {word}; {model.name} has no {what.get(word, 'experts')}"
    yield (
        "per_op" not in modules or attention == "flash",
        f"plan.recompute is per_op with plan.attention {attention}; allowed: attention flash",
    )


def adapter_task(task: str, adapter: Adapter | None) -> Checks:
    """Adapters are trained next to frozen weights that already know something."""
    yield (
        task != "pretrain" or adapter is None,
        lambda: (
            f"plan.adapter is {adapter and adapter.kind} with workload.task pretrain, which trains every weight; "
            "allowed: none, or workload.task finetune"
        ),
    )


def adapter_targets(model: Model, adapter: Adapter | None) -> Checks:
    """What an adapter names exists in the model."""
    if adapter is None:
        return
    yield (
        model.gated or "gate" not in adapter.targets,
        f"plan.adapter.targets names gate; {model.name} has no gated MLP, its projections: up, down",
    )
    yield (
        JOINED not in adapter.targets or not {"query", "key", "value"} & set(adapter.targets),
        f"plan.adapter.targets names {JOINED} together with query, key or value; allowed: one or the other",
    )
    yield (
        not model.tied_embeddings or set(adapter.also_trained) != {"head"},
        f"plan.adapter.also_trained is head; {model.name} ties its head to the embedding: embedding trains both",
    )


def adapter_layers(model: Model, adapter: Adapter | None) -> Checks:
    """Adapters are predicted for softmax attention, dense MLPs and shared experts only.

    Libraries differ in what they add to routed experts, from nothing to an adapter for each.
    """
    if adapter is None:
        return
    mixers = {kind.mixer for kind in model.kinds}
    yield (
        not mixers - {"attention", "sliding", "chunked", "none"},
        (
            f"plan.adapter is {adapter.kind}; {model.name} has {', '.join(sorted(mixers - {'none'}))} layers; adapters are "
            "predicted next to softmax attention, dense MLPs and shared experts; allowed: none"
        ),
    )
    routed = any(kind.mlp == "experts" for kind in model.kinds)
    mlp = [name for name in adapter.projections(gated=model.gated) if name in ("gate", "up", "down")]
    yield (
        not (routed and mlp),
        (
            f"plan.adapter.targets is {show(adapter.targets)}, which has {', '.join(mlp)}; {model.name} has routed "
            "experts, next to which no adapters are predicted; allowed: query, key, value, output"
        ),
    )


def adapter_weights(adapter: Adapter | None, quantization: str) -> Checks:
    """QLoRA keeps the frozen weights in 4 bits."""
    yield (
        adapter is None or adapter.kind != "qlora" or quantization != "none",
        (
            "plan.quantization is none with plan.adapter.kind qlora, which keeps the frozen weights in 4 bits; allowed: "
            f"{', '.join(TRAINING_QUANTIZATIONS)}, or adapter.kind lora"
        ),
    )


def prediction_layers(model: Model, prediction_layers: int, adapter: Adapter | None) -> Checks:
    """A model is trained with as many layers for multi-token prediction as it has, or with fewer."""
    most = model.prediction_layers
    yield (
        prediction_layers <= most,
        f"plan.prediction_layers is {prediction_layers}; allowed: up to {most}, as many as {model.name} has",
    )
    yield (
        prediction_layers > most or not prediction_layers or adapter is None,
        lambda: (
            f"plan.prediction_layers is {prediction_layers} with plan.adapter {adapter and adapter.kind}; allowed: 0"
        ),
    )

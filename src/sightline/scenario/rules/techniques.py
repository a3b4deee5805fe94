"""Whether the techniques of a training plan fit the model, the device, the framework and each other."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.frameworks import Framework, offering
from sightline.frameworks.choices import CHOICES
from sightline.frameworks.framework import IDEAL
from sightline.quantities import Count, Number, show
from sightline.scenario.cluster import Device
from sightline.scenario.model import Model
from sightline.scenario.plan import TRAINING_QUANTIZATIONS, UPCAST
from sightline.scenario.precision import LOW_PRECISION, computes_in
from sightline.scenario.rules.rulebook import Check, Checks, Mask, is_one_of
from sightline.scenario.techniques import JOINED, Adapter, Recomputation

if TYPE_CHECKING:
    from sightline.frameworks import Engine

LOW = ", ".join(LOW_PRECISION)
_ELSEWHERE = " (it is offered by: "
TRAINERS_OF_PREFERENCES = ("transformers", "fsdp", "deepspeed", IDEAL)
"""Frameworks below trl's trainers, and the ideal bound."""


def dtype(device: Device, dtype: str, dtype_is_stated: bool) -> Checks:
    """The datasheet has a matmul rate in that dtype."""
    yield Check(
        computes_in(device, dtype),
        "plan.dtype is {shown}{by_default}; allowed on {device.name}: {rates}",
        {
            "shown": show(dtype),
            "by_default": "" if dtype_is_stated else " (the default)",
            "rates": ", ".join(device.peak_flops),
        },
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
    low, with_dtype = dtype in LOW_PRECISION, " with plan.dtype {dtype}; allowed: "
    yield Check(
        dtype == "fp8" or not fp8_recipe_is_stated,
        "plan.fp8_recipe is {fp8_recipe}" + with_dtype + "only with plan.dtype fp8",
    )
    yield Check(low | (bf16_layers == 0), "plan.bf16_layers is {bf16_layers}" + with_dtype + "0, or plan.dtype " + LOW)
    yield Check(low or not narrow_head, "plan.narrow_head is true" + with_dtype + "false, or plan.dtype " + LOW)
    yield Check(bf16_layers <= layers, "plan.bf16_layers is {bf16_layers}; allowed: up to the model's {layers} layers")
    yield Check(
        quantization == "none" or not low,
        "plan.quantization is {quantization}" + with_dtype + "none, or a plan.dtype of 16 or 32 bits",
    )


def framework_options(framework: "Framework | Engine", plan: Mapping[str, Any]) -> Checks:
    """The framework or engine must offer the options of the plan."""
    for field, allowed in framework.offers.items():
        for value, without_effect in _taken(field, plan, framework.offers):
            offered = without_effect | is_one_of(value, allowed)
            yield Check(offered, partial(_not_offered, framework, field, value), {"field": field})


def interleaving_needs(
    framework: Framework,
    virtual_stages: Count,
    pipeline_parallel: Count,
    global_batch: Count,
    data_parallel: Count,
    micro_batch: Count | None,
) -> Checks:
    """A framework's interleaved schedule may need more than two stages, and whole groups of micro-batches.

    Groups are of the framework's default size, as many micro-batches as stages.
    """
    fewest, one_chunk = framework.interleaving.fewest_stages, virtual_stages == 1
    yield Check(
        one_chunk | (pipeline_parallel >= fewest),
        "plan.pipeline_parallel is {pipeline_parallel} with plan.virtual_stages {virtual_stages}; {framework.name} "
        "{framework.version} interleaves {fewest} stages or more",
        {"fewest": fewest, "field": "pipeline_parallel"},
    )
    if micro_batch is None or not framework.interleaving.whole_groups:
        return
    micro_batches = global_batch / (data_parallel * micro_batch)
    yield Check(
        one_chunk | (micro_batches % pipeline_parallel == 0),
        "plan.virtual_stages is {virtual_stages} with {micro_batches:g} micro-batches; {framework.name} by default "
        "interleaves multiples of plan.pipeline_parallel {pipeline_parallel}",
        {"micro_batches": micro_batches},
    )


def framework_choices(framework: Framework, plan: Mapping[str, Any]) -> Checks:
    """What a framework never lets anybody choose may not be stated."""
    for field in CHOICES:
        value = plan.get(field)
        yield Check(value is None or field in framework.offers, partial(_no_choice, framework, field, value))


def _no_choice(framework: Framework, field: str, value: Any) -> str:
    names = [name for name in offering(field, value) if name != framework.name]
    line = f" {framework.version}" if framework.version else ""
    stated = f"plan.{field} is {show(value)}; {framework.name}{line} has no such choice"
    return f"{stated}{_ELSEWHERE}{', '.join(names)})"


def _not_offered(framework: "Framework | Engine", field: str, value: Any) -> str:
    known = offering(field, value) if isinstance(framework, Framework) else []
    is_older = framework.name in known
    others = [f"newer {name}" if name == framework.name else name for name in known]
    elsewhere = f"{_ELSEWHERE}{', '.join(others)})" if others else ""
    name = f"{framework.name} {framework.version}" if is_older else framework.name
    return f"plan.{field} is {show(value)}; {name} offers {_listed(framework.offers[field])}{elsewhere}"


def briefly(sentence: str) -> str:
    """Return a sentence on what a framework does not offer without those that do; any other as it is."""
    return sentence.partition(_ELSEWHERE)[0]


def _taken(field: str, plan: Mapping[str, Any], offers: Mapping[str, Any]) -> Iterator[tuple[Any, Mask]]:
    """The options of a field that a plan takes, by the words of ``offers``, and where they have no effect."""
    if field == "context_exchange":
        degree = plan.get("context_parallel", 2)
        # Where the degree itself is not offered, that is the mistake to report.
        offered = is_one_of(degree, offers["context_parallel"]) if "context_parallel" in offers else True
        yield from ((value, (degree == 1) | np.logical_not(offered)) for value in chosen(plan.get(field)))
    elif isinstance(parts := plan.get(field), Mapping):
        yield from ((part, there == 0) for part, there in parts.items())
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
            return list(value.words())
        case Recomputation():
            return list(value.words())
        case frozenset():
            return sorted(value)
        case tuple():
            return list(value)
    return [value]


def offloading(framework: Framework, plan: Mapping[str, Any]) -> Checks:
    """Offloading to the host can require other settings, such as a ZeRO stage."""
    offload = plan.get("offload", ())
    for part in sorted(offload):
        stays = offload[part] == 0 if isinstance(offload, Mapping) else False
        for field, allowed in framework.offload_needs.get(part, {}).items():
            options = chosen(plan[field]) if field in plan else list(allowed)
            any_allowed: Mask = stays
            for option in options:
                any_allowed = any_allowed | is_one_of(option, allowed)
            yield Check(
                any_allowed,
                "plan.{field} is {stated}; plan.offload {part} of {framework.name} needs plan.{field} {listed}",
                {"field": field, "stated": _listed(options), "part": part, "listed": _listed(allowed)},
            )


def _listed(options: Iterable[Any]) -> str:
    return ", ".join(show(option).strip("'") for option in options) or "none"


def muon(optimizer: str, offload: frozenset[str] | Mapping[str, Number], adapter: Adapter | None) -> Checks:
    """Muon's matrix products are for accelerators, and for matrices that are trained themselves."""
    stays: Mask = "optimizer" not in offload
    if isinstance(offload, Mapping):
        stays = stays | np.equal(offload.get("optimizer", 0.0), 0.0)
    yield Check(
        stays | (optimizer != "muon"),
        "plan.offload is optimizer with plan.optimizer muon, whose matrix products the host would run; allowed: adamw",
    )
    yield Check(
        optimizer != "muon" or adapter is None,
        "plan.optimizer is muon with plan.adapter {adapter.kind}; allowed with adapters: adamw, adamw-8bit, sgd",
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
        yield Check(
            not missing[word],
            "plan.recompute names {word}; {model.name} has no {what}",
            {"word": word, "what": what.get(word, "experts")},
        )
    yield Check(
        "per_op" not in modules or attention == "flash",
        "plan.recompute is per_op with plan.attention {attention}; allowed: attention flash",
    )


def adapter_task(task: str, adapter: Adapter | None) -> Checks:
    """Adapters are trained next to frozen weights that already know something."""
    yield Check(
        task != "pretrain" or adapter is None,
        "plan.adapter is {adapter.kind} with workload.task pretrain, which trains every weight; allowed: none, or "
        "workload.task finetune",
    )


def preferences(
    framework: Framework, task: str, preference: str, reference: str, packing: bool, pipeline_parallel: Count
) -> Checks:
    """Preferences are trained by trl's trainers, which have no pipeline and pack nothing."""
    stated = "workload.preference is {preference} with "
    yield Check(
        preference != "none" or reference == "model",
        "workload.reference is {reference} without workload.preference; allowed with dpo, ipo and kto",
    )
    if preference == "none":
        return
    yield Check(task == "finetune", stated + "workload.task {task}; allowed: workload.task finetune")
    yield Check(
        framework.name in TRAINERS_OF_PREFERENCES,
        stated + f"plan.framework {{framework.name}}; allowed: {', '.join(TRAINERS_OF_PREFERENCES)}",
    )
    yield Check(not packing, stated + "workload.packing true; allowed: false")
    yield Check(
        pipeline_parallel == 1, stated + "plan.pipeline_parallel {pipeline_parallel}; allowed: 1, trl has no pipeline"
    )


def adapter_targets(model: Model, adapter: Adapter | None) -> Checks:
    """What an adapter names exists in the model."""
    if adapter is None:
        return
    yield Check(
        model.gated or "gate" not in adapter.targets,
        "plan.adapter.targets names gate; {model.name} has no gated MLP, its projections: up, down",
    )
    yield Check(
        JOINED not in adapter.targets or not {"query", "key", "value"} & set(adapter.targets),
        f"plan.adapter.targets names {JOINED} together with query, key or value; allowed: one or the other",
    )
    yield Check(
        not model.tied_embeddings or set(adapter.also_trained) != {"head"},
        "plan.adapter.also_trained is head; {model.name} ties its head to the embedding: embedding trains both",
    )


def adapter_layers(model: Model, adapter: Adapter | None) -> Checks:
    """Adapters are predicted for softmax attention, dense MLPs and shared experts only.

    Libraries differ in what they add to routed experts, from nothing to an adapter for each.
    """
    if adapter is None:
        return
    mixers = {kind.mixer for kind in model.kinds} - {"none"}
    yield Check(
        mixers <= {"attention", "sliding", "chunked"},
        "plan.adapter is {adapter.kind}; {model.name} has {mixers} layers; adapters are predicted next to softmax "
        "attention, dense MLPs and shared experts; allowed: none",
        {"mixers": ", ".join(sorted(mixers))},
    )
    routed = any(kind.mlp == "experts" for kind in model.kinds)
    mlp = [name for name in adapter.projections(gated=model.gated) if name in ("gate", "up", "down")]
    yield Check(
        not (routed and mlp),
        "plan.adapter.targets is {targets}, which has {mlp}; {model.name} has routed experts, next to which no "
        "adapters are predicted; allowed: query, key, value, output",
        {"targets": show(adapter.targets), "mlp": ", ".join(mlp)},
    )


def blocking_launches(framework: Framework, device: Device, launch_blocking: bool) -> Checks:
    """The host can wait for each kernel where a library launches them one by one, not for a compiled step."""
    yield Check(
        not launch_blocking or not (framework.name == "maxtext" or device.architecture.startswith("tpu")),
        "plan.launch_blocking is true with {framework.name} on {device.name}: CUDA_LAUNCH_BLOCKING is for kernels that "
        "PyTorch launches on GPUs; allowed: false",
    )


def adapter_weights(adapter: Adapter | None, quantization: str, dtype: str) -> Checks:
    """QLoRA keeps the frozen weights in 4 bits; what is beside those of bitsandbytes may be cast up."""
    yield Check(
        adapter is None or not adapter.upcast or (quantization in UPCAST and dtype in ("bf16", "fp16")),
        f"plan.adapter.upcast is true with plan.quantization {{quantization}} and plan.dtype {{dtype}}; allowed: "
        f"{', '.join(UPCAST)} with bf16 or fp16, or false",
    )
    yield Check(
        adapter is None or adapter.kind != "qlora" or quantization != "none",
        "plan.quantization is none with plan.adapter.kind qlora, which keeps the frozen weights in 4 bits; allowed: "
        f"{', '.join(TRAINING_QUANTIZATIONS)}, or adapter.kind lora",
    )


def prediction_layers(model: Model, prediction_layers: int, adapter: Adapter | None) -> Checks:
    """A model is trained with as many layers for multi-token prediction as it has, or with fewer."""
    most = model.prediction_layers
    yield Check(
        prediction_layers <= most,
        "plan.prediction_layers is {prediction_layers}; allowed: up to {model.prediction_layers}, "
        "as many as {model.name} has",
    )
    yield Check(
        prediction_layers > most or not prediction_layers or adapter is None,
        "plan.prediction_layers is {prediction_layers} with plan.adapter {adapter.kind}; allowed: 0",
    )

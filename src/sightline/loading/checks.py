"""What makes no sense together, though every value alone is right.

A check is a function whose parameters are names of facts of the scenario; it yields a sentence per problem. It runs
when all its facts are known, so that one wrong value hides no other mistake and causes no misleading one.
"""

from collections.abc import Callable, Iterator, Mapping
from inspect import signature
from typing import Any

from sightline.frameworks import offering
from sightline.loading.context_checks import (
    chunks_are_put_together,
    heads_are_shared_out,
    sequence_is_cut,
    windows_are_not_sent_round,
)
from sightline.loading.lengths import chosen_tokens_have_one_length
from sightline.loading.parallel_checks import (
    batch_is_split,
    both_ends_are_fed,
    copies_are_whole,
    degrees_divide_the_cluster,
    degrees_fill_the_cluster,
    experts_are_spread,
    experts_have_their_words,
    heads_are_split,
    stages_have_layers,
    states_are_split,
    virtual_stages_need_a_pipeline,
)
from sightline.quantities import show
from sightline.scenario import Device, Framework, Model
from sightline.scenario.adapter import JOINED, Adapter
from sightline.scenario.low_precision import LOW_PRECISION, computes_in
from sightline.scenario.recomputation import Recomputation

Facts = Mapping[str, Any]
"""What is known: plan fields, workload fields, figures of the model and the cluster, by name."""


def device_computes_in_dtype(device: Device, dtype: str, dtype_is_stated: bool) -> Iterator[str]:
    """The datasheet has a matmul rate in that dtype."""
    if not computes_in(device, dtype):
        by_default = "" if dtype_is_stated else " (the default)"
        yield f"plan.dtype is {show(dtype)}{by_default}; {device.name} computes in {', '.join(device.peak_flops)}"


def low_precision_is_consistent(
    dtype: str,
    quantization: str,
    fp8_recipe: str,
    bf16_layers: int,
    narrow_head: bool,
    layers: int,
    fp8_recipe_is_stated: bool,
) -> Iterator[str]:
    """Scales belong to plain fp8, wide layers beside narrow ones; weights are in few bits in one way."""
    if fp8_recipe_is_stated and dtype != "fp8":
        yield f"plan.fp8_recipe is {fp8_recipe} with plan.dtype {dtype}; allowed: only with plan.dtype fp8"
    if bf16_layers and dtype not in LOW_PRECISION:
        yield f"plan.bf16_layers is {bf16_layers} with plan.dtype {dtype}; allowed: 0, or plan.dtype {', '.join(LOW_PRECISION)}"
    if narrow_head and dtype not in LOW_PRECISION:
        yield f"plan.narrow_head is true with plan.dtype {dtype}; allowed: false, or plan.dtype {', '.join(LOW_PRECISION)}"
    if bf16_layers > layers:
        yield f"plan.bf16_layers is {bf16_layers}; allowed: up to the model's {layers} layers"
    if quantization != "none" and dtype in LOW_PRECISION:
        yield f"plan.quantization is {quantization} with plan.dtype {dtype}; allowed: none, or a plan.dtype of 16 or 32 bits"


def framework_offers(framework: Framework, plan: Mapping[str, Any]) -> Iterator[str]:
    """The framework has the options the plan takes."""
    for field, allowed in framework.offers.items():
        degree = plan.get(_ONLY_BESIDE.get(field, ""), 2)
        if degree == 1 or not framework.allows(_ONLY_BESIDE.get(field, ""), degree):
            continue
        for value in _chosen(plan.get(field)):
            if value in allowed:
                continue
            others = [name for name in offering(field, value) if name != framework.name]
            elsewhere = f" (it is offered by: {', '.join(others)})" if others else ""
            listed = ", ".join(show(v).strip("'") for v in allowed) or "none"
            yield f"plan.{field} is {show(value)}; {framework.name} offers {listed}{elsewhere}"


_ONLY_BESIDE = {"context_exchange": "context_parallel"}
"""Words that mean nothing where a degree is 1."""


def _chosen(value: object) -> list[Any]:
    """The options that a plan's value takes, by the words of ``offers``."""
    if isinstance(value, Adapter):
        return [value.kind]
    if isinstance(value, Recomputation):
        return list(value.words())
    if isinstance(value, frozenset):
        return sorted(value)
    return [] if value is None else [value]


def offloading_has_what_it_needs(framework: Framework, plan: Mapping[str, Any]) -> Iterator[str]:
    """What a framework moves to the host lives there only beside certain other choices."""
    for part in sorted(plan.get("offload", ())):
        for field, allowed in framework.offload_needs.get(part, {}).items():
            chosen = _chosen(plan[field]) if field in plan else list(allowed)
            if not set(chosen) & set(allowed):
                stated = ", ".join(show(v).strip("'") for v in chosen) or "none"
                listed = ", ".join(show(v).strip("'") for v in allowed)
                beside = f"plan.offload {part} of {framework.name} needs plan.{field}"
                yield f"plan.{field} is {stated}; {beside} {listed}"


def muon_stays_on_the_device(optimizer: str, offload: frozenset[str], adapter: Adapter | None) -> Iterator[str]:
    """Its products are for accelerators, and for matrices that are trained themselves."""
    if optimizer == "muon" and "optimizer" in offload:
        yield "plan.offload is optimizer with plan.optimizer muon, whose matrix products the host would run; allowed: adamw"
    if optimizer == "muon" and adapter is not None:
        yield f"plan.optimizer is muon with plan.adapter {adapter.kind}; allowed beside adapters: adamw, adamw-8bit, sgd"


def recomputed_modules_exist(model: Model, recompute: str | Recomputation, attention: str) -> Iterator[str]:
    """What runs again is there in some layer."""
    modules = recompute.modules if isinstance(recompute, Recomputation) else frozenset[str]()
    missing = {
        "moe": model.experts is None,
        "moe_activation": model.experts is None,
        "shared_experts": model.experts is None or not model.experts.shared,
        "latent_up": all(kind.mixer != "latent" for kind in model.kinds),
    }
    what = {"latent_up": "latent attention", "shared_experts": "shared experts"}
    for word in sorted(modules & {word for word, lacks in missing.items() if lacks}):
        yield f"plan.recompute names {word}; {model.name} has no {what.get(word, 'experts')}"
    if "per_op" in modules and attention != "flash":
        yield f"plan.recompute is per_op with plan.attention {attention}; allowed: attention flash"


def adapters_are_for_fine_tuning(task: str, adapter: Adapter | None) -> Iterator[str]:
    """An adapter is trained beside weights that already know something."""
    if task == "pretrain" and adapter is not None:
        yield (
            f"plan.adapter is {adapter.kind} with workload.task pretrain, which trains every weight; allowed: none, or "
            "workload.task finetune"
        )


def adapters_have_their_projections(model: Model, adapter: Adapter | None) -> Iterator[str]:
    """What an adapter names exists in the model."""
    if adapter is None:
        return
    if "gate" in adapter.targets and not model.gated:
        yield f"plan.adapter.targets names gate; {model.name} has no gated MLP, its projections: up, down"
    if JOINED in adapter.targets and {"query", "key", "value"} & set(adapter.targets):
        yield f"plan.adapter.targets names {JOINED} beside query, key or value; allowed: one or the other"
    if model.tied_embeddings and set(adapter.also_trained) == {"head"}:
        yield f"plan.adapter.also_trained is head; {model.name} ties its head to the embedding: embedding trains both"


def adapters_know_the_layers(model: Model, adapter: Adapter | None) -> Iterator[str]:
    """Adapters are written out beside these kinds of layers."""
    mixers = {kind.mixer for kind in model.kinds}
    if adapter is not None and mixers - {"attention", "sliding", "chunked", "none"}:
        yield (
            f"plan.adapter is {adapter.kind}; {model.name} has {', '.join(sorted(mixers - {'none'}))} layers; adapters are "
            "predicted beside softmax attention, dense MLPs and shared experts; allowed: none"
        )


def prediction_layers_are_the_models(model: Model, prediction_layers: int, adapter: Adapter | None) -> Iterator[str]:
    """A model is trained with as many layers for multi-token prediction as it has, or with fewer."""
    if prediction_layers > model.prediction_layers:
        yield (
            f"plan.prediction_layers is {prediction_layers}; allowed: up to {model.prediction_layers}, as many as "
            f"{model.name} has"
        )
    elif prediction_layers and adapter is not None:
        yield f"plan.prediction_layers is {prediction_layers} beside plan.adapter {adapter.kind}; allowed: 0"


def adapters_have_no_experts(model: Model, adapter: Adapter | None) -> Iterator[str]:
    """Libraries differ in what they put beside routed experts, from nothing to an adapter for each."""
    if adapter is None or not any(kind.mlp == "experts" for kind in model.kinds):
        return
    beside = [name for name in adapter.projections(gated=model.gated) if name in ("gate", "up", "down")]
    if beside:
        yield (
            f"plan.adapter.targets is {show(adapter.targets)}, which has {', '.join(beside)}; {model.name} has routed "
            "experts, beside which no adapters are predicted; allowed: query, key, value, output"
        )


_CHECKS: tuple[tuple[Callable[..., Iterator[str]], tuple[str, ...]], ...] = tuple(
    (check, tuple(signature(check).parameters))
    for check in (
        heads_are_split,
        states_are_split,
        degrees_fill_the_cluster,
        degrees_divide_the_cluster,
        experts_are_spread,
        copies_are_whole,
        experts_have_their_words,
        sequence_is_cut,
        heads_are_shared_out,
        chunks_are_put_together,
        windows_are_not_sent_round,
        chosen_tokens_have_one_length,
        batch_is_split,
        stages_have_layers,
        virtual_stages_need_a_pipeline,
        both_ends_are_fed,
        device_computes_in_dtype,
        low_precision_is_consistent,
        framework_offers,
        offloading_has_what_it_needs,
        muon_stays_on_the_device,
        recomputed_modules_exist,
        adapters_are_for_fine_tuning,
        adapters_have_their_projections,
        adapters_know_the_layers,
        adapters_have_no_experts,
        prediction_layers_are_the_models,
    )
)


def mistakes(facts: Facts) -> Iterator[str]:
    """Yield a sentence for everything that makes no sense together, as far as the facts are known."""
    for check, names in _CHECKS:
        if all(name in facts for name in names):
            yield from check(**{name: facts[name] for name in names})

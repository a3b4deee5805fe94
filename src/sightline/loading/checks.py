"""What makes no sense together, though every value alone is right.

A check is a function whose parameters are names of facts of the scenario; it yields a sentence per problem. It runs
when all its facts are known, so that one wrong value hides no other mistake and causes no misleading one.
"""

from collections.abc import Callable, Iterator, Mapping
from inspect import signature
from typing import Any

from sightline.loading.context_checks import (
    chunks_are_put_together,
    heads_are_shared_out,
    sequence_is_cut,
    windows_are_not_sent_round,
)
from sightline.loading.frameworks import offering
from sightline.loading.lengths import chosen_tokens_have_one_length
from sightline.quantities import show
from sightline.scenario import Device, Framework, Model
from sightline.scenario.adapter import JOINED, Adapter
from sightline.scenario.low_precision import LOW_PRECISION, computes_in
from sightline.scenario.recomputation import Recomputation

Facts = Mapping[str, Any]
"""What is known: plan fields, workload fields, figures of the model and the cluster, by name."""


def heads_are_split(heads: int, tensor_parallel: int) -> Iterator[str]:
    """Tensor parallelism gives every rank whole attention heads."""
    if heads % tensor_parallel:
        yield f"plan.tensor_parallel is {tensor_parallel}; allowed: a divisor of the model's {heads} attention heads"


def states_are_split(task: str, model: Model, tensor_parallel: int, context_parallel: int) -> Iterator[str]:
    """In training each rank has whole heads of linear attention and whole groups of a state-space model.

    Context parallelism shares out the heads of these too, since a state has to see all tokens.
    """
    if task not in ("pretrain", "finetune"):
        return
    mixers = {kind.mixer for kind in model.kinds}
    parts = [
        ("linear-attention key heads", model.linear and model.linear.key_heads, "linear"),
        ("state-space groups", model.state_space and model.state_space.groups, "state-space"),
    ]
    for what, count, mixer in parts:
        ranks = tensor_parallel * context_parallel
        if count and mixer in mixers and count % ranks:
            beside = f" x plan.context_parallel {context_parallel}" if context_parallel > 1 else ""
            yield f"plan.tensor_parallel{beside} is {ranks}; allowed: a divisor of the model's {count} {what}"


def degrees_fill_the_cluster(
    devices: int, tensor_parallel: int, pipeline_parallel: int, context_parallel: int, data_parallel: int
) -> Iterator[str]:
    """Every device has one place in the mesh."""
    product = tensor_parallel * pipeline_parallel * context_parallel * data_parallel
    if product != devices:
        degrees = _degrees(tensor_parallel, pipeline_parallel, context_parallel)
        yield (f"{degrees} x plan.data_parallel {data_parallel} is {product}; allowed: the cluster's {devices} devices")


def _degrees(tensor_parallel: int, pipeline_parallel: int, context_parallel: int) -> str:
    """The degrees of one replica in words; context parallelism only where there is any."""
    context = f" x plan.context_parallel {context_parallel}" if context_parallel > 1 else ""
    return f"plan.tensor_parallel {tensor_parallel} x plan.pipeline_parallel {pipeline_parallel}{context}"


def degrees_divide_the_cluster(
    devices: int, tensor_parallel: int, pipeline_parallel: int, context_parallel: int, data_parallel_is_free: bool
) -> Iterator[str]:
    """Without a stated degree, data parallelism takes what is left, which must be whole."""
    product = tensor_parallel * pipeline_parallel * context_parallel
    if data_parallel_is_free and devices % product:
        degrees = _degrees(tensor_parallel, pipeline_parallel, context_parallel)
        yield f"{degrees} is {product}; allowed: a divisor of the cluster's {devices} devices"


def experts_are_spread(
    model: Model,
    tensor_parallel: int,
    context_parallel: int,
    data_parallel: int,
    expert_parallel: int,
    expert_tensor_parallel: int,
) -> Iterator[str]:
    """Experts are spread over the data x context x tensor ranks of a stage, as many on each."""
    if model.experts is None:
        for field, degree in (("expert_parallel", expert_parallel), ("expert_tensor_parallel", expert_tensor_parallel)):
            if degree > 1:
                yield f"plan.{field} is {degree}; {model.name} has no experts; allowed: 1"
        return
    if model.experts.count % expert_parallel:
        yield f"plan.expert_parallel is {expert_parallel}; allowed: a divisor of the model's {model.experts.count} experts"
    if model.experts.width % expert_tensor_parallel:
        yield (
            f"plan.expert_tensor_parallel is {expert_tensor_parallel}; allowed: a divisor of the experts' width "
            f"{model.experts.width}"
        )
    ranks = tensor_parallel * context_parallel * data_parallel
    if ranks % (expert_parallel * expert_tensor_parallel):
        yield (
            f"plan.expert_parallel {expert_parallel} x plan.expert_tensor_parallel {expert_tensor_parallel}; allowed: a "
            f"divisor of the {ranks} data x context x tensor ranks of a stage"
        )


def copies_are_whole(
    data_parallel: int,
    data_parallel_shard: int | None,
    zero_stage: int,
    tensor_parallel: int,
    context_parallel: int,
    expert_parallel: int,
    expert_tensor_parallel: int,
) -> Iterator[str]:
    """Every group of replicas that shares states out is as large, and holds all experts."""
    if data_parallel_shard is None:
        return
    key = f"plan.data_parallel_shard is {data_parallel_shard}"
    if data_parallel % data_parallel_shard:
        yield f"{key}; allowed: a divisor of plan.data_parallel {data_parallel}"
    elif data_parallel_shard < data_parallel and zero_stage == 0:
        yield f"{key} with plan.zero_stage 0, which shares nothing out; allowed: zero_stage 1, 2, 3"
    ranks = tensor_parallel * context_parallel * data_parallel_shard
    if ranks % (expert_parallel * expert_tensor_parallel):
        yield (
            f"{key}; the {ranks} ranks of a copy cannot hold experts spread over plan.expert_parallel {expert_parallel} x "
            f"plan.expert_tensor_parallel {expert_tensor_parallel}"
        )


def experts_have_their_words(
    model: Model, expert_capacity: float, expert_dispatch: str, expert_overlap: bool
) -> Iterator[str]:
    """How tokens travel to experts is a question only where there are some."""
    if model.experts is not None:
        return
    for field, value, plain in (
        ("expert_capacity", expert_capacity, 0),
        ("expert_dispatch", expert_dispatch, "all-to-all"),
        ("expert_overlap", expert_overlap, False),
    ):
        if value != plain:
            yield f"plan.{field} is {show(value)}; {model.name} has no experts; allowed: {show(plain)}"


def batch_is_split(global_batch: int, data_parallel: int, micro_batch: int | None) -> Iterator[str]:
    """Every data-parallel rank gets as many whole micro-batches."""
    if global_batch % (data_parallel * (micro_batch or 1)):
        by = f"plan.data_parallel {data_parallel}"
        by += f" x plan.micro_batch {micro_batch} = {data_parallel * micro_batch}" if micro_batch else ""
        yield f"workload.global_batch is {global_batch}; allowed: a multiple of {by}"


def stages_have_layers(layers: int, pipeline_parallel: int, virtual_stages: int) -> Iterator[str]:
    """A stage holds at least a layer, the embedding or the head."""
    stages = pipeline_parallel * virtual_stages
    if stages > layers + 2:
        which = f"plan.pipeline_parallel is {pipeline_parallel}"
        which += f" and plan.virtual_stages {virtual_stages}, {stages} stages together" if virtual_stages > 1 else ""
        yield f"{which}; allowed: up to {layers + 2} stages, the model's {layers} layers, its embedding and its head"


def both_ends_are_fed(
    schedule: str, pipeline_parallel: int, global_batch: int, data_parallel: int, micro_batch: int | None
) -> Iterator[str]:
    """DualPipe sends as many micro-batches from either end, at least as many as there are stages."""
    if schedule != "dualpipe":
        return
    if pipeline_parallel % 2:
        yield f"plan.pipeline_parallel is {pipeline_parallel} with plan.schedule dualpipe; allowed: an even number"
    micro_batches = global_batch / (data_parallel * (micro_batch or 1))
    if micro_batch and (micro_batches % 2 or micro_batches < 2 * pipeline_parallel):
        yield (
            f"plan.schedule is dualpipe with {micro_batches:g} micro-batches; allowed: an even number of "
            f"{2 * pipeline_parallel} or more, twice plan.pipeline_parallel"
        )


def virtual_stages_need_a_pipeline(virtual_stages: int, pipeline_parallel: int) -> Iterator[str]:
    """Interleaving is a schedule of several stages."""
    if virtual_stages > 1 and pipeline_parallel == 1:
        yield f"plan.virtual_stages is {virtual_stages}; allowed: 1 without pipeline parallelism (pipeline_parallel is 1)"


def device_computes_in_dtype(device: Device, dtype: str, dtype_is_stated: bool) -> Iterator[str]:
    """The datasheet has a matmul rate in that dtype."""
    if not computes_in(device, dtype):
        by_default = "" if dtype_is_stated else " (the default)"
        yield f"plan.dtype is {show(dtype)}{by_default}; {device.name} computes in {', '.join(device.peak_flops)}"


def low_precision_is_consistent(
    dtype: str, quantization: str, fp8_recipe: str, bf16_layers: int, layers: int, fp8_recipe_is_stated: bool
) -> Iterator[str]:
    """Scales belong to plain fp8, wide layers beside narrow ones; weights are in few bits in one way."""
    if fp8_recipe_is_stated and dtype != "fp8":
        yield f"plan.fp8_recipe is {fp8_recipe} with plan.dtype {dtype}; allowed: only with plan.dtype fp8"
    if bf16_layers and dtype not in LOW_PRECISION:
        yield f"plan.bf16_layers is {bf16_layers} with plan.dtype {dtype}; allowed: 0, or plan.dtype {', '.join(LOW_PRECISION)}"
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

"""State what the launches that are written can run: rules beside those of a plan, by which a search leaves plans out.

Arguments of Megatron-LM are those of megatron/training/arguments.py (2026-08), keys of torchtitan those of 0.2.
"""

import sys
from collections.abc import Container, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from sightline.frameworks import Framework
from sightline.frameworks.choices import FUSIONS, REDUCE_BYTES, choices_of
from sightline.launching.hugging_face import KNOWN, configuration
from sightline.launching.registry import WRITERS
from sightline.launching.training.megatron_model import model_problems
from sightline.launching.training.torchtitan_model import UNPIPELINED, named
from sightline.loading.plans import OFFERED, not_on_tpu
from sightline.quantities import Count, Number, show
from sightline.scenario import Adapter, Device, Model, Plan, Scenario
from sightline.scenario.lengths import Lengths
from sightline.scenario.precision import LOW_PRECISION
from sightline.scenario.rules import facts_of
from sightline.scenario.rules.rulebook import Broken, Check, Checks, Mask, Rule, broken_rules, rules_of
from sightline.scenario.techniques import Recomputation

SCRIPTED: Final = ("deepspeed", "fsdp", "transformers")
"""Those that run the training script of a launch."""
MEGATRON, TORCHTITAN, TORCHTUNE, MAXTEXT = "megatron", "torchtitan", "torchtune", "maxtext"
PACKED_KERNELS: Final = ("flash-2", "flash-3")
"""Kernels that keep the samples of a row apart."""
FULL_WIDTH: Final = ("fp32", "tf32")
"""Formats whose weights and gradients are kept in fp32."""
_KERNELS: Final = {
    **dict.fromkeys(SCRIPTED, (*PACKED_KERNELS, "cudnn")),
    MEGATRON: ("flash-2", "cudnn"),
    TORCHTITAN: ("flash-2",),
    TORCHTUNE: ("flash-2",),
    MAXTEXT: ("cudnn",),
}
"""Kernels of fused attention that a launch can ask for, by framework."""


def offloads(offload: frozenset[str] | Mapping[str, Number], part: str) -> Mask:
    """Return where a plan offloads a part."""
    if isinstance(offload, Mapping):
        return np.greater(offload.get(part, 0.0), 0)
    return part in offload


def samples_of_lengths(framework: Framework, lengths: Lengths) -> Checks:
    """Samples are padded or packed by the training script alone."""
    yield Check(
        framework.name not in (MEGATRON, TORCHTITAN, TORCHTUNE, MAXTEXT),
        "workload.lengths is {stated} with plan.framework {framework.name}, which fills every sample to "
        "workload.sequence_length; allowed: no lengths, or plan.framework " + ", ".join(SCRIPTED),
        {"stated": lengths.distribution},
    )


def kernels_of_packed_samples(framework: Framework, packing: bool, attention_kernel: str) -> Checks:
    """Samples of a row do not see each other in kernels that transformers calls with their borders."""
    yield Check(
        not packing or framework.name not in SCRIPTED or attention_kernel != "cudnn",
        "plan.attention_kernel is cudnn with workload.packing true; launched: " + ", ".join(PACKED_KERNELS),
    )


def written_kernels(framework: Framework, attention: str, attention_kernel: str) -> Checks:
    """A launch says which kernel of attention runs."""
    written = _KERNELS.get(framework.name)
    yield Check(
        written is None or attention == "eager" or attention_kernel in written,
        "plan.attention_kernel is {attention_kernel}: no argument of {framework.name} chooses it; launched: {listed}",
        {"listed": ", ".join(written or ())},
    )


def written_layers(
    framework: Framework, model: Model, expert_capacity: float, prediction_layers: int, bf16_layers: Count, dtype: str
) -> Checks:
    """Megatron-LM alone drops tokens, predicts further ones and keeps layers out of low precision."""
    is_without = framework.name not in (*SCRIPTED, TORCHTITAN)
    for name, has_none in {
        "expert_capacity": model.experts is None or expert_capacity == 0,
        "prediction_layers": prediction_layers == 0,
        "bf16_layers": np.equal(bf16_layers, 0) | (dtype not in LOW_PRECISION),
    }.items():
        yield Check(
            is_without | has_none,
            f"plan.{name} is {{{name}:g}}: the launch of {{framework.name}} has no argument for it; allowed: 0",
        )


def equal_nodes(framework: Framework, devices: Count, nodes: Count, group_devices: tuple[int, ...] | None) -> Checks:
    """A launch starts as many processes on each node, on equal devices."""
    if framework.name not in WRITERS:
        return
    yield Check(
        group_devices is None,
        "cluster.devices are {listed}; launches are written for equal devices",
        {"listed": " + ".join(f"{count:,} of one kind" for count in group_devices or ())},
    )
    yield Check(
        (devices % nodes == 0) | (group_devices is not None),
        "cluster.devices is {devices} on {nodes} nodes; a launch starts as many processes on each, allowed: a multiple "
        "of {nodes}",
    )


def on_tpus(framework: Framework, device: Device) -> Checks:
    """MaxText alone runs on TPUs."""
    said = not_on_tpu(framework, device)
    yield Check(not said, said)


GATHERED = ("fp8", "mxfp8")
"""Formats of which Megatron-LM can keep and gather weights in 8 bits alone."""


def megatron_model(framework: Framework, model: Model) -> Checks:
    """Megatron-LM's pretrain_gpt.py has the model's layers."""
    if framework.name == MEGATRON:
        for problem in model_problems(model):
            yield Check(False, partial(str, problem))


def megatron_adapters(framework: Framework, adapter: Adapter | None) -> Checks:
    """Megatron-LM's pretrain_gpt.py trains whole models."""
    yield Check(
        framework.name != MEGATRON or adapter is None,
        "plan.adapter is {adapter.kind}: pretrain_gpt.py does not train adapters; Megatron-SWIFT does (`--all "
        "--launch run --with megatron-swift`)",
    )


def megatron_choices(framework: Framework, model: Model, plan: Mapping[str, Any], dtype: str) -> Checks:
    """Megatron-LM has no argument for what its library does by itself."""
    if framework.name != MEGATRON:
        return
    own = choices_of(framework.plain or framework, dtype)
    without_effect = {"expert_launches": model.experts is None, "fp8_transpose_cache": dtype not in LOW_PRECISION}
    for name, is_idle in without_effect.items():
        yield Check(
            is_idle or plan.get(name) in (None, own.get(name)),
            f"plan.{name} is {{value}}: pretrain_gpt.py has no argument for it; allowed: {{own}}",
            {"value": show(plan.get(name)), "own": show(own.get(name))},
        )
    reduced = plan.get("gradient_reduce_dtype")
    moved = ("fp32", *([] if dtype in FULL_WIDTH else ["fp16" if dtype == "fp16" else "bf16"]))
    yield Check(
        reduced in (None, *moved),
        "plan.gradient_reduce_dtype is {reduced} with plan.dtype {dtype}: Megatron-LM reduces in fp32 or in the dtype "
        "of the weights; allowed: {moved}",
        {"reduced": reduced, "moved": ", ".join(moved)},
    )


_SWITCHES: Final[Mapping[str, tuple[str, ...]]] = {MEGATRON: ("fused_rope", "fused_activation")}
"""Kernels that a framework fuses or not as it is told, by the framework."""


def fuses_with_liger(plan: Plan) -> bool:
    """Say whether a plan states all that Liger's kernels fuse: the Trainer has all or none."""
    return all(getattr(plan, name) is True for name in FUSIONS)


def fused_kernels(framework: Framework, plan: Mapping[str, Any], dtype: str) -> Checks:
    """A launch fuses what its framework fuses by itself, or has a switch for."""
    own = choices_of(framework.plain or framework, dtype)
    with_liger = framework.name == "transformers" and all(plan.get(name) is True for name in FUSIONS)
    for name in FUSIONS:
        yield Check(
            with_liger or name in _SWITCHES.get(framework.name, ()) or plan.get(name) in (None, own.get(name)),
            f"plan.{name} is {{value}}: the launch of {{framework.name}} has no argument for it; allowed: {{own}}",
            {"value": show(plan.get(name)), "own": show(own.get(name))},
        )


def megatron_schedules(
    framework: Framework,
    schedule: str,
    pipeline_parallel: Count,
    virtual_stages: Count,
    stage_layers: tuple[int, ...] | None,
) -> Checks:
    """Megatron-LM schedules pipelines as 1f1b or interleaved."""
    if framework.name != MEGATRON:
        return
    yield Check(
        (pipeline_parallel == 1) | np.not_equal(schedule, "gpipe"),
        "plan.schedule is gpipe: Megatron-LM schedules pipelines as 1f1b or interleaved",
    )
    yield Check(
        (virtual_stages == 1) | (stage_layers is None),
        "plan.stage_layers with plan.virtual_stages above 1: say which layers each of the virtual stages has",
    )


def megatron_overlap(
    framework: Framework, zero_stage: Count, tensor_overlap: str, tensor_parallel: Count, sequence_parallel: Count
) -> Checks:
    """Megatron-LM overlaps parameters with gradients, and tensor parallelism with sequence parallelism."""
    if framework.name != MEGATRON:
        return
    overlap = framework.overlap
    yield Check(
        (zero_stage == 0) | (not overlap.parameters) | overlap.gradients,
        "plan.overlap_parameter_gather is true: Megatron-LM overlaps it only with overlap_gradient_reduce true",
    )
    yield Check(
        (tensor_parallel == 1) | (tensor_overlap != "none") | (overlap.tensor == "none"),
        "plan.tensor_overlap is none: this release of Megatron-LM always overlaps collectives of the backward pass; "
        "allowed: backward",
    )
    yield Check(
        np.not_equal(sequence_parallel, 0) | (tensor_parallel == 1) | (tensor_overlap != "all"),
        "plan.tensor_overlap is {tensor_overlap}: --tp-comm-overlap needs plan.sequence_parallel true",
    )


def megatron_expert_overlap(
    framework: Framework,
    expert_overlap: bool,
    expert_parallel: Count,
    pipeline_parallel: Count,
    virtual_stages: Count,
    recompute: str | Recomputation,
    prediction_layers: int,
    dtype: str,
) -> Checks:
    """Megatron-LM overlaps the exchange of experts of interleaved stages in 16 bits, without recomputing whole layers.

    What megatron/core/transformer/transformer_config.py asserts of ``overlap_moe_expert_parallel_comm``.
    """
    if framework.name != MEGATRON or not expert_overlap:
        return
    modules = recompute.modules if isinstance(recompute, Recomputation) else ()
    is_kept = recompute in ("none", "selective") or (bool(modules) and "moe" not in modules)
    for is_run, needs in (
        (expert_parallel > 1, "plan.expert_parallel above 1"),
        ((pipeline_parallel == 1) | (virtual_stages > 1), "plan.virtual_stages above 1 with plan.pipeline_parallel"),
        (is_kept, "plan.recompute none, selective or modules other than moe"),
        (prediction_layers <= 1, "plan.prediction_layers 0 or 1"),
        (dtype not in FULL_WIDTH, "plan.dtype bf16, fp16 or below"),
    ):
        yield Check(
            is_run, f"plan.expert_overlap is true: --overlap-moe-expert-parallel-comm needs {needs}; allowed: false"
        )


def megatron_recompute(
    framework: Framework, recompute: str | Recomputation, virtual_stages: Count, prediction_layers: Count
) -> Checks:
    """Megatron-LM recomputes the first layers of each stage, or modules of all."""
    if framework.name != MEGATRON or not isinstance(recompute, Recomputation):
        return
    yield Check(
        recompute.every == 1, "plan.recompute names every so many layers: Megatron-LM recomputes the first of a stage"
    )
    yield Check(
        recompute.layers is None or not recompute.modules,
        "plan.recompute limits modules to some layers: Megatron-LM recomputes modules in all of them",
    )
    yield Check(
        (prediction_layers == 0) | (recompute.together == 1) | bool(recompute.modules),
        "plan.recompute keeps the input of every {recompute.together} layers: Megatron-LM recomputes layers that "
        "predict further tokens one by one; allowed with plan.prediction_layers {prediction_layers}: together 1",
    )
    yield Check(
        recompute.layers is None or recompute.layers % virtual_stages == 0,
        "plan.recompute is of {recompute.layers} layers a stage: --recompute-num-layers counts those of each of "
        "{virtual_stages} virtual stages; allowed: a multiple",
    )


def megatron_offloading(
    framework: Framework,
    offload: frozenset[str] | Mapping[str, Number],
    zero_stage: Count,
    dtype: str,
    fp8_recipe: str,
    pipeline_parallel: Count,
    recompute: str | Recomputation,
) -> Checks:
    """Megatron-LM offloads the optimizer with ZeRO-1 or more, and not with weights gathered in 8 bits.

    It offloads activations of models that are one stage and recompute nothing.
    """
    if framework.name != MEGATRON:
        return
    stays = np.logical_not(offloads(offload, "optimizer"))
    yield Check(
        stays | (zero_stage > 0),
        "plan.offload is optimizer with plan.zero_stage 0: --optimizer-cpu-offload needs the distributed optimizer",
    )
    gathers_low = bool(framework.low_precision.weight_bytes) and dtype in GATHERED and fp8_recipe != "delayed"
    yield Check(
        stays | (zero_stage == 0) | (not gathers_low),
        "plan.offload is optimizer with plan.dtype {dtype}: Megatron-LM needs plan.fp8_parameter_gather false",
    )
    yield Check(
        np.logical_not(offloads(offload, "activations")) | ((pipeline_parallel == 1) & (recompute == "none")),
        "plan.offload is activations: --cpu-offloading-num-layers needs plan.pipeline_parallel 1 and no plan.recompute",
    )


def megatron_optimizers(framework: Framework, optimizer: str, zero_stage: Count) -> Checks:
    """Megatron-FSDP, which shards gradients and weights, has adam and sgd."""
    yield Check(
        (zero_stage <= 1) | (framework.name != MEGATRON) | (optimizer != "muon"),
        "plan.optimizer is muon with plan.zero_stage {zero_stage}: Megatron-FSDP has adam and sgd",
    )


def megatron_precision(
    framework: Framework, dtype: str, fp8_recipe: str, bf16_layers: Count, zero_stage: Count
) -> Checks:
    """Megatron-LM keeps layers in 16 bits with recipes other than delayed, and weights in 8 bits where it shards."""
    yield Check(
        (framework.name != MEGATRON)
        | (dtype not in GATHERED)
        | (not framework.low_precision.weight_bytes)
        | (zero_stage > 0),
        "plan.fp8_parameter_gather is true with plan.zero_stage 0: --fp8-param-gather needs the distributed optimizer; "
        "allowed: plan.zero_stage 1 or more, or plan.fp8_parameter_gather false",
    )
    yield Check(
        (bf16_layers == 0) | (framework.name != MEGATRON) | ((dtype, fp8_recipe) != ("fp8", "delayed")),
        "plan.bf16_layers is above 0 with plan.fp8_recipe delayed: allowed: 0, or another recipe",
    )


def torchtitan_model(framework: Framework, model: Model) -> Checks:
    """Some model of torchtitan has the model's layers."""
    yield Check(
        framework.name != TORCHTITAN or named(model) is not None,
        "{model.name} has layers that no model of torchtitan has: Llama 3, Qwen 3, DeepSeek V3, gpt-oss",
    )


def torchtitan_stages(
    framework: Framework,
    model: Model,
    schedule: str,
    pipeline_parallel: Count,
    virtual_stages: Count,
    stage_layers: tuple[int, ...] | None,
) -> Checks:
    """Torchtitan spreads a model's layers over as many stages, in an order that Sightline predicts."""
    if framework.name != TORCHTITAN:
        return
    family = (named(model) or ("",))[0]
    alone = pipeline_parallel == 1
    yield Check(
        alone | (family not in UNPIPELINED),
        "plan.pipeline_parallel is {pipeline_parallel}: torchtitan has no pipeline stages of {family}",
        {"family": family},
    )
    yield Check(
        alone | np.not_equal(schedule, "zero-bubble"),
        "plan.schedule is zero-bubble: PyTorch's zero-bubble schedules have several stages on a rank, which Sightline "
        "does not predict",
    )
    yield Check(stage_layers is None, "plan.stage_layers: torchtitan spreads layers over stages by itself")
    stages = pipeline_parallel * virtual_stages
    each = layers_each(model.layers, stages)
    units = np.where(model.layers % stages == 0, model.layers, model.layers + 2)
    yield Check(
        np.ceil(units / each) == stages,
        "plan.virtual_stages is {virtual_stages}: torchtitan cannot spread {model.layers} layers over {stages} stages",
        {"stages": stages},
    )


def layers_each(layers: int, stages: Count) -> Number:
    """Return the layers of a stage, embedding and head counting where layers do not divide."""
    return np.ceil(np.where(layers % stages == 0, layers, layers + 2) / stages)


def torchtitan_sharding(
    framework: Framework,
    zero_stage: Count,
    tensor_parallel: Count,
    pipeline_parallel: Count,
    context_parallel: Count,
    data_parallel: Count,
    data_parallel_shard: Count | None,
) -> Checks:
    """Torchtitan replicates weights without other parallelism, and shards over ranks of data and context."""
    if framework.name != TORCHTITAN:
        return
    yield Check(
        (zero_stage > 0) | (np.minimum(data_parallel, tensor_parallel * pipeline_parallel) * context_parallel <= 1),
        "plan.zero_stage is 0: torchtitan replicates weights only without tensor, pipeline and context parallelism",
    )
    if data_parallel_shard is not None:
        yield Check(
            (zero_stage == 0) | (data_parallel_shard > 1) | (data_parallel == 1) | (context_parallel > 1),
            "plan.data_parallel_shard is 1 with plan.zero_stage {zero_stage}: a rank alone shards nothing; allowed: "
            "plan.zero_stage 0",
        )


def torchtitan_gradients(framework: Framework, gradient_reduce_dtype: str) -> Checks:
    """Torchtitan sums gradients in fp32."""
    yield Check(
        framework.name != TORCHTITAN or gradient_reduce_dtype == "fp32",
        "plan.gradient_reduce_dtype is {gradient_reduce_dtype}: torchtitan 0.2 reduces in fp32",
    )


def torchtitan_formats(framework: Framework, dtype: str) -> Checks:
    """Torchtitan has no option for tf32."""
    yield Check(
        framework.name != TORCHTITAN or dtype != "tf32",
        "plan.dtype is tf32: torchtitan has no option for it; allowed: fp32 or bf16",
    )


def torchtitan_experts(
    framework: Framework, expert_parallel: Count, expert_tensor_parallel: Count, tensor_parallel: Count
) -> Checks:
    """Torchtitan splits experts' matrices as all others, or not at all."""
    split_alike = (expert_tensor_parallel == 1) | (expert_tensor_parallel == tensor_parallel)
    yield Check(
        split_alike | (expert_parallel == 1) | (framework.name != TORCHTITAN),
        "plan.expert_tensor_parallel is {expert_tensor_parallel}: torchtitan has 1 and plan.tensor_parallel",
    )


def torchtitan_overlap(
    framework: Framework, tensor_overlap: str, tensor_parallel: Count, compile: bool, expert_overlap: bool
) -> Checks:
    """Torchtitan compiles what overlaps collectives of tensor parallelism, and overlaps none of experts."""
    yield Check(
        framework.name != TORCHTITAN or not expert_overlap,
        "plan.expert_overlap is true: torchtitan has no argument for it; allowed: false",
    )
    yield Check(
        (tensor_parallel == 1) | (framework.name != TORCHTITAN) | (tensor_overlap != "all") | compile,
        "plan.tensor_overlap is all with plan.compile false: torchtitan compiles its asynchronous one",
    )


def torchtitan_sequences(framework: Framework, sequence_parallel: Count, tensor_parallel: Count) -> Checks:
    """Torchtitan's tensor parallelism always splits activations along the sequence."""
    yield Check(
        (tensor_parallel == 1) | (framework.name != TORCHTITAN) | np.not_equal(sequence_parallel, 0),
        "plan.sequence_parallel is false with plan.tensor_parallel {tensor_parallel}: torchtitan splits activations "
        "along the sequence with tensor parallelism; allowed: true",
    )


def torchtitan_recompute(framework: Framework, recompute: str | Recomputation) -> Checks:
    """Torchtitan recomputes every so many layers."""
    if framework.name != TORCHTITAN or not isinstance(recompute, Recomputation):
        return
    yield Check(
        recompute.layers is None and not (recompute.every > 1 and recompute.modules),
        "plan.recompute limits what recomputes to some layers: torchtitan has every so many",
    )


def models_by_name(framework: Framework, model: Model, task: str) -> Checks:
    """Torchtune and MaxText have models by names of their own."""
    if framework.name in (TORCHTUNE, MAXTEXT):
        # Imported here because the tables are read for these alone.
        from sightline.launching.training.stack_launches import has_model

        yield Check(
            has_model(framework.name, model, task), "model is {model.name}: {framework.name} has no model of that name"
        )


def torchtune_runs(
    framework: Framework,
    task: str,
    model: Model,
    adapter: Adapter | None,
    tensor_parallel: Count,
    sequence_parallel: Count,
    zero_stage: Count,
    devices: Count,
    recompute: str | Recomputation,
    offload: frozenset[str] | Mapping[str, Number],
) -> Checks:
    """Torchtune tunes checkpoints, splits Llama 3 alone, and shards on several devices."""
    if framework.name != TORCHTUNE:
        return
    whole_llama = model.name.startswith("llama-3") and adapter is None
    stays = np.logical_not(offloads(offload, "activations"))
    for is_run, said in (
        (task == "finetune", "workload.task is {task}: torchtune tunes checkpoints; allowed: finetune"),
        (
            (tensor_parallel == 1) | whole_llama,
            "plan.tensor_parallel is {tensor_parallel}: for Llama 3 without adapters",
        ),
        ((tensor_parallel == 1) | np.not_equal(sequence_parallel, 0), "plan.sequence_parallel is false: allowed: true"),
        ((zero_stage > 0) | (devices == 1), "plan.zero_stage is 0 on {devices} devices: allowed: 2 or 3"),
        (stays | (recompute == "full"), "plan.offload is activations: allowed with plan.recompute full"),
    ):
        yield Check(is_run, f"{said} with torchtune")


def maxtext_runs(
    framework: Framework,
    model: Model,
    zero_stage: Count,
    tensor_parallel: Count,
    context_parallel: Count,
    data_parallel: Count,
    data_parallel_shard: Count | None,
    expert_parallel: Count,
    expert_tensor_parallel: Count,
    sequence_parallel: Count,
    pipeline_parallel: Count,
    virtual_stages: Count,
    schedule: str,
    expert_capacity: float,
    plan: Mapping[str, Any],
    dtype: str,
) -> Checks:
    """MaxText's stages are equal and run all forward passes first; experts are split over ranks that shard weights."""
    if framework.name != MAXTEXT:
        return
    reduced = choices_of(framework.plain or framework, dtype).get("gradient_reduce_dtype")
    alone = pipeline_parallel == 1
    shard = data_parallel if data_parallel_shard is None else data_parallel_shard
    whole = (context_parallel * expert_parallel == 1) & (data_parallel > 1)
    equal = model.layers % (pipeline_parallel * virtual_stages) == 0
    split_alike = (expert_tensor_parallel == tensor_parallel) | (model.experts is None)
    for is_run, said in (
        (alone | np.not_equal(schedule, "1f1b"), "plan.schedule is 1f1b: allowed: gpipe or interleaved"),
        (alone | equal, "plan.pipeline_parallel is {pipeline_parallel}: allowed: stages of as many layers"),
        ((zero_stage > 0) | whole, "plan.zero_stage is 0: allowed: 3, or replicas of several ranks of data alone"),
        ((zero_stage == 0) | (shard > 1) | np.logical_not(whole), "plan.data_parallel_shard is 1: allowed: more"),
        # Its tensor axis always divides what lies between products too (activation_embed of base.yml).
        ((tensor_parallel == 1) | np.not_equal(sequence_parallel, 0), "plan.sequence_parallel is false: allowed: true"),
        (
            shard % expert_parallel == 0,
            "plan.expert_parallel is {expert_parallel}: allowed: a divisor of ranks that shard",
        ),
        # Its decoder of Llama 4 takes no capacity_factor (src/maxtext/configs/types.py).
        (
            expert_capacity == 0 or not model.name.startswith("llama-4"),
            "plan.expert_capacity is {expert_capacity:g} with {model.name}: allowed: 0",
        ),
        (
            plan.get("gradient_reduce_dtype") in (None, reduced),
            f"plan.gradient_reduce_dtype is {plan.get('gradient_reduce_dtype')}: allowed: {reduced}",
        ),
        (split_alike, "plan.expert_tensor_parallel is {expert_tensor_parallel}: allowed: {tensor_parallel}"),
    ):
        yield Check(is_run, f"{said} with MaxText")


def maxtext_rounds(
    framework: Framework, pipeline_parallel: Count, global_batch: Count, data_parallel: Count, micro_batch: Count | None
) -> Checks:
    """MaxText's pipelines run as many micro-batches as a multiple of the stages."""
    if framework.name == MAXTEXT and micro_batch is not None:
        rounds = global_batch / (data_parallel * micro_batch)
        yield Check(
            (pipeline_parallel == 1) | (rounds % pipeline_parallel == 0),
            "plan.pipeline_parallel is {pipeline_parallel} with {rounds:g} micro-batches: MaxText runs a multiple",
            {"rounds": rounds},
        )


QUANTIZED: Final = ("nf4", "nf4-single", "int8")
"""Formats of weights that the script loads."""
TRAINER_OPTIMIZERS: Final[Mapping[str, str]] = {
    "adamw": "adamw_torch_fused",
    "adamw-fused": "adamw_torch_fused",
    "adamw-unfused": "adamw_torch",
    "adamw-8bit": "adamw_bnb_8bit",
    "sgd": "sgd",
}
"""The Trainer's names of optimizers."""
_ON_THE_HOST: Final = ("adamw", "adamw-unfused")
"""Optimizers that DeepSpeed updates on the host."""


def script_model(framework: Framework, model: Model) -> Checks:
    """The training script has the model's layers."""
    yield Check(
        framework.name not in SCRIPTED or configuration(model) is not None,
        "{model.name} has layers for which no config.json is written; written: " + KNOWN,
    )


def script_degrees(
    framework: Framework,
    tensor_parallel: Count,
    pipeline_parallel: Count,
    context_parallel: Count,
    expert_parallel: Count,
) -> Checks:
    """The training script supports data parallelism only."""
    degrees = {
        "tensor_parallel": tensor_parallel,
        "pipeline_parallel": pipeline_parallel,
        "context_parallel": context_parallel,
        "expert_parallel": expert_parallel,
    }
    for name, degree in degrees.items():
        yield Check(
            (degree == 1) | (framework.name not in SCRIPTED),
            "plan.{name} is {degree}: the script written for {framework.name} has none",
            {"name": name, "degree": degree},
        )


def script_weights(framework: Framework, task: str, quantization: str) -> Checks:
    """The training script loads quantized weights of a checkpoint."""
    if framework.name not in SCRIPTED or quantization == "none":
        return
    yield Check(quantization in QUANTIZED, "plan.quantization is {quantization}; launched: " + ", ".join(QUANTIZED))
    yield Check(
        task != "pretrain", "plan.quantization is for weights of a checkpoint: launched with workload.task finetune"
    )


def deepspeed_shards(
    framework: Framework, quantization: str, zero_stage: Count, data_parallel: Count, data_parallel_shard: Count | None
) -> Checks:
    """DeepSpeed shards over all ranks, and only weights that nobody has packed."""
    if framework.name != "deepspeed":
        return
    yield Check(
        data_parallel_shard is None or data_parallel_shard == data_parallel,
        "plan.data_parallel_shard is {data_parallel_shard}: DeepSpeed 0.19 shards over all ranks",
    )
    yield Check(
        (zero_stage != 3) | (quantization == "none"),
        "plan.quantization with plan.zero_stage 3: DeepSpeed does not shard weights that bitsandbytes has packed",
    )


def deepspeed_overlap(framework: Framework, zero_stage: Count) -> Checks:
    """DeepSpeed prefetches sharded weights alone."""
    plain = framework.plain or framework
    yield Check(
        (zero_stage == 0)
        | (zero_stage == 3)
        | (framework.name != "deepspeed")
        | (framework.overlap.parameters == plain.overlap.parameters),
        "plan.overlap_parameter_gather is false with plan.zero_stage {zero_stage}: DeepSpeed has an argument for it "
        "with plan.zero_stage 3",
    )


def deepspeed_offloading(
    framework: Framework, optimizer: str, offload: frozenset[str] | Mapping[str, Number]
) -> Checks:
    """DeepSpeed updates weights on the host with AdamW."""
    yield Check(
        np.logical_not(offloads(offload, "optimizer")) | (framework.name != "deepspeed") | (optimizer in _ON_THE_HOST),
        "plan.optimizer is {optimizer} with plan.offload optimizer: DeepSpeed updates on the host with adamw",
    )


def fsdp_replicas(
    framework: Framework,
    offload: frozenset[str] | Mapping[str, Number],
    zero_stage: Count,
    data_parallel: Count,
    data_parallel_shard: Count | None,
) -> Checks:
    """FSDP offloads what it shards, and replicas shard nothing."""
    if framework.name != "fsdp":
        return
    sharded = zero_stage > 0
    yield Check(
        sharded | (data_parallel_shard is None or data_parallel_shard == data_parallel),
        "plan.data_parallel_shard with plan.zero_stage 0: replicas shard nothing",
    )
    yield Check(
        sharded | np.logical_not(offloads(offload, "parameters")),
        "plan.offload is parameters with plan.zero_stage 0: FSDP offloads what it shards",
    )


def replicas_sum(framework: Framework, plan: Mapping[str, Any], zero_stage: Count, dtype: str) -> Checks:
    """PyTorch's replicas that shard nothing sum gradients as they are kept, whatever is stated."""
    reduced = plan.get("gradient_reduce_dtype")
    if reduced is None or not framework.sharding.replicas_keep_dtype:
        return
    kept = framework.name != "fsdp" and framework.states_in(dtype).gradients == REDUCE_BYTES[reduced]
    yield Check(
        (zero_stage > 0) | kept,
        "plan.gradient_reduce_dtype is {reduced} with plan.zero_stage 0: PyTorch's replicas sum gradients in the dtype "
        "of the weights",
        {"reduced": reduced},
    )


def trainer_arguments(framework: Framework, dtype: str, optimizer: str) -> Checks:
    """The Trainer has arguments for the dtype and the optimizer."""
    if framework.name != "transformers":
        return
    yield Check(
        dtype != "fp8", "plan.dtype is fp8: the Trainer has no argument for it; accelerate has (plan.framework fsdp)"
    )
    yield Check(
        optimizer in TRAINER_OPTIMIZERS,
        "plan.optimizer is {optimizer}; the Trainer has " + ", ".join(TRAINER_OPTIMIZERS),
    )


def scaled_losses(framework: Framework, plan: Mapping[str, Any], dtype: str) -> Checks:
    """PyTorch scales the losses of fp16, and unscales gradients of fp32 weights alone."""
    if framework.name not in ("fsdp", "transformers"):
        return
    yield Check(
        dtype != "fp16" or plan.get("state_dtype") != "bf16",
        "plan.state_dtype is bf16 with plan.dtype fp16: PyTorch unscales only gradients of fp32 weights; allowed: "
        "plan.state_dtype fp32 or plan.dtype bf16",
    )
    yield Check(
        dtype not in FULL_WIDTH or plan.get("state_dtype") != "bf16",
        "plan.state_dtype is bf16 with plan.dtype {dtype}: PyTorch computes in the dtype of its weights; allowed: "
        "plan.dtype bf16",
    )


LAUNCH_RULES: tuple[Rule, ...] = rules_of(sys.modules[__name__])
"""What a launch can run, each rule for the frameworks that it names. They say nothing of a framework for which no
launch is written."""


OF_PRETRAIN_GPT: Final = (megatron_model, megatron_adapters)
"""Those of what Megatron-LM's own script has, but other tools that start Megatron do not lack."""


def refusals(scenario: Scenario, without: Container[Rule] = ()) -> list[Broken]:
    """Return a sentence for all of a scenario that its framework does not offer or its launch cannot run."""
    rules = tuple(rule for rule in LAUNCH_RULES if rule not in without)
    return list(broken_rules((*OFFERED, *rules), facts_of(scenario)))

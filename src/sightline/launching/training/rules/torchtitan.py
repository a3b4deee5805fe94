"""What torchtitan 0.2 can be asked for (torchtitan/config/job_config.py)."""

import numpy as np

from sightline.frameworks import Framework
from sightline.launching.training.torchtitan.models import UNPIPELINED, named
from sightline.quantities import Count, Number
from sightline.scenario import Model
from sightline.scenario.rules.rulebook import Check, Checks
from sightline.scenario.techniques import Recomputation

NAME = "torchtitan"


def torchtitan_model(framework: Framework, model: Model) -> Checks:
    """Some model of torchtitan has the model's layers."""
    yield Check(
        framework.name != NAME or named(model) is not None,
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
    if framework.name != NAME:
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
    """Torchtitan replicates weights without other parallelism, and shards over two ranks or more."""
    if framework.name != NAME:
        return
    yield Check(
        (zero_stage > 0) | (data_parallel <= 1) | (tensor_parallel * pipeline_parallel * context_parallel == 1),
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
        framework.name != NAME or gradient_reduce_dtype == "fp32",
        "plan.gradient_reduce_dtype is {gradient_reduce_dtype}: torchtitan 0.2 reduces in fp32",
    )


def torchtitan_experts(
    framework: Framework, expert_parallel: Count, expert_tensor_parallel: Count, tensor_parallel: Count
) -> Checks:
    """Torchtitan splits experts' matrices as all others, or not at all."""
    split_alike = (expert_tensor_parallel == 1) | (expert_tensor_parallel == tensor_parallel)
    yield Check(
        split_alike | (expert_parallel == 1) | (framework.name != NAME),
        "plan.expert_tensor_parallel is {expert_tensor_parallel}: torchtitan has 1 and plan.tensor_parallel",
    )


def torchtitan_overlap(framework: Framework, tensor_overlap: str, tensor_parallel: Count, compile: bool) -> Checks:
    """Torchtitan compiles what overlaps collectives of tensor parallelism."""
    yield Check(
        (tensor_parallel == 1) | (framework.name != NAME) | (tensor_overlap != "all") | compile,
        "plan.tensor_overlap is all with plan.compile false: torchtitan compiles its asynchronous one",
    )


def torchtitan_sequences(framework: Framework, sequence_parallel: Count, tensor_parallel: Count) -> Checks:
    """Torchtitan's tensor parallelism always splits activations along the sequence."""
    yield Check(
        (tensor_parallel == 1) | (framework.name != NAME) | np.not_equal(sequence_parallel, 0),
        "plan.sequence_parallel is false with plan.tensor_parallel {tensor_parallel}: torchtitan splits activations "
        "along the sequence with tensor parallelism; allowed: true",
    )


def torchtitan_recompute(framework: Framework, recompute: str | Recomputation) -> Checks:
    """Torchtitan recomputes every so many layers."""
    if framework.name != NAME or not isinstance(recompute, Recomputation):
        return
    yield Check(
        recompute.layers is None and not (recompute.every > 1 and recompute.modules),
        "plan.recompute limits what recomputes to some layers: torchtitan has every so many",
    )

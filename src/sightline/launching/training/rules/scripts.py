"""What the training script of a launch can run with DeepSpeed, FSDP and the Trainer."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from sightline.frameworks import Framework
from sightline.launching.hugging_face import KNOWN, configuration
from sightline.launching.training.rules.frameworks import SCRIPTED
from sightline.launching.training.rules.masks import offloads
from sightline.quantities import Count, Number
from sightline.scenario import Model
from sightline.scenario.rules.rulebook import Check, Checks

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
_ON_THE_HOST: Final = ("adamw", "adamw-fused", "adamw-unfused")
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
    """The training script has data parallelism alone."""
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
    plan: Mapping[str, Any],
    offload: frozenset[str] | Mapping[str, Number],
    zero_stage: Count,
    data_parallel: Count,
    data_parallel_shard: Count | None,
) -> Checks:
    """FSDP offloads what it shards, and replicas that shard nothing sum gradients in the dtype of the weights."""
    if framework.name != "fsdp":
        return
    sharded, reduced = zero_stage > 0, plan.get("gradient_reduce_dtype")
    yield Check(
        sharded | (data_parallel_shard is None or data_parallel_shard == data_parallel),
        "plan.data_parallel_shard with plan.zero_stage 0: replicas shard nothing",
    )
    yield Check(
        sharded | np.logical_not(offloads(offload, "parameters")),
        "plan.offload is parameters with plan.zero_stage 0: FSDP offloads what it shards",
    )
    yield Check(
        sharded | (reduced is None),
        "plan.gradient_reduce_dtype is {reduced} with plan.zero_stage 0: PyTorch's replicas sum gradients in the dtype "
        "of the weights",
        {"reduced": reduced},
    )


def trainer_arguments(framework: Framework, dtype: str, optimizer: str) -> Checks:
    """The Trainer has arguments for the dtype and the optimizer."""
    if framework.name != "transformers":
        return
    yield Check(
        dtype != "fp8",
        "plan.dtype is fp8: the Trainer has no argument for it; accelerate has (plan.framework fsdp)",
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

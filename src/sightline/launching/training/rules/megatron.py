"""What ``pretrain_gpt.py`` of Megatron-LM can be asked for (megatron/training/arguments.py, 2026-08)."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from sightline.frameworks import Framework
from sightline.launching.training.megatron.models import model_problems
from sightline.launching.training.rules.masks import offloads
from sightline.quantities import Count, Number
from sightline.scenario import Adapter, Model
from sightline.scenario.rules.rulebook import Check, Checks
from sightline.scenario.techniques import Recomputation

NAME = "megatron"
GATHERED = ("fp8", "mxfp8")
"""Formats of which Megatron-LM can keep and gather weights in 8 bits alone."""


def megatron_model(framework: Framework, model: Model) -> Checks:
    """Megatron-LM's pretrain_gpt.py has the model's layers."""
    if framework.name == NAME:
        for problem in model_problems(model):
            yield Check(False, partial(str, problem))


def megatron_adapters(framework: Framework, adapter: Adapter | None) -> Checks:
    """Megatron-LM's pretrain_gpt.py trains whole models."""
    yield Check(
        framework.name != NAME or adapter is None,
        "plan.adapter is {adapter.kind}: pretrain_gpt.py trains no adapters; NeMo does, for which no launch is written",
    )


def megatron_schedules(
    framework: Framework,
    schedule: str,
    pipeline_parallel: Count,
    virtual_stages: Count,
    stage_layers: tuple[int, ...] | None,
) -> Checks:
    """Megatron-LM schedules pipelines as 1f1b or interleaved."""
    if framework.name != NAME:
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
    if framework.name != NAME:
        return
    overlap = framework.overlap
    yield Check(
        (zero_stage == 0) | (not overlap.parameters) | overlap.gradients,
        "plan.overlap_parameter_gather is true: Megatron-LM overlaps it only with overlap_gradient_reduce true",
    )
    yield Check(
        np.not_equal(sequence_parallel, 0) | (tensor_parallel == 1) | (tensor_overlap != "all"),
        "plan.tensor_overlap is {tensor_overlap}: --tp-comm-overlap needs plan.sequence_parallel true",
    )


def megatron_recompute(
    framework: Framework, recompute: str | Recomputation, virtual_stages: Count, prediction_layers: Count
) -> Checks:
    """Megatron-LM recomputes the first layers of each stage, or modules of all."""
    if framework.name != NAME or not isinstance(recompute, Recomputation):
        return
    yield Check(
        recompute.every == 1,
        "plan.recompute names every so many layers: Megatron-LM recomputes the first of a stage",
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
) -> Checks:
    """Megatron-LM offloads the optimizer with ZeRO-1 or more, and not with weights gathered in 8 bits."""
    if framework.name != NAME:
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


def megatron_optimizers(framework: Framework, optimizer: str, zero_stage: Count) -> Checks:
    """Megatron-FSDP, which shards gradients and weights, has adam and sgd."""
    yield Check(
        (zero_stage <= 1) | (framework.name != NAME) | (optimizer != "muon"),
        "plan.optimizer is muon with plan.zero_stage {zero_stage}: Megatron-FSDP has adam and sgd",
    )


def megatron_precision(framework: Framework, dtype: str, fp8_recipe: str, bf16_layers: Count) -> Checks:
    """Megatron-LM keeps layers in 16 bits with any recipe of fp8 but the delayed one."""
    yield Check(
        (bf16_layers == 0) | (framework.name != NAME) | ((dtype, fp8_recipe) != ("fp8", "delayed")),
        "plan.bf16_layers is above 0 with plan.fp8_recipe delayed: allowed: 0, or another recipe",
    )

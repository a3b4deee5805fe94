"""Techniques of training under every framework: what a small step with one of them is answered with, or refused."""

from collections.abc import Iterator
from typing import Any, get_args

from sightline.catalog import names
from sightline.frameworks import TensorOverlap
from sightline.frameworks.behavior import read_framework
from sightline.loading.clusters.cluster import read_device
from sightline.prediction import predict
from sightline.prediction.training.effects import shipped_coverage
from sightline.scenario.plan import (
    OFFLOADABLE,
    OPTIMIZERS,
    TRAINING_QUANTIZATIONS,
    AttentionKernel,
    ContextExchange,
    ExpertDispatch,
    Schedule,
)
from sightline.scenario.precision import FP8_RECIPES, LOW_PRECISION, computes_in
from sightline.scenario.techniques import MODULES, AdapterKind
from sightline.validation.coverage.cell import Cell, Question, cell
from sightline.validation.coverage.choice import Choice, each
from sightline.validation.coverage.published import published

DENSE, EXPERTS, LATENT = "llama-3-8b", "mixtral-8x7b", "deepseek-v2-lite"
UNMEASURED_ON = ("h100-sxm-80gb", "b200-sxm-180gb")
"""Where frameworks are asked that nobody measured, the first that computes in the dtype."""
_WORKLOAD = {"sequence_length": 2048, "global_batch": 64}
_MODELS = {"moe": EXPERTS, "moe_activation": EXPERTS, "latent_up": LATENT, "shared_experts": LATENT}
"""Models with the modules that others lack."""


def technique_cells(framework: str) -> Iterator[Cell]:
    """Yield the cell of every technique under a framework's newest release."""
    counts = published("techniques", read_framework(framework).lineage)
    for technique in TECHNIQUES:
        device = measured_device(framework, str(technique.plan.get("dtype", "bf16")))
        asked = technique.question(framework, device, _WORKLOAD)
        yield cell("techniques", framework, technique.name, asked, answered, published=counts(technique.name))


def measured_device(framework: str, dtype: str) -> str:
    """Return the device that computes in a dtype and on which most steps of a framework's lineage were published."""
    on = shipped_coverage().get(read_framework(framework).lineage, {}).get("on", {})
    measured = sorted(on, key=lambda family: -on[family]["rows"])
    devices = [name for family in measured for name in names("devices") if name.startswith(family)]
    return next(name for name in (*devices, *UNMEASURED_ON) if computes_in(read_device(name), dtype))


def answered(scenario: Any) -> tuple[str, str]:
    """Return what a prediction's framework or engine rests on, and what it lacks to be calibrated."""
    profile = predict(scenario)
    return str(profile.evidence["framework"]), str(profile.missing.get("framework", ""))


def _technique(name: str, plan: Question, needs: Question | None = None, **more: Any) -> Choice:
    return Choice(
        name=name,
        plan=plan,
        needs={"micro_batch": 1, **(needs or {})},
        **{"model": DENSE, "task": "pretrain", "devices": 16, **more},
    )


def _parallelism() -> Iterator[Choice]:
    yield _technique("tensor parallelism", {"tensor_parallel": 2})
    split = {"tensor_parallel": 2, "sequence_parallel": True}
    yield _technique("sequence parallelism", split)
    for overlap in get_args(TensorOverlap):
        if overlap != "none":
            yield _technique(f"tensor overlap {overlap}", {**split, "tensor_overlap": overlap})
    for schedule in get_args(Schedule):
        chunks = {"virtual_stages": 2} if schedule == "interleaved" else {}
        yield _technique(f"pipeline {schedule}", {"pipeline_parallel": 4, "schedule": schedule}, needs=chunks)
    for exchange in get_args(ContextExchange):
        yield _technique(f"context {exchange}", {"context_parallel": 2, "context_exchange": exchange})
    yield from _experts()
    yield from each(_technique, "ZeRO", "zero_stage", (1, 2, 3))
    yield _technique("hybrid sharding", {"data_parallel_shard": 4}, needs={"zero_stage": 3})


def _experts() -> Iterator[Choice]:
    spread = {"expert_parallel": 4}
    yield _technique("expert parallelism", spread, model=EXPERTS)
    split = {"tensor_parallel": 2}
    yield _technique("expert tensor parallelism", {"expert_tensor_parallel": 2}, needs=split, model=EXPERTS)
    for dispatch in get_args(ExpertDispatch):
        yield _technique(f"expert dispatch {dispatch}", {**spread, "expert_dispatch": dispatch}, model=EXPERTS)
    yield _technique("expert overlap", {**spread, "expert_overlap": True}, model=EXPERTS)


def _memory() -> Iterator[Choice]:
    yield from each(_technique, "recompute", "recompute", ("selective", "full"))
    for module in MODULES:
        model = _MODELS.get(module, DENSE)
        yield _technique(f"recompute {module}", {"recompute": {"modules": [module]}}, model=model)
    yield from each(_technique, "offload", "offload", OFFLOADABLE, needs={"zero_stage": 3})
    # FSDP offloads neither of both without the other.
    both = {"offload": ["optimizer", "parameters"]}
    yield _technique("offload optimizer and parameters", both, needs={"zero_stage": 3})


def _formats() -> Iterator[Choice]:
    yield from each(_technique, "attention", "attention", get_args(AttentionKernel))
    yield from each(_technique, "dtype", "dtype", ("fp32", "tf32", "fp16", "bf16", *LOW_PRECISION))
    for recipe in FP8_RECIPES:
        yield _technique(f"fp8 scales {recipe}", {"dtype": "fp8", "fp8_recipe": recipe})
    for kind in get_args(AdapterKind):
        yield _technique(kind, {"adapter": {"kind": kind}}, task="finetune")
    adapted = {"needs": {"adapter": {"kind": "lora"}}, "task": "finetune"}
    yield from each(_technique, "frozen weights", "quantization", TRAINING_QUANTIZATIONS, **adapted)
    yield from each(_technique, "optimizer", "optimizer", OPTIMIZERS)
    yield _technique("compilation", {"compile": True})


TECHNIQUES: tuple[Choice, ...] = (*_parallelism(), *_memory(), *_formats())
"""Everything that a plan of training may be told by, one at a time; the values are those that the plan's types list."""

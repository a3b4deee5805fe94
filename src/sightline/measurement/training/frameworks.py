"""Which way of training a plan's framework stands for."""

from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from sightline.measurement.processes.case import UnsupportedCaseError
from sightline.measurement.training.steps import Trainer
from sightline.scenario import Plan, Scenario
from sightline.scenario.low_precision import LOW_PRECISION

Setup = Callable[[Scenario, str, Path | None], Trainer]
"""Builds this rank's trainer of a scenario on a device, with the weights of a checkpoint or random ones."""

WAYS = {
    "single": "sightline.measurement.training.pytorch:single",
    "ddp": "sightline.measurement.training.pytorch:ddp",
    "fsdp2": "sightline.measurement.training.pytorch:fsdp2",
    "deepspeed": "sightline.measurement.training.deepspeed:deepspeed",
    "megatron": "sightline.measurement.training.megatron:megatron",
}
UNMEASURED = {
    "expert_capacity": 0.0,
    "expert_parallel": 1,
    "expert_tensor_parallel": 1,
    "expert_dispatch": "all-to-all",
    "expert_overlap": False,
    "prediction_layers": 0,
}
"""What no way of measuring does, and the value that leaves it out."""
LIBRARIES = {"deepspeed": ("deepspeed",), "megatron": ("megatron.core",)}
"""What a way needs besides PyTorch and transformers."""
ENGINES = {"deepspeed": "deepspeed", "megatron": "megatron", "megatron-deepspeed": "megatron"}
"""Frameworks with an engine of their own; the others are PyTorch's."""


def way_of(scenario: Scenario) -> str:
    """Return the way of training, by its name in ``WAYS``.

    Raises:
        UnsupportedCaseError: The scenario needs what the framework's way does not do.
    """
    plan = scenario.plan
    if scenario.workload.lengths is not None:
        raise UnsupportedCaseError(
            "workload.lengths: measured are samples that all have workload.sequence_length tokens"
        )
    if plan.dtype in LOW_PRECISION:
        raise UnsupportedCaseError(
            f"plan.dtype is {plan.dtype}, which is only predicted; measured: a dtype of 16 or 32 bits"
        )
    if plan.framework.name in ENGINES:
        way = ENGINES[plan.framework.name]
    elif plan.data_parallel == 1 and plan.tensor_parallel * plan.pipeline_parallel == 1:
        way = "single"
    else:
        way = "fsdp2" if plan.zero_stage else "ddp"
    for degree in ("tensor_parallel", "pipeline_parallel"):
        if way != "megatron" and getattr(plan, degree) > 1:
            raise UnsupportedCaseError(
                f"plan.{degree} is {getattr(plan, degree)} with plan.framework {plan.framework.name}; "
                "measured with it: 1, or with framework megatron"
            )
    if plan.context_parallel > 1:
        raise UnsupportedCaseError(
            f"plan.context_parallel is {plan.context_parallel}; measured here: 1, whole sequences"
        )
    for field in ("data_parallel_shard", "tensor_overlap"):
        if (reason := _not_run(plan, way, field)) is not None:
            raise UnsupportedCaseError(reason)
    _refuse_unmeasured(plan)
    return way


def _refuse_unmeasured(plan: Plan) -> None:
    """Raise `UnsupportedCaseError` where the plan takes what no way of measuring does."""
    for field, plain in UNMEASURED.items():
        if getattr(plan, field) != plain:
            raise UnsupportedCaseError(f"plan.{field} is {getattr(plan, field)}; measured with any framework: {plain}")


def _not_run(plan: Plan, way: str, field: str) -> str | None:
    """Why a way of training does not do what a field of the plan asks; None where it does."""
    value = getattr(plan, field)
    usual = {
        "data_parallel_shard": (None, plan.data_parallel),
        "tensor_overlap": (None, plan.framework.overlap.tensor),
    }
    if value in usual[field] or (way, field) in _RUN:
        return None
    return f"plan.{field} is {value}; measured with framework {plan.framework.name}: what it does by itself"


_RUN = {("fsdp2", "data_parallel_shard")}
"""Fields that a way of training does as asked."""


def setup_of(way: str) -> Setup:
    """Return the function that builds a rank's trainer."""
    module, _, name = WAYS[way].partition(":")
    setup: Setup = getattr(import_module(module), name)
    return setup


def preload(way: str) -> None:
    """Import what training needs, without running any of it: processes that are forked from here have it at once.

    A library that is missing is complained about where it is used.
    """
    import torch
    import transformers

    _ = torch.nn.Linear, transformers.AutoModelForCausalLM
    for module in LIBRARIES.get(way, ()):
        with suppress(ImportError):
            import_module(module)

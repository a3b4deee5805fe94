"""Which way of training a plan's framework stands for."""

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from sightline.measurement.processes.case import UnsupportedCaseError
from sightline.measurement.training.steps import Trainer
from sightline.scenario import Scenario
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
    "context_parallel": 1,
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
    way = ENGINES.get(plan.framework.name)
    if way is None:
        alone = plan.data_parallel == 1 and plan.tensor_parallel * plan.pipeline_parallel == 1
        way = "single" if alone else "fsdp2" if plan.zero_stage else "ddp"
    for reason in _unsupported(scenario, way):
        raise UnsupportedCaseError(reason)
    return way


def _unsupported(scenario: Scenario, way: str) -> Iterator[str]:
    """What a way of training does not do and the scenario asks for."""
    plan, framework = scenario.plan, scenario.plan.framework
    if scenario.workload.lengths is not None:
        yield "workload.lengths: measured are samples that all have workload.sequence_length tokens"
    if plan.dtype in LOW_PRECISION:
        yield f"plan.dtype is {plan.dtype}, which is only predicted; measured: a dtype of 16 or 32 bits"
    for degree in ("tensor_parallel", "pipeline_parallel"):
        if way != "megatron" and getattr(plan, degree) > 1:
            yield (
                f"plan.{degree} is {getattr(plan, degree)} with plan.framework {framework.name}; "
                "measured with it: 1, or with framework megatron"
            )
    defaults: dict[str, Any] = {"tensor_overlap": framework.overlap.tensor}
    if way != "fsdp2":
        defaults["data_parallel_shard"] = plan.data_parallel
    for field, default in defaults.items():
        if getattr(plan, field) not in (None, default):
            yield f"plan.{field} is {getattr(plan, field)}; measured with framework {framework.name}: {default}"
    for field, plain in UNMEASURED.items():
        if getattr(plan, field) != plain:
            yield f"plan.{field} is {getattr(plan, field)}; measured with any framework: {plain}"


def setup_of(way: str) -> Setup:
    """Return the function that builds a rank's trainer."""
    module, _, name = WAYS[way].partition(":")
    setup: Setup = getattr(import_module(module), name)
    return setup

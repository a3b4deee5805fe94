"""Training scenarios for tests, from few words."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sightline.loading import scenario_from_mapping
from sightline.prediction.training.constants import TrainingConstants, base_constants
from sightline.scenario import Model, Scenario


def training(
    *,
    model: Model | Mapping[str, Any] | str = "gpt-3-175b",
    cluster: Mapping[str, Any] | str = "1x h100-sxm-80gb",
    sequence_length: int = 2048,
    global_batch: int = 1,
    plan: Mapping[str, Any] | None = None,
    **workload: Any,
) -> Scenario:
    """Return a training scenario; a `Model` is taken as it is, everything else is read as a file would be.

    Without a framework it is that of the reference: tests of one framework's behavior name it.
    """
    scenario = scenario_from_mapping(
        {
            "model": "gpt-3-175b" if isinstance(model, Model) else model,
            "cluster": cluster,
            "workload": {
                "task": "pretrain",
                "sequence_length": sequence_length,
                "global_batch": global_batch,
                **workload,
            },
            "plan": {"framework": "reference"} | dict(plan or {}),
        }
    )
    return replace(scenario, model=model) if isinstance(model, Model) else scenario


def plain_constants(device: str = "a100-sxm-80gb") -> TrainingConstants:
    """Return a framework's constants on a device before any effect."""
    return base_constants(training(cluster=f"1x {device}", plan={"framework": "megatron"}))


def behaving(described: Any, behavior: Mapping[str, Any]) -> Any:
    """Return a framework or engine with other values of its groups, by ``group.field``."""
    for key, value in behavior.items():
        group, field = key.split(".")
        described = replace(described, **{group: replace(getattr(described, group), **{field: value})})
    return described

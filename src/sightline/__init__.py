"""Sightline: how fast a large language model trains and generates, where time and memory go, and whether it fits.

The names below are the public API. They are loaded when first used, so ``import sightline`` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sightline.errors import InputError, SightlineError
    from sightline.explanation.comparison import Comparison, compare
    from sightline.loading import load
    from sightline.measurement.measure import measure
    from sightline.prediction import predict
    from sightline.profile import Profile
    from sightline.scenario import (
        Cluster,
        Device,
        Finetune,
        Generate,
        GenerationPlan,
        GenerationScenario,
        Model,
        OperatorScenario,
        Plan,
        Pretrain,
        Scenario,
    )
    from sightline.validation.validate import validate

__version__ = "0.1.0"

__all__ = [
    "Cluster",
    "Comparison",
    "Device",
    "Finetune",
    "Generate",
    "GenerationPlan",
    "GenerationScenario",
    "InputError",
    "Model",
    "OperatorScenario",
    "Plan",
    "Pretrain",
    "Profile",
    "Scenario",
    "SightlineError",
    "compare",
    "load",
    "measure",
    "predict",
    "validate",
]

_HOMES = {
    "sightline.errors": "InputError SightlineError",
    "sightline.explanation.comparison": "Comparison compare",
    "sightline.loading": "load",
    "sightline.measurement.measure": "measure",
    "sightline.prediction": "predict",
    "sightline.profile": "Profile",
    "sightline.scenario": "Cluster Device Finetune Generate GenerationPlan GenerationScenario Model OperatorScenario "
    "Plan Pretrain Scenario",
    "sightline.validation": "validate",
}
"""The module that each name is loaded from."""


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names.split():
            value = globals()[name] = getattr(import_module(home), name)
            return value
    raise AttributeError(f"module 'sightline' has no attribute '{name}'")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

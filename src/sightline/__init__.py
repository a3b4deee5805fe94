"""Sightline: how fast a large language model trains, generates and serves, where time and memory go, what it needs.

The names below are the public API. They are loaded when first used, so ``import sightline`` costs nothing.
"""

import sys
from typing import TYPE_CHECKING

from sightline.on_demand import names_on_demand

if TYPE_CHECKING:
    from sightline.anchors.corrected import anchored, find_capacity, predict, sensitivity, simulate
    from sightline.errors import InputError, SightlineError
    from sightline.explanation.answer import Explanation
    from sightline.explanation.comparison import Comparison, compare
    from sightline.explanation.explain import explain
    from sightline.exploration.run import explore
    from sightline.loading import load
    from sightline.measurement.measure import measure
    from sightline.planning.search import plan
    from sightline.prediction.roofline_table import roofline
    from sightline.profile import Profile
    from sightline.progress import Progress
    from sightline.reproduction.reproduce import reproduce
    from sightline.requirements.check import Checked, check
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
        Serve,
        ServingScenario,
    )
    from sightline.simulation.capacity import Capacity
    from sightline.validation.evaluation import validate
    from sightline.watching.watch import watch
else:
    __getattr__, __dir__ = names_on_demand(
        __name__,
        {
            "sightline.anchors.corrected": "anchored find_capacity predict sensitivity simulate",
            "sightline.errors": "InputError SightlineError",
            "sightline.explanation.answer": "Explanation",
            "sightline.explanation.comparison": "Comparison compare",
            "sightline.explanation.explain": "explain",
            "sightline.exploration.run": "explore",
            "sightline.loading": "load",
            "sightline.measurement.measure": "measure",
            "sightline.planning.search": "plan",
            "sightline.prediction.roofline_table": "roofline",
            "sightline.profile": "Profile",
            "sightline.progress": "Progress",
            "sightline.requirements.check": "Checked check",
            "sightline.reproduction.reproduce": "reproduce",
            "sightline.scenario": "Cluster Device Finetune Generate GenerationPlan GenerationScenario Model "
            "OperatorScenario Plan Pretrain Scenario Serve ServingScenario",
            "sightline.simulation.capacity": "Capacity",
            "sightline.validation.evaluation": "validate",
            "sightline.watching.watch": "watch",
        },
    )

__version__ = "0.1.0"

__all__ = [
    "Capacity",
    "Checked",
    "Cluster",
    "Comparison",
    "Device",
    "Explanation",
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
    "Progress",
    "Scenario",
    "Serve",
    "ServingScenario",
    "SightlineError",
    "anchored",
    "check",
    "compare",
    "explain",
    "explore",
    "find_capacity",
    "load",
    "measure",
    "plan",
    "predict",
    "reproduce",
    "roofline",
    "sensitivity",
    "simulate",
    "validate",
    "watch",
]


def _show_in_notebooks() -> None:
    """Register how a shell of IPython, if this code runs in one, shows answers."""
    if (ipython := sys.modules.get("IPython")) is not None and (shell := ipython.get_ipython()) is not None:
        from sightline.notebook import load_ipython_extension

        load_ipython_extension(shell)


_show_in_notebooks()

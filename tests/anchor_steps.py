"""Steps that tests of anchors predict, and the same as if they had been measured."""

from dataclasses import replace
from typing import Any

from training_scenarios import training

import sightline as sl
from sightline.scenario import Scenario


def steps(**plan: Any) -> Scenario:
    """Steps of one model on one cluster, under a plan."""
    settings = {"framework": "deepspeed", "zero_stage": 2, "micro_batch": 2} | plan
    return training(model="llama-2-7b", cluster="8x a800-sxm-80gb", sequence_length=350, global_batch=16, plan=settings)


def measured(scenario: Scenario, factor: float = 1.0, **others: Any) -> Scenario:
    """The scenario as if it took ``factor`` times as long as predicted."""
    return replace(scenario, measured={"step_time_s": sl.predict(scenario).step_time_s * factor} | others, name="own")

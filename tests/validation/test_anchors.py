"""What own steps are worth, on steps that were made with known constants."""

import numpy as np
import pytest
from anchor_trials import anchored_errors
from training_scenarios import training

from sightline.calibration.training_constants import estimate
from sightline.prediction.anchoring.timed import MeasuredStep
from sightline.prediction.training.constants import base_constants
from sightline.validation.left_out import SourceStep


def _steps(source, slower):
    """Steps of three models, all slower by a factor, with a little noise."""
    random = np.random.default_rng(1)
    found = []
    for model, micro_batch in (("gpt-1.3b", 1), ("gpt-1.3b", 2), ("llama-2-7b", 1), ("llama-2-7b", 2)):
        scenario = training(
            model=model,
            cluster="1x a100-sxm-80gb",
            global_batch=4,
            plan={"framework": "fsdp", "micro_batch": micro_batch},
        )
        step = MeasuredStep(scenario=scenario, seconds=1.0, site=source)
        seconds = float(step.seconds_with(base_constants(scenario))) * slower * float(np.exp(random.normal(0, 0.01)))
        own = MeasuredStep(scenario=scenario, seconds=seconds, site=source)
        found.append(SourceStep(suite=source, source=source, split="fit", step=own))
    return found


@pytest.fixture(scope="module")
def steps():
    return [*_steps("even", 1.0), *_steps("slow", 1.25)]


@pytest.fixture(scope="module")
def found(steps):
    return estimate([step.step for step in steps])


@pytest.mark.parametrize("anchors", [1, 3])
def test_an_anchor_of_a_slow_source_corrects_its_other_steps(steps, found, anchors):
    slow = next(one for one in anchored_errors(steps, found, anchors=anchors) if one.source == "slow")
    assert slow.unanchored > 0.12
    assert slow.best_factor < 0.03
    assert slow.anchored < (0.5 if anchors == 1 else 0.35) * slow.unanchored


def test_only_steps_of_the_same_model_and_cluster_are_predicted_where_asked(steps, found):
    slow = next(one for one in anchored_errors(steps, found, alike=True) if one.source == "slow")
    assert slow.anchored < 0.05


def test_the_same_anchors_are_chosen_every_time(steps, found):
    first, again = (list(anchored_errors(steps, found, anchors=3)) for _ in range(2))
    assert first == again

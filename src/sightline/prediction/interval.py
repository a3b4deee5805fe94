"""How far a measurement may lie from a prediction: 80 % intervals from the residuals of the fit behind it."""

from math import exp

from sightline.prediction.framework_constants import TrainingConstants, load_training, training_family
from sightline.profile import Profile
from sightline.scenario import Scenario

LONGER = ("step_time_s", "run_time_s", "cost_usd")
"""Results that grow with the step."""
SHORTER = ("tokens_per_s", "tokens_per_s_per_device", "model_flops_per_s_per_device", "mfu", "hfu")
"""Results that fall with it."""


def spread_of(scenario: Scenario, constants: TrainingConstants | None = None) -> float:
    """Logarithmic half-width of the interval: that of the constants' set."""
    if constants is None:
        framework = scenario.plan.framework
        family = training_family(scenario.cluster.device, framework.name)
        constants, _ = load_training(family, framework.name, framework.version)
    return constants.spread


def intervals(profile: Profile, spread: float) -> dict[str, tuple[float, float]]:
    """Return the interval of each result that follows from the step's time; none where the spread is unknown.

    Symmetric in the logarithm: an error of a factor is as likely up as down. Left out: that some operators and some
    plans are known better than others.
    """
    if spread <= 0:
        return {}
    factor = exp(spread)
    values = {key: getattr(profile, key) for key in (*LONGER, *SHORTER)}
    return {key: (float(v) / factor, float(v) * factor) for key, v in values.items() if v is not None}

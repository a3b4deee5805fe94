"""80 % intervals of a generation's results, from the residuals of the engine's fit."""

from math import exp

from sightline.prediction.engine_constants import InferenceConstants
from sightline.profile import Profile


def generation_intervals(profile: Profile, constants: InferenceConstants) -> dict[str, tuple[float, float]]:
    """Return the interval of each result; none where the spreads are unknown.

    Symmetric in the logarithm. The latency joins both spreads by their shares of it; they add up, because the same
    operators and constants err in both.
    """
    scenario = profile.scenario
    pools = scenario.plan.disaggregate is not None
    first = constants.ttft_spread
    step = constants.step_spread(scenario.model.name, scenario.cluster.device.name, pools=pools)
    if first <= 0 or step <= 0:
        return {}
    share = float(profile.ttft_s) / float(profile.latency_s)
    whole = share * first + (1.0 - share) * step
    rate = step if profile.scenario.workload.continuous else whole
    spreads = {"ttft_s": first, "tpot_s": step, "latency_s": whole, "output_tokens_per_s": rate}
    return {key: _around(float(getattr(profile, key)), spread) for key, spread in spreads.items()}


def _around(value: float, spread: float) -> tuple[float, float]:
    return value / exp(spread), value * exp(spread)

"""What a measured training step comes to: rates of its tokens and FLOPs, and the interval of a median time."""

from collections.abc import Sequence
from math import ceil, sqrt
from statistics import NormalDist
from typing import Any, Protocol

from sightline.quantities import COVERAGE


class PredictedWork(Protocol):
    """The prediction of the same scenario, for the FLOPs of its work."""

    @property
    def scenario(self) -> Any:
        """With the tokens of a step and the devices."""
        ...

    @property
    def step_time_s(self) -> Any:
        """Predicted."""
        ...

    @property
    def mfu(self) -> Any:
        """Predicted."""
        ...

    @property
    def hfu(self) -> Any:
        """Predicted."""
        ...

    @property
    def model_flops(self) -> Any:
        """Of a step on all devices."""
        ...


def measured_rates(
    predicted: PredictedWork, step_time_s: float, *, tokens: float | None = None, devices: float | None = None
) -> dict[str, float]:
    """Return the rates of a measured step, by result key.

    Utilization is the predicted one times predicted over measured seconds, so both divide by the same peak. FLOPs are
    those of the scenario in proportion to the tokens: longer sequences cost a little more than that.

    Args:
        predicted: The prediction of the scenario.
        step_time_s: Measured seconds of a step.
        tokens: Tokens of a step on all devices; None for the scenario's.
        devices: Devices that ran it; None for the scenario's.
    """
    asked_tokens, asked_devices = float(predicted.scenario.workload.tokens_per_step), predicted.scenario.cluster.devices
    tokens, devices = tokens or asked_tokens, devices or asked_devices
    work = tokens / asked_tokens
    faster = float(predicted.step_time_s) / step_time_s * work * asked_devices / devices
    return {
        "tokens_per_s": tokens / step_time_s,
        "tokens_per_s_per_device": tokens / step_time_s / devices,
        "model_flops_per_s_per_device": float(predicted.model_flops) * work / step_time_s / devices,
        "mfu": float(predicted.mfu) * faster,
        "hfu": float(predicted.hfu) * faster,
    }


def median_interval(samples: Sequence[float]) -> tuple[float, float]:
    """Return the 80 % interval of the median by ranks: order statistics n/2 -+ z sqrt(n)/2 (Conover 1999, 3.2).

    Assumes independent samples of one distribution, whatever its form.
    """
    ordered, n = sorted(samples), len(samples)
    reach = NormalDist().inv_cdf(0.5 + COVERAGE / 2) * sqrt(n) / 2
    low, high = ceil(n / 2 - reach), ceil(n / 2 + reach)
    return ordered[max(low, 1) - 1], ordered[min(high, n) - 1]

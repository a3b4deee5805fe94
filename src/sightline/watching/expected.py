"""What a job is expected to do: its scenario, and the prediction of it that measured steps are held against."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sightline.errors import InputError
from sightline.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Expected:
    """The prediction of a job's step."""

    scenario: Scenario
    """Resolved, its micro-batch included."""
    step_time_s: float
    interval: tuple[float, float]
    """80 % interval of the step time."""
    mfu: float
    hfu: float
    model_flops: float
    hardware_flops: float
    memory_bytes: float
    usable_bytes: float

    @property
    def tokens(self) -> float:
        """Tokens of a step on all devices."""
        return float(self.scenario.workload.tokens_per_step)

    @property
    def devices(self) -> int:
        """Devices of the scenario."""
        return int(self.scenario.cluster.devices)

    @property
    def half_width(self) -> float:
        """By how much of itself the predicted step time may be too small, in the 80 % interval."""
        return self.interval[1] / self.step_time_s - 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return the result keys that a watch keeps of the prediction."""
        return {
            "step_time_s": self.step_time_s,
            "interval": {"step_time_s": list(self.interval)},
            "tokens_per_s": self.tokens / self.step_time_s,
            "mfu": self.mfu,
            "memory_bytes": {"total": self.memory_bytes},
            "usable_bytes": self.usable_bytes,
            "devices": self.devices,
        }


def scenario_of(source: object) -> Scenario:
    """Return the training scenario that a file, a mapping or a scenario is.

    Raises:
        InputError: It cannot be read, stands for several scenarios, or is of another task.
    """
    if not isinstance(source, Scenario):
        from sightline.loading import load

        source = load(source)
    if isinstance(source, list):
        raise InputError(f"the file has {len(source)} scenarios; a watch needs one: sl.watch(sl.load(FILE)[0])")
    if not isinstance(source, Scenario):
        task = getattr(getattr(source, "workload", None), "task", type(source).__name__)
        raise InputError(f"workload.task is {task}; allowed: pretrain, finetune")
    return source


def expected_of(scenario: Scenario) -> Expected:
    """Predict a scenario.

    Raises:
        InputError: It cannot be predicted.
    """
    from sightline.prediction import predict

    profile = predict(scenario)
    step_s = float(profile.step_time_s)
    low, high = profile.interval.get("step_time_s", (step_s, step_s))
    names = ("mfu", "hfu", "model_flops", "hardware_flops", "usable_bytes")
    return Expected(
        scenario=profile.scenario,
        step_time_s=step_s,
        interval=(float(low), float(step_s if high is None else high)),
        memory_bytes=float(profile.memory_bytes["total"]),
        **{name: float(getattr(profile, name)) for name in names},
    )


def as_mapping(scenario: Scenario) -> Mapping[str, Any]:
    """Return a scenario with the keys of a scenario file, without what somebody measured before."""
    from sightline.loading import to_mapping

    return {key: value for key, value in to_mapping(scenario).items() if key != "measured"}

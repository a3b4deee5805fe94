"""What somebody measured of a scenario, as far as it teaches about times: seconds of a step, a pass or a token."""

from collections.abc import Mapping
from typing import Any, Generic, TypeAlias, TypeVar

from sightline.content import description
from sightline.prediction.training.constants import TrainingConstants
from sightline.prediction.training.step_profile import step_of
from sightline.prediction.training.step_rows import model_flops
from sightline.quantities import Number
from sightline.scenario import GenerationScenario, OperatorScenario, Scenario
from sightline.scenario.precision import rate_dtype

Answered: TypeAlias = Scenario | GenerationScenario
Answered_co = TypeVar("Answered_co", bound=Answered, covariant=True)
STEP_RATES = ("tokens_per_s", "tokens_per_s_per_device", "model_flops_per_s_per_device", "mfu")
"""Results of training that say how long a step takes."""
TIMES = {
    "training": ("step_time_s", *STEP_RATES, "forward_pass_s"),
    "generation": ("ttft_s", "tpot_s", "latency_s", "output_tokens_per_s"),
}
"""Results that an anchor may have, by task."""
WITHOUT_TIME = ("source", "fits", "interval")
"""Keys that nobody expects to teach anything."""


def ran_out_of_memory(measured: Mapping[str, Any]) -> bool:
    """Return whether what was measured is that memory ran out: it says so, or has a source and no figure."""
    return measured.get("fits") is False or measured.keys() == {"source"}


@description
class Timed(Generic[Answered_co]):
    """Seconds that somebody measured of a scenario."""

    scenario: Answered_co
    seconds: float
    quantity: str = "step_time_s"
    """Result key: step_time_s, forward_pass_s, ttft_s, tpot_s or latency_s."""
    name: str = ""
    """What the measurement is called in sentences."""
    sensitivity: float = 1.0
    """How its logarithm moves with that of all that the plan does; far above 1 where requests wait in a queue."""


@description
class MeasuredStep(Timed[Scenario]):
    """A training step that somebody timed."""

    site: str = ""
    """The series of measurements that it is of; empty for a user's own."""

    def seconds_with(self, constants: TrainingConstants) -> Number:
        """Return the predicted seconds with these constants."""
        return seconds_of(self.scenario, self.quantity, constants)


def seconds_of(scenario: Scenario, quantity: str, constants: TrainingConstants) -> Number:
    """Return the seconds of a result of a step, whose micro-batch is known, with these constants."""
    seconds: Number = getattr(step_of(scenario, constants), quantity)
    return seconds


def task_name(scenario: Answered | OperatorScenario) -> str:
    """Return training, generation or operator."""
    if isinstance(scenario, OperatorScenario):
        return "operator"
    return "training" if isinstance(scenario, Scenario) else "generation"


def timed_of(scenario: Answered, measured: Mapping[str, Any], name: str) -> list[Timed[Any]]:
    """Return the times that were measured: several only where none follows from the others."""
    single = {key: _typical(value) for key, value in measured.items()}
    if isinstance(scenario, Scenario):
        steps = {key: float(seconds) for key, seconds in _step_times(scenario, single).items() if seconds}
        return [MeasuredStep(scenario=scenario, quantity=key, seconds=of, name=name) for key, of in steps.items()]
    tokens = {key: float(seconds) for key, seconds in _token_times(scenario, single).items() if seconds}
    return [Timed(scenario=scenario, quantity=key, seconds=of, name=name) for key, of in tokens.items()]


def _typical(value: Any) -> Any:
    """The mean of a time that was measured as a mapping, else its median; None where it has neither."""
    return value.get("mean", value.get("p50")) if isinstance(value, Mapping) else value


def unused_keys(scenario: Answered, measured: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the measured keys that teach nothing about times."""
    return tuple(key for key in measured if key not in (*TIMES[task_name(scenario)], *WITHOUT_TIME))


def _step_times(scenario: Scenario, measured: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds of a step, from the first key that says them, and of a forward pass."""
    known = next((key for key in ("step_time_s", *STEP_RATES) if measured.get(key)), None)
    step = {} if known is None else {"step_time_s": step_seconds(scenario, known, measured[known])}
    return step | {key: measured[key] for key in ("forward_pass_s",) if measured.get(key)}


def step_seconds(scenario: Scenario, key: str, value: float) -> Number:
    """Return the seconds of a training step of which one result is known."""
    devices = scenario.cluster.devices
    match key:
        case "step_time_s":
            return value
        case "tokens_per_s":
            return scenario.workload.tokens_per_step / value
        case "tokens_per_s_per_device":
            return scenario.workload.tokens_per_step / (value * devices)
        case "mfu":
            peak = scenario.cluster.device.peak_flops[rate_dtype(scenario.plan.dtype)]
            return model_flops(scenario) / (value * devices * peak)
    return model_flops(scenario) / (value * devices)


def _token_times(scenario: GenerationScenario, measured: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds to the first token and per further token; of the whole batch where the latter is not known."""
    times = {key: measured[key] for key in ("ttft_s", "tpot_s") if measured.get(key)}
    if "tpot_s" in times:
        return times
    latency, further = measured.get("latency_s"), scenario.workload.output_tokens - 1
    if latency:
        rest = latency - times.get("ttft_s", latency)
        return times | ({"tpot_s": rest / further} if rest > 0 and further > 0 else {"latency_s": latency})
    work, rate = scenario.workload, measured.get("output_tokens_per_s")
    return times | ({"latency_s": work.batch * work.output_tokens / rate} if rate else {})

"""What a watched job comes to: the result keys of a measured run."""

import platform
import sys
from collections.abc import Mapping
from typing import Any

from sightline.profile.results import measured_rates, median_interval
from sightline.watching import machine
from sightline.watching.expected import Expected, as_mapping, expected_of
from sightline.watching.observer import Observer
from sightline.watching.replanning import scenario_now
from sightline.watching.screen import tokens_of
from sightline.watching.steps import Window, window_of


def finish(observer: Observer, name: str, error: BaseException | None) -> None:
    """End the run of a watch whose observer has stopped.

    Args:
        observer: With a stream.
        name: Of the run; empty for the scenario's.
        error: Of the job, if any.
    """
    stream = observer.stream
    if stream is None:
        return
    status, reason = status_of(error)
    result, scenario = result_of(observer)
    named = {"name": name or scenario.get("name") or stream.name, "environment": environment()}
    stream.finish(status=status, reason=reason, result=result, scenario=scenario, **named)


def result_of(observer: Observer) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Return the result keys of the steps since the last change, and the scenario that ran them; empty without steps.

    After fewer devices or longer sequences the scenario is the one of then, so that the run can anchor others.
    """
    steps = list(observer.detector.steady) or list(observer.last_steps)
    expected = _expected_now(observer)
    asked = {} if expected is None else as_mapping(expected.scenario)
    if not steps:
        return {}, asked
    window = window_of(steps)
    low, high = median_interval([step.time_s for step in steps])
    seconds = window.step_time_s
    result: dict[str, Any] = {
        "source": "measured",
        "fits": True,
        "step_time_s": seconds,
        "interval": {"step_time_s": [low, high]},
        "measurement": {
            "implementation": "watched job",
            "steps": window.steps,
            "spread_s": dict(zip(("p10", "p90"), window.spread_s, strict=True)),
            "input_wait_s": window.wait_s,
            "parts": dict(window.parts),
        },
        "warnings": [departure.sentence for departure in observer.departures],
    }
    if (held := machine.memory_bytes()[0]) is not None:
        result["memory_bytes"] = {"total": held}
    return result | _rates(observer, window, expected, (low, high)), asked


def _rates(observer: Observer, window: Window, expected: Expected | None, ends: tuple[float, float]) -> dict[str, Any]:
    """Rates of tokens and FLOPs; without a scenario only those of tokens, as far as the job tells."""
    devices, seconds = observer.devices, window.step_time_s
    tokens = tokens_of(window, observer.expected, devices, observer.detector.sequence_length)
    if not tokens or not seconds:
        return {}
    interval = {"step_time_s": list(ends), "tokens_per_s": [tokens / ends[1], tokens / ends[0]]}
    if expected is None:
        rates = {"tokens_per_s": tokens / seconds, "tokens_per_s_per_device": tokens / seconds / (devices or 1)}
        return {"interval": interval, **rates}
    return {
        "interval": interval,
        **measured_rates(expected, seconds, tokens=tokens, devices=devices),
        "model_flops": expected.model_flops,
        "hardware_flops": expected.hardware_flops,
        "evidence": {"step": "measured"},
    }


def _expected_now(observer: Observer) -> Expected | None:
    """The prediction of the scenario as it is at the end."""
    expected, detector = observer.expected, observer.detector
    if expected is None:
        return None
    scenario = expected.scenario
    now = scenario_now(scenario, devices=detector.devices, sequence_length=detector.sequence_length)
    return expected if now is scenario else expected_of(now)


def status_of(error: BaseException | None) -> tuple[str, str]:
    """Return the status of a run that ended with an error of the job, or without one, and its reason."""
    if error is None:
        return "ok", ""
    said = " ".join(str(error).split())
    reason = f"{type(error).__name__}: {said}" if said else type(error).__name__
    if isinstance(error, KeyboardInterrupt | SystemExit):
        return "interrupted", reason
    return ("out_of_memory" if "out of memory" in said.lower() else "crashed"), reason


def environment() -> dict[str, Any]:
    """Return what is known of where the job ran, without asking the machine for long."""
    torch = sys.modules.get("torch")
    named = ("torch", "transformers", "accelerate", "peft", "deepspeed")
    libraries = {name: str(getattr(sys.modules.get(name), "__version__", "")) for name in named}
    found: dict[str, Any] = {
        "host": platform.node(),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "libraries": {name: version for name, version in libraries.items() if version},
        "processes": machine.world_size() or 1,
    }
    cuda = getattr(torch, "cuda", None)
    if cuda is not None and cuda.is_initialized():
        properties = [cuda.get_device_properties(at) for at in range(cuda.device_count())]
        found["gpus"] = [{"name": each.name, "memory_bytes": float(each.total_memory)} for each in properties]
    return found

"""What a watched job comes to: the result keys of a measured run."""

import platform
import sys
from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

from sightline.quantities import FOUR_IN_FIVE
from sightline.watching import machine
from sightline.watching.expected import Expected, as_mapping, expected_of
from sightline.watching.observer import Observer
from sightline.watching.situation import scenario_now
from sightline.watching.steps import window_of


def result_of(observer: Observer) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Return the result keys of the steps since the last change, and the scenario that ran them; empty without steps.

    After fewer devices or longer sequences the scenario is the one of then, so that the run can anchor others.
    """
    steps = list(observer.judge.steady) or list(observer.last_steps)
    expected = _expected_now(observer)
    asked = {} if expected is None else as_mapping(expected.scenario)
    if not steps:
        return {}, asked
    window = window_of(steps)
    low, high = _interval([step.time_s for step in steps])
    tokens, seconds = observer.tokens(window), window.step_time_s
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
    if tokens:
        devices = observer.devices or (1 if expected is None else expected.devices)
        result |= {"tokens_per_s": tokens / seconds, "tokens_per_s_per_device": tokens / seconds / devices}
        result["interval"]["tokens_per_s"] = [tokens / high, tokens / low]
    return result | ({} if expected is None else _rates(expected, seconds)), asked


def _rates(expected: Expected, seconds: float) -> dict[str, Any]:
    ratio = expected.step_time_s / seconds
    return {
        "mfu": expected.mfu * ratio,
        "hfu": expected.hfu * ratio,
        "model_flops": expected.model_flops,
        "hardware_flops": expected.hardware_flops,
        "model_flops_per_s_per_device": expected.model_flops / seconds / expected.devices,
        "evidence": {"step": "measured"},
    }


def _expected_now(observer: Observer) -> Expected | None:
    """The prediction of the scenario as it is at the end."""
    expected, judge = observer.expected, observer.judge
    if expected is None:
        return None
    scenario = expected.scenario
    now = scenario_now(scenario, devices=judge.devices, sequence_length=judge.sequence_length)
    return expected if now is scenario else expected_of(now)


def _interval(times: Sequence[float]) -> tuple[float, float]:
    """80 % interval of a median, between order statistics (a binomial number of steps lies below the median)."""
    ordered, count = sorted(times), len(times)
    apart = FOUR_IN_FIVE * sqrt(count) / 2.0
    first, last = max(int(count / 2 - apart) - 1, 0), min(int(count / 2 + apart + 1.0), count - 1)
    return ordered[first], ordered[last]


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

"""The quantities that suites measure, taken out of a predicted profile."""

from collections.abc import Callable
from typing import Any

from sightline.profile import Profile


def layer_activation_bytes(profile: Profile) -> float:
    """Return the bytes of activations the layers of the first pipeline stage keep, without embedding and loss."""
    return float(profile.stages[0].items["layer activations"])


def all_devices_bytes(profile: Profile) -> float:
    """Return the memory of all devices together, each taken to be as full as the fullest."""
    return float(profile.memory_bytes["total"] * profile.scenario.cluster.devices)


def allocated_bytes(profile: Profile) -> float:
    """Return the fullest device's memory without what is taken beside tensors, as a framework's allocator counts it."""
    return float(profile.memory_bytes["total"] - profile.memory_bytes["framework"])


def _attribute(name: str) -> Callable[[Any], float]:
    """Return what reads a result that every profile of generation has under its own name."""
    return lambda profile: float(getattr(profile, name))


QUANTITIES: dict[str, Callable[[Any], float]] = {
    "step_time_s": lambda profile: float(profile.step_time_s),
    "tokens_per_s_per_device": lambda profile: float(profile.tokens_per_s_per_device),
    "model_flops_per_s_per_device": lambda profile: float(profile.model_flops_per_s_per_device),
    "tokens_per_s": lambda profile: float(profile.tokens_per_s),
    "layer_activation_bytes": layer_activation_bytes,
    "relative_layer_activations": layer_activation_bytes,
    "all_devices_bytes": all_devices_bytes,
    "allocated_bytes": allocated_bytes,
    **{name: _attribute(name) for name in ("ttft_s", "tpot_s", "latency_s", "output_tokens_per_s")},
}
"""By the name a suite's ``quantity`` key gives; a relative one is divided by that of the case's baseline."""

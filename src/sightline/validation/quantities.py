"""The quantities that suites measure, taken out of a predicted profile."""

from collections.abc import Callable, Mapping
from typing import Any

from sightline.prediction.training.memory import RESERVED
from sightline.profile import BETWEEN_PASSES, Profile, StageMemory


def layer_activation_bytes(profile: Profile) -> float:
    """Return the bytes of activations the layers of the first pipeline stage keep, without embedding and loss."""
    return float(profile.stages[0].items["layer activations"])


def all_devices_bytes(profile: Profile) -> float:
    """Return the memory of all devices together, each taken to be as full as the fullest."""
    return float(profile.memory_bytes["total"] * profile.scenario.cluster.devices)


def allocated_bytes(profile: Profile) -> float:
    """Return the fullest device's memory without what is taken beside tensors, as a framework's allocator counts it."""
    return float(profile.memory_bytes["total"] - profile.memory_bytes["framework"])


def reserved_bytes(profile: Profile) -> float:
    """Return what the allocator of the fullest device reserves: also gaps and blocks that no tensor uses any more."""
    return max(float(stage.total - stage.parts["framework"] + stage.items[RESERVED]) for stage in profile.stages)


PASSES = ("loss", "backward of a layer")
"""Moments of forward and backward passes."""


def state_bytes(stage: StageMemory) -> float:
    """Return what a stage's allocator holds between two passes: weights, gradients, optimizer, lasting buffers."""
    return float(stage.moments[BETWEEN_PASSES] - stage.parts["framework"])


def kept_bytes(stage: StageMemory) -> float:
    """Return what a stage keeps from a step's forward passes for its backward passes."""
    return float(stage.items["layer activations"] + stage.items["embedding and head activations"])


def rise_bytes(stage: StageMemory) -> float:
    """Return how far a stage's memory rises in forward and backward passes above what it holds after them."""
    passes = max(float(stage.moments[name]) for name in PASSES)
    return passes - float(stage.moments[BETWEEN_PASSES])


QUANTITIES: Mapping[str, Callable[[Profile], float]] = {
    "layer_activation_bytes": layer_activation_bytes,
    "relative_layer_activations": layer_activation_bytes,
    "all_devices_bytes": all_devices_bytes,
    "allocated_bytes": allocated_bytes,
    "reserved_bytes": reserved_bytes,
}
"""Those that no profile has under its own name; a relative one is divided by that of the case's baseline."""

OF_A_STAGE: dict[str, Callable[[StageMemory], float]] = {
    "state_bytes": state_bytes,
    "kept_bytes": kept_bytes,
    "rise_bytes": rise_bytes,
}
"""Quantities of one pipeline stage."""


def quantity_of(name: str, profile: Any, stage: int = 0) -> float:
    """Return a quantity of a profile, of that pipeline stage where it is one stage's, by a suite's ``quantity``."""
    if name in OF_A_STAGE:
        return OF_A_STAGE[name](profile.stages[stage])
    return QUANTITIES[name](profile) if name in QUANTITIES else float(getattr(profile, name))

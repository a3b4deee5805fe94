"""The quantities that suites measure, taken out of a predicted profile."""

from collections.abc import Callable

from sightline.profile import Profile


def layer_activation_bytes(profile: Profile) -> float:
    """Return the bytes of activations the layers of the first pipeline stage keep, without embedding and loss."""
    return float(profile.stages[0].items["layer activations"])


QUANTITIES: dict[str, Callable[[Profile], float]] = {
    "step_time_s": lambda profile: float(profile.step_time_s),
    "tokens_per_s": lambda profile: float(profile.tokens_per_s),
    "layer_activation_bytes": layer_activation_bytes,
    "relative_layer_activations": layer_activation_bytes,
}
"""By the name a suite's ``quantity`` key gives; a relative one is divided by that of the case's baseline."""

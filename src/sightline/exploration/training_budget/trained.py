"""The best model that some devices can train in some time: its size by a law of the loss, its speed by a prediction.

A model of a size is Llama-like with the proportions of its size. How fast the devices train it is the best plan found
for it, so that the share of peak they reach is that of this model on these devices.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log, log2
from typing import Any

from sightline import catalog
from sightline.exploration.answer import View
from sightline.exploration.fastest import fastest_if_any
from sightline.exploration.training_budget.laws import FLOPS_PER_PARAMETER_AND_TOKEN, Law
from sightline.exploration.views import in_view
from sightline.profile import Profile
from sightline.progress import Progress
from sightline.quantities import FLOPS, parse_quantity

SEQUENCE_LENGTH = 4096
VOCABULARY = 128256
"""Tokens of Llama 3's vocabulary."""
HEAD = 128
KEY_VALUE_HEADS = 8
WIDTH_OVER_DEPTH = 128
"""Hidden size over layers: 128 of Llama 7B and Llama 3 8B, 130 of Llama 3.1 405B."""
HIDDEN_STEP = 1024
"""Hidden sizes are multiples of this: eight heads, which tensor parallelism of 8 can split."""
BATCH_SCALE, BATCH_EXPONENT = 0.2920, 0.3271
"""Tokens of the best batch are ``BATCH_SCALE`` C^``BATCH_EXPONENT`` (arXiv 2401.02954, equation 1)."""
ASSUMED_MFU: Mapping[View, float] = {"calibrated": 0.45, "ideal": 0.85}
"""With which the search for a size begins."""
CLOSE = 0.15
"""Sizes whose logarithms differ by this at most are as good: the loss differs in its fourth digit."""
PLAN: Mapping[str, Any] = {
    "framework": "megatron",
    "dtype": "bf16",
    "tensor_parallel": {"any": [1, 2, 4, 8]},
    "pipeline_parallel": {"any": [1, 2, 4, 8, 16, 32, 64]},
    "context_parallel": 1,
    "micro_batch": {"any": [1, 2, 4]},
    "zero_stage": 1,
    "sequence_parallel": True,
    "schedule": {"any": ["1f1b", "interleaved"]},
    "recompute": {"any": ["none", "selective", "full"]},
    "attention": "flash",
    "offload": "none",
}
"""What is searched for every model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rented:
    """Devices that train for a time."""

    device: str
    count: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trained:
    """A model, what it is trained on, and the prediction of its training."""

    parameters: float
    tokens: float
    profile: Profile
    """Of the best plan."""
    seconds: float

    @property
    def flops(self) -> float:
        """6 N D."""
        return FLOPS_PER_PARAMETER_AND_TOKEN * self.parameters * self.tokens

    @property
    def steps(self) -> float:
        """Steps of the training."""
        return self.seconds / float(self.profile.step_time_s)


def best_trained(base: Mapping[str, Any], view: View, rented: Rented, law: Law, progress: Progress) -> Trained | None:
    """Return the model of least loss that devices can train in their time; None where no plan for it fits them.

    The size is the law's best for 6 N D, where D are the tokens that the devices train in the time, as predicted for a
    first size; where the best then is another one by more than `CLOSE`, that one is predicted too.

    Raises:
        Cancelled: somebody asked to stop.
    """
    peak = parse_quantity(catalog.entry("devices", rented.device)["peak_flops"]["bf16"], FLOPS)
    flops = ASSUMED_MFU[view] * peak * rented.count * rented.seconds
    found = _trained(base, view, rented, float(law.best_parameters(flops)), flops, progress)
    if found is None:
        return None
    best = float(law.best_parameters(found.flops))
    if abs(log(best / found.parameters)) > CLOSE:
        return _trained(base, view, rented, best, found.flops, progress) or found
    return found


def _trained(
    base: Mapping[str, Any], view: View, rented: Rented, parameters: float, flops: float, progress: Progress
) -> Trained | None:
    """A model of about these parameters, trained for the time by the best plan for it."""
    scenario = {
        **base,
        "model": shape_of(parameters),
        "cluster": f"{rented.count}x {rented.device}",
        "workload": {**base["workload"], "global_batch": batch_of(flops)},
    }
    profile = fastest_if_any(in_view(scenario, view), None, progress)
    if profile is None:
        return None
    return Trained(
        parameters=float(profile.scenario.model.parameters),
        tokens=float(profile.tokens_per_s) * rented.seconds,
        profile=profile,
        seconds=rented.seconds,
    )


def shape_of(parameters: float) -> dict[str, Any]:
    """Return the config of a Llama-like model with about so many parameters, embedding and head counted."""
    per_depth = 12.0 / WIDTH_OVER_DEPTH
    hidden = HIDDEN_STEP * max(round((parameters / per_depth) ** (1 / 3) / HIDDEN_STEP), 1)
    width = 256 * round(8 * hidden / 3 / 256)
    per_layer = 2 * hidden**2 + 2 * hidden * HEAD * KEY_VALUE_HEADS + 3 * hidden * width
    return {
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": width,
        "num_hidden_layers": max(round((parameters - 2 * VOCABULARY * hidden) / per_layer), 1),
        "num_attention_heads": hidden // HEAD,
        "num_key_value_heads": KEY_VALUE_HEADS,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": SEQUENCE_LENGTH,
        "tie_word_embeddings": False,
    }


def batch_of(flops: float) -> int:
    """Return the samples of the best batch, as the nearest power of two."""
    return 1 << max(round(log2(BATCH_SCALE * flops**BATCH_EXPONENT / SEQUENCE_LENGTH)), 3)

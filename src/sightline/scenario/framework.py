"""What a training framework keeps in memory, fuses, overlaps and offers, as its catalog entry says."""

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBytes:
    """Bytes per parameter of the model states in mixed precision (ZeRO, arXiv 1910.02054)."""

    weights: float
    gradients: float
    optimizer: float
    """Master weights and moments together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """A framework's habits. Whatever is offered lists the allowed values of the plan's field of that name."""

    name: str
    version: str = ""
    states: StateBytes
    gradient_reduce_bytes: float
    """Bytes per gradient element that data parallelism moves."""
    fused: frozenset[str]
    """Element-wise chains run as one kernel: bias-activation, bias-dropout-add, softmax, norm, rope, cross-entropy, adam."""
    loss_bytes_per_logit: float
    """Live bytes per logit while the loss runs: 16-bit logits, fp32 copy, gradient (8 to 10 in eager PyTorch)."""
    overlaps_gradients: bool
    """Gradient reduction runs beside the backward pass."""
    overlaps_parameters: bool
    """Parameter gathers run beside compute."""
    overlaps_pipeline: bool
    """Stage-to-stage transfers run beside compute."""
    reduces_every_micro_batch: bool
    """ZeRO-2 reduces gradients after every backward pass instead of once per step."""
    offers: dict[str, tuple[str | int, ...]] = field(default_factory=dict)
    defaults: dict[str, object] = field(default_factory=dict)
    """Values of plan fields that a scenario leaves out."""


RecomputeKind = Literal["none", "selective", "full"]

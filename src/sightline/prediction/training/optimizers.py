"""Optimizers beside the framework's own AdamW: what they keep per parameter and what their update moves.

Moments are AdamW's two unless said otherwise: one for SGD with momentum and for the matrices of Muon (arXiv 2502.16982),
none for plain SGD, two of one byte with a scale per block of 256 for 8-bit AdamW (arXiv 2110.02861).
"""

from dataclasses import replace

from sightline.frameworks import StateBytes
from sightline.scenario import Framework

EIGHT_BIT_MOMENTS = 2.0 * (1.0 + 4.0 / 256.0)
"""Bytes per parameter of two blockwise quantized moments with their fp32 scales (bitsandbytes)."""


def moment_bytes(states: StateBytes, optimizer: str, *, matrix: bool = False) -> float:
    """Bytes per parameter that ``optimizer`` keeps beside master weights; ``matrix``: of a layer's matrices."""
    two = states.optimizer - states.master
    match optimizer:
        case "sgd":
            return 0.0
        case "sgd-momentum":
            return two / 2.0
        case "muon" if matrix:
            return two / 2.0
        case "adamw-8bit":
            return min(two, EIGHT_BIT_MOMENTS)
        case _:
            return two


def states_under(states: StateBytes, optimizer: str, *, matrix: bool = False) -> StateBytes:
    """Return the bytes of AdamW's ``states`` as they are under another optimizer."""
    total = states.master + moment_bytes(states, optimizer, matrix=matrix)
    return states if total == states.optimizer else replace(states, optimizer=total)


def update_traffic(framework: Framework, dtype: str, optimizer: str, *, matrix: bool = False) -> float:
    """Bytes per parameter that clipping and update move.

    Each moment that is kept is read and written. ``adamw`` is the framework's own implementation; a fused one is no
    slower than that, separate kernels no faster. Left out: the products of Muon, which are operators.
    """
    own, states = framework.kernels.optimizer_traffic, framework.states_in(dtype)
    match optimizer:
        case "adamw":
            return own
        case "adamw-fused":
            return min(own, _clipping(states) + _fused(states))
        case "adamw-unfused":
            return max(own, _clipping(states) + _separate(states))
        case _:
            two = states.optimizer - states.master
            return own - 2.0 * (two - moment_bytes(states, optimizer, matrix=matrix))


def update_copies(framework: Framework, dtype: str, optimizer: str) -> float:
    """Tensors as large as all trained weights that live while the optimizer steps: separate kernels keep a square root."""
    states = framework.states_in(dtype)
    root = (states.optimizer - states.master) / 2.0 / states.weights
    match optimizer:
        case "adamw-unfused":
            return max(framework.memory.update_copies, root)
        case "adamw-fused" | "adamw-8bit":
            return 0.0
        case _:
            return framework.memory.update_copies


def _clipping(states: StateBytes) -> float:
    """The gradient is read for its norm and scaled in place."""
    return 3.0 * states.gradients


def _fused(states: StateBytes) -> float:
    """One kernel: gradient in, weight and moments in and out, a narrow copy of master weights out."""
    weight = states.master or states.weights
    narrow = states.weights if states.master else 0.0
    return states.gradients + 2.0 * weight + 2.0 * (states.optimizer - states.master) + narrow


def _separate(states: StateBytes) -> float:
    """PyTorch's kernels over lists of tensors (``foreach``): decay, both moments, root, division, addition, weight.

    Passes over the weight 4, the first moment 3, the second 5, the root 6, the gradient 2.
    """
    weight, moment = states.master or states.weights, (states.optimizer - states.master) / 2.0
    narrow = states.weights if states.master else 0.0
    return 4.0 * weight + 14.0 * moment + 2.0 * states.gradients + narrow

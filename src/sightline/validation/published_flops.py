"""How sources count the FLOPs behind a published TFLOP/s, to get back to the time they measured.

Symbols as in arXiv 2104.04473: B global batch, s sequence length, h hidden size, L layers, V vocabulary.
"""


def with_recomputation(*, B: int, s: int, h: int, L: int, V: int) -> float:  # noqa: N803 - the symbols of the papers
    """Return FLOPs of a step with full recomputation: 96 B s L h^2 (1 + s/(6h) + V/(16 L h)).

    arXiv 2104.04473 equation 3, for f = 4h; attention unmasked, logits not recomputed. Leaves out everything that is
    not a matrix multiplication.
    """
    return 96 * B * s * L * h**2 * (1 + s / (6 * h) + V / (16 * L * h))


def model_flops(*, B: int, s: int, h: int, L: int, V: int) -> float:  # noqa: N803 - the symbols of the papers
    """Return the model FLOPs of a step: 72 B s L h^2 (1 + s/(6h) + V/(12 L h)).

    What Megatron-Core prints (its ``num_floating_point_operations``), for f = 4h and as many key as query heads;
    attention unmasked, no recomputation. Leaves out everything that is not a matrix multiplication.
    """
    return 72 * B * s * L * h**2 * (1 + s / (6 * h) + V / (12 * L * h))


FORMULAS = {"with-recomputation": with_recomputation, "model": model_flops}
"""By the name a suite's ``flops`` key gives."""

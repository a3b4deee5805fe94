"""Embedding and head: what comes before the first layer and after the last."""

from sightline.program.kernels import Kernels
from sightline.program.step import Step


def embedding(x: Kernels) -> list[Step]:
    """Return the steps from tokens to the first layer's input."""
    return x.embed()


def head(x: Kernels) -> list[Step]:
    """Return the steps from the last layer's output to the loss, or to the next tokens."""
    return [*x.final_norm(), *x.logits(), *x.choose()]

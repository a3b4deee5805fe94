"""Context parallelism of mixers that see the sequence otherwise than block by block.

A state has to see the tokens one after the other, so a sequence cut over ranks is brought together before such a mixer
and cut again behind it: an all-to-all gives each rank all tokens of some heads, as Megatron-Core does around its Mamba
layers (DeepSpeed-Ulysses, arXiv 2309.14509). What all heads share, such as the latent vectors that an indexer chooses
from, is gathered, since any token may be chosen. Degree 1 adds nothing.
"""

import numpy as np

from sightline.program.address import Module, Part
from sightline.program.operators import Collective, CollectiveKind, Operator
from sightline.program.training_shapes import TrainingShapes
from sightline.quantities import Number


def exchange(x: TrainingShapes, module: Module, width: Number, part: Part) -> list[Operator]:
    """Return the all-to-all of ``width`` elements per token that turns pieces of sequences into shares of heads, or back."""
    return _collective(x, module, "all_to_all", x.element_bytes * x.tokens * width, part)


def gather_tokens(x: TrainingShapes, module: Module, width: Number, *, backward: bool) -> list[Operator]:
    """Return the gathering of ``width`` elements of every token of the sequences, or the summing of their gradients."""
    kind: CollectiveKind = "reduce_scatter" if backward else "all_gather"
    return _collective(x, module, kind, x.element_bytes * x.b * x.context * width, "shared keys")


def _collective(x: TrainingShapes, module: Module, kind: CollectiveKind, size: Number, part: Part) -> list[Operator]:
    many = np.asarray(x.c) > 1
    if not np.any(many):
        return []
    # What follows needs all of it.
    return [
        Collective(
            module=module,
            part=part,
            kind=kind,
            ranks="context",
            beside="nothing",
            buffer_bytes=size,
            count=many * 1.0,
        )
    ]

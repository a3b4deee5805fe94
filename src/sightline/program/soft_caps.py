"""Soft caps (Gemma 2, arXiv 2408.00118): scores and logits pass through ``cap * tanh(x / cap)``.

Unfused that is a division, a tanh, whose output is kept, and a product, each in and out. Fused attention kernels cap scores
on the way: left out is the tanh in these, which takes no bytes, and caps in passes of inference, of few logits. A model
without caps has none of it.
"""

from sightline.program.address import Module, Part
from sightline.program.operators import Elementwise, Operator
from sightline.program.shapes import Shapes
from sightline.quantities import Number


def capped_scores(x: Shapes, module: Module, elements: Number, *, backward: bool) -> list[Operator]:
    """Return the cap on ``elements`` scores of eager attention, or its gradient."""
    return [_cap(x, module, "capped scores", elements, backward=backward)] if x.model.score_cap else []


def capped_logits(x: Shapes, elements: Number, *, backward: bool) -> list[Operator]:
    """Return the cap on ``elements`` logits, or its gradient."""
    return [_cap(x, "head", "capped logits", elements, backward=backward)] if x.model.logit_cap else []


def _cap(x: Shapes, module: Module, part: Part, elements: Number, *, backward: bool) -> Elementwise:
    tensor = x.element_bytes * elements
    return Elementwise(
        module=module,
        part=part,
        direction="backward" if backward else "forward",
        traffic_bytes=(7.0 if backward else 6.0) * tensor,
        kernels=3.0,
        saved_bytes=0.0 if backward else tensor,
        elements=elements,
    )

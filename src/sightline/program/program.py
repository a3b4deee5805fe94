"""A program: operators by block kind, written once per kind and not per layer."""

from collections.abc import Sequence
from dataclasses import dataclass

from sightline.program.operators import Operator
from sightline.quantities import Number


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Block:
    """One block kind (embedding, decoder layer, head): what one micro-batch executes on one device."""

    name: str
    forward: Sequence[Operator]
    backward: Sequence[Operator]
    recomputed: Sequence[Operator] = ()
    """Operators of ``forward`` (the same objects) that run again before the backward pass."""
    checkpoint_bytes: Number = 0.0
    """The block's input, kept when the whole block is recomputed."""
    whole: bool = False
    """The whole block is recomputed: nothing inside is kept, its working set lives while its backward runs."""
    logits: Number = 0.0
    """Logits that one micro-batch makes on one device (the head alone)."""
    transient_bytes: Number = 0.0
    """Gradients of the block's widest activation, which live for a moment of its backward pass."""
    boundary_bytes: Number = 0.0
    """Bytes of the activation that leaves the block for all tokens."""
    parameters: Number = 0.0
    """Parameters on one device (after tensor parallelism, before ZeRO)."""

    @property
    def saved_bytes(self) -> Number:
        """Bytes one micro-batch keeps from this block's forward until its backward pass."""
        if self.whole:
            return self.checkpoint_bytes
        again = {id(op) for op in self.recomputed}
        return sum((op.count * op.saved_bytes for op in self.forward if id(op) not in again), 0.0)

    @property
    def working_bytes(self) -> Number:
        """Further bytes that live while the block's backward runs: what recomputation brings back."""
        brought_back = self.forward if self.whole else self.recomputed
        return sum((op.count * op.saved_bytes for op in brought_back), 0.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Program:
    """A training micro-batch on one device: three block kinds, of which the layer repeats."""

    embedding: Block
    layer: Block
    head: Block
    layers: int

    @property
    def blocks(self) -> tuple[Block, Block, Block]:
        """The block kinds in order of execution."""
        return (self.embedding, self.layer, self.head)

"""A program: operators by block kind, written once per kind and not per layer."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from sightline.program.operators import Operator
from sightline.quantities import Number


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NarrowWeights:
    """What copies of matmul weights in few bits change on one device, in bytes; those of routed experts apart."""

    kept_bytes: Number = 0.0
    """Added to the weights; negative where they take the place of wider ones."""
    expert_kept_bytes: Number = 0.0
    gathered_bytes: Number = 0.0
    """Added to what replicas gather."""
    expert_gathered_bytes: Number = 0.0
    cast_bytes: Number = 0.0
    """Traffic of making them anew after an update."""

    def __mul__(self, share: Number) -> "NarrowWeights":
        return NarrowWeights(**{field.name: getattr(self, field.name) * share for field in fields(self)})


NO_NARROW_WEIGHTS = NarrowWeights()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Block:
    """One block kind (embedding, decoder layer, head): what one pass executes on one device.

    An inference pass has forward operators alone.
    """

    name: str
    count: int = 1
    """Layers of this kind in the model."""
    leading: bool = False
    """They come before all other layers."""
    forward: Sequence[Operator]
    backward: Sequence[Operator] = ()
    recomputed: Sequence[Operator] = ()
    """Operators that run again before the backward pass: those of ``forward``, or parts of them."""
    recomputed_share: Number = 1.0
    """Share of the layers of this kind that recompute."""
    recomputed_together: Number = 1.0
    """Layers that run again one after the other from one kept input."""
    freed_bytes: Number = 0.0
    """Bytes that a layer does not keep because they come back, averaged over the layers that run again together."""
    update: Sequence[Operator] = ()
    """Operators of the optimizer's step, once per step."""
    logits: Number = 0.0
    """Logits that one micro-batch makes on one device (the head alone)."""
    transient_bytes: Number = 0.0
    """Gradients of the block's widest activation, which live for a moment of its backward pass."""
    boundary_bytes: Number = 0.0
    """Bytes of the activation that leaves the block for all tokens."""
    parameters: Number = 0.0
    """Parameters on one device (after tensor parallelism, before ZeRO), adapters aside."""
    expert_parameters: Number = 0.0
    """Those of them that belong to routed experts, of which other ranks hold copies than of the rest."""
    matrix_parameters: Number = 0.0
    """Those that the optimizer treats as matrices (Muon); 0 where it makes no difference."""
    frozen_parameters: Number = 0.0
    """Those of the parameters that get no gradient."""
    quantized_parameters: Number = 0.0
    """Those of the frozen ones that are kept in few bits."""
    quantized_bytes: float = 0.0
    """Bytes that each of these takes with its scales."""
    narrow: NarrowWeights = NO_NARROW_WEIGHTS
    adapter_parameters: Number = 0.0
    copied_parameters: Number = 0.0
    """Copies of frozen modules that are trained whole beside adapters."""

    @property
    def operators(self) -> Sequence[Operator]:
        """Every operator once, parts that run again and those of the update included."""
        if not self.backward:
            return self.forward
        found = {id(op): op for op in (*self.forward, *self.recomputed, *self.backward, *self.update)}
        return list(found.values())

    @property
    def own_trained_parameters(self) -> Number:
        """Parameters of the model itself that get gradients."""
        return self.parameters - self.frozen_parameters

    @property
    def trained_parameters(self) -> Number:
        """All that gets gradients: the model's own, adapters, copies."""
        return self.own_trained_parameters + self.adapter_parameters + self.copied_parameters

    @property
    def trained_expert_parameters(self) -> Number:
        """Parameters of routed experts that get gradients."""
        return self.expert_parameters * (np.asarray(self.frozen_parameters) < self.expert_parameters)

    def frozen_bytes(self, element_bytes: float) -> Number:
        """Bytes of the weights that get no gradient, where those not quantized take ``element_bytes`` each."""
        wide = self.frozen_parameters - self.quantized_parameters
        return wide * element_bytes + self.quantized_parameters * self.quantized_bytes

    def stored_bytes(self, element_bytes: float) -> Number:
        """Bytes of all weights as the passes read them, where those not quantized take ``element_bytes`` each."""
        wide = self.parameters - self.quantized_parameters + self.adapter_parameters + self.copied_parameters
        narrower = self.narrow.gathered_bytes + self.narrow.expert_gathered_bytes
        return wide * element_bytes + self.quantized_parameters * self.quantized_bytes + narrower

    @property
    def saved_bytes(self) -> Number:
        """Bytes one micro-batch keeps from this block's forward until its backward pass."""
        kept = sum(op.count * op.saved_bytes for op in self.forward)
        return kept - self.recomputed_share * self.freed_bytes

    @property
    def working_bytes(self) -> Number:
        """Further bytes that live while the block's backward runs: what recomputation brings back."""
        return self.freed_bytes * self.recomputed_together


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Program:
    """A micro-batch of training, or a batch of inference, on one device: block kinds, of which those of ``layers`` repeat."""

    embedding: Block
    layers: tuple[Block, ...]
    head: Block

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The block kinds in order of execution."""
        return (self.embedding, *self.layers, self.head)

    @property
    def operators(self) -> Sequence[Operator]:
        """The operators of all blocks, each once."""
        return [op for block in self.blocks for op in block.operators]

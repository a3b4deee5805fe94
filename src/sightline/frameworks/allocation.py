"""What a framework's memory holds beside model states and the tensors that operators save."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """Behavior that decides what is alive at the fullest moment of a step. The defaults change nothing."""

    kept_bytes_per_logit: float = 0.0
    """Bytes per logit that the loss keeps from the forward to the backward pass."""
    frees_gradients: bool = False
    """Gradients are freed after the update and come back as the backward pass makes them."""
    wraps_ends: bool = False
    """Embedding and head are units of their own, gathered only while they run."""
    keeps_stage_outputs: bool = False
    """What a pipeline stage has sent on stays in memory until its backward pass."""
    copies_context: bool = False
    """With several sequences the output of the attention kernel is copied into the layout of the projection after it."""
    gathers_into_buffer: bool = False
    """What sequence parallelism gathers lies in one buffer that is never freed."""
    whole_vocabulary: bool = False
    """Tensor-parallel ranks hold embedding and head whole and share out the tokens instead."""
    split_loss_bytes_per_logit: float = 0.0
    """Live bytes per logit of a loss whose vocabulary tensor-parallel ranks share out, where it is not that of a whole one
    (torch.distributed.tensor.parallel.loss)."""
    collects_outputs: bool = False
    """A pipeline has buffers of its own to receive every micro-batch's activations and gradients in, and its last stage
    keeps the logits of all to hand them back (torch.distributed.pipelining)."""
    apart_streams: bool = False
    """Parameters are gathered and gradients reduced on streams whose memory the caching allocator lends to no other
    (FSDP2)."""
    workspace_bytes: float = 0.0
    """Workspaces of libraries that the allocator counts, always there."""
    workspace_bytes_per_layer: float = 0.0
    """The same for every layer, such as tables of rotary angles."""


PLAIN_ALLOCATION = Allocation()
"""Nothing but model states and what operators save."""

"""What llama.cpp alone does: layers split over devices, weights unpacked by its own kernels, scores written to memory."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaCpp:
    """Behavior of ggml's backends; the defaults change nothing."""

    pipelines_chunks: bool = False
    """The pieces of a prompt follow each other through the stages that hold layers each, all of them at work."""
    joined_kernels: float = 0.0
    """Kernels of a layer that the program joins to others, but that the host launches one by one: they count where the
    queue of launches is what fills up."""
    copies_over_host: bool = False
    """Devices that hold layers each hand a prompt's activations over through the host's memory, not from peer to peer."""
    writes_scores: bool = False
    """Attention is a product, a softmax and a product, with the scores in memory between them."""
    context_granule: float = 0.0
    """Tokens that the context is rounded up to where scores are written to memory; 0 where it is not."""
    expands_weights: bool = False
    """Products of prompts run in the vendor's library, in 16 bits: quantized weights are written out before each, and
    results are widened after it; not on devices without matrix units."""
    product_columns: float = 0.0
    """On devices without matrix units products unpack quantized weights themselves, anew for every so many columns; 0
    where that costs nothing."""
    sums_in_fp16: bool = False
    """16-bit products are added up in 16 bits, which is faster on some devices (peak ``fp16-accumulate``)."""
    activation_bytes: float | None = None
    """Bytes of an activation between products; None means as many as the plan's type has."""
    stream_instructions: float = 0.0
    """Vector instructions per element that kernels between products move, where they may outlast the memory."""

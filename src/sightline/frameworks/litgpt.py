"""What LitGPT alone does: its own models, adapters and quantized layers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LitGpt:
    """Behavior of LitGPT's layers; the defaults change nothing."""

    joins_adapters: bool = False
    """Adapters of query, key and value projection run as one, whose update is padded with zeros."""
    keeps_joined_qkv: bool = False
    """Values stay a view of the joined projection's output, which keeps all of that alive."""
    quantized_keeps_inputs: bool = False
    """Matmuls with quantized weights save their inputs for the backward pass, which has no use for them (bitsandbytes up
    to 0.41)."""

"""The work written out: operators with shapes, block by block; FLOPs and bytes need no device."""

from sightline.program.operators import Collective, Elementwise, FlashAttention, Matmul, Operator
from sightline.program.program import Block, Program
from sightline.program.transformer import write_out

__all__ = [
    "Block",
    "Collective",
    "Elementwise",
    "FlashAttention",
    "Matmul",
    "Operator",
    "Program",
    "write_out",
]

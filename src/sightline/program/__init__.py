"""The work written out: operators with shapes, block by block; FLOPs and bytes need no device."""

from sightline.program.batch import Batch, SequenceGroup, decoding, prompts
from sightline.program.kernels import InferenceKernels, inference_kernels
from sightline.program.operators import (
    CachedAttention,
    Collective,
    Elementwise,
    FlashAttention,
    GroupedMatmul,
    Matmul,
    MatrixVector,
    Operator,
)
from sightline.program.program import Block, Program
from sightline.program.write import write, write_out

__all__ = [
    "Batch",
    "Block",
    "CachedAttention",
    "Collective",
    "Elementwise",
    "FlashAttention",
    "GroupedMatmul",
    "InferenceKernels",
    "Matmul",
    "MatrixVector",
    "Operator",
    "Program",
    "SequenceGroup",
    "decoding",
    "inference_kernels",
    "prompts",
    "write",
    "write_out",
]

"""The work written out: operators with shapes, block by block; FLOPs and bytes need no device."""

from sightline.program.batch import Batch, Group, decoding, prompts
from sightline.program.kernels import InferenceKernels, TrainingKernels, inference_kernels, training_kernels
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
    "Group",
    "GroupedMatmul",
    "InferenceKernels",
    "Matmul",
    "MatrixVector",
    "Operator",
    "Program",
    "TrainingKernels",
    "decoding",
    "inference_kernels",
    "prompts",
    "training_kernels",
    "write",
    "write_out",
]

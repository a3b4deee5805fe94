"""The work written out: operators with shapes, block by block; FLOPs and bytes need no device."""

from typing import TYPE_CHECKING

from sightline.on_demand import names_on_demand
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

if TYPE_CHECKING:
    from sightline.program.kernels import InferenceKernels, inference_kernels
    from sightline.program.routing import Batch, decoding, prompts
else:
    __getattr__, __dir__ = names_on_demand(
        __name__,
        {
            "sightline.program.routing": "Batch decoding prompts",
            "sightline.program.kernels.inference_kernels": "InferenceKernels inference_kernels",
        },
    )

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
    "decoding",
    "inference_kernels",
    "prompts",
    "write",
    "write_out",
]

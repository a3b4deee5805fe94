"""How the steps of a layer run: as a training framework's kernels, or as an inference engine's.

Both classes have the same methods, each of which returns a step or several. Blocks are written with either.
"""

from typing import TYPE_CHECKING, TypeAlias

from sightline.on_demand import names_on_demand
from sightline.program.kernels.training_kernels import TrainingKernels, training_kernels

if TYPE_CHECKING:
    from sightline.program.kernels.inference_kernels import InferenceKernels, inference_kernels
else:
    __getattr__, __dir__ = names_on_demand(
        __name__, {"sightline.program.kernels.inference_kernels": "InferenceKernels inference_kernels"}
    )

Kernels: TypeAlias = "TrainingKernels | InferenceKernels"

__all__ = ["InferenceKernels", "Kernels", "TrainingKernels", "inference_kernels", "training_kernels"]

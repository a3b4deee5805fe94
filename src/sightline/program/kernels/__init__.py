"""How the steps of a layer run: as a training framework's kernels, or as an inference engine's.

Both classes have the same methods, each of which returns a step or several. Blocks are written with either.
"""

from sightline.program.kernels.inference import InferenceKernels, inference_kernels
from sightline.program.kernels.training import TrainingKernels, training_kernels

Kernels = TrainingKernels | InferenceKernels

__all__ = ["InferenceKernels", "Kernels", "TrainingKernels", "inference_kernels", "training_kernels"]

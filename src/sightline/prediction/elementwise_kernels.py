"""What bandwidth-bound kernels move when each is one fused kernel, per element of the tensor they work on."""

from collections.abc import Mapping
from dataclasses import dataclass

from sightline.program.kernels.attention_core import RANDOM_ARITHMETIC, SOFTMAX_ARITHMETIC
from sightline.scenario.operation import ElementwiseName


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """Tensors read or written once, in the operator's dtype; other bytes; vector instructions where they count."""

    kind: str
    """Class of kernels in a device's element-wise calibration."""
    tensors: float
    other_bytes: float = 0.0
    arithmetic: float = 0.0
    kernels: float = 1.0

    def bytes_per_element(self, element_bytes: float) -> float:
        """Bytes moved per element."""
        return self.tensors * element_bytes + self.other_bytes


KERNELS: Mapping[ElementwiseName, Kernel] = {
    "copy": Kernel(kind="copy", tensors=2.0),
    "norm": Kernel(kind="norm", tensors=2.0),
    "activation": Kernel(kind="activation", tensors=2.0),
    "gated_activation": Kernel(kind="activation", tensors=3.0),
    "embedding": Kernel(kind="embedding", tensors=2.0),
    "rope": Kernel(kind="rope", tensors=2.0),
    "softmax": Kernel(kind="softmax", tensors=2.0, arithmetic=SOFTMAX_ARITHMETIC),
    # Logits are read for the maximum and sum, and again for the loss.
    "cross_entropy": Kernel(kind="softmax", tensors=2.0, kernels=2.0),
    # fp32 weight and two moments in and out; a 16-bit gradient in and weight out, or an fp32 gradient in.
    "adam": Kernel(kind="copy", tensors=0.0, other_bytes=28.0),
    # A byte of mask per element.
    "dropout": Kernel(kind="copy", tensors=2.0, other_bytes=1.0, arithmetic=RANDOM_ARITHMETIC),
    "residual": Kernel(kind="residual", tensors=3.0),
}
"""By operator; forward passes: an activation with one input, a gated one with two, an embedding of distinct tokens."""

"""What DeepSpeed alone does: the buckets and copies of its ZeRO optimizer."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroEngine:
    """Memory of DeepSpeed's engine on top of the model states; the defaults change nothing."""

    library_bytes: float = 0.0
    """Host memory of a process for the framework's own libraries, on top of PyTorch's; counts where that is the device's."""
    bucket_elements: float = 0.0
    """Gradients that ZeRO copies together before they are reduced; on a processor as much as is used of that is taken, on
    accelerators it is part of ``communication_buffer_bytes``."""
    copies_full_precision: bool = False
    """ZeRO's optimizer works on an fp32 copy of its part of the weights even where these are fp32 themselves."""

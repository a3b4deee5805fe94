"""What a compiler changes: runs of element-wise operators become one kernel each."""

from dataclasses import replace

from sightline.frameworks import Framework
from sightline.frameworks.framework import Fusion

LOSS = "cross-entropy"
COMPILED = frozenset({"norm", "rope", "softmax", "activation", "squared-relu", "bias-dropout-add", LOSS})
"""What TorchInductor fuses; matmuls, attention kernels and the adding up of gradients stay as they are."""
FUSED_LOSS_BYTES = 4.0
"""Bytes per logit of a fused loss: logits and their gradient in 16 bits."""


def compiled(framework: Framework) -> Framework:
    """Return ``framework`` with its element-wise operators fused by a compiler, in whose graph a wait follows its collective.

    Left out: the time of compiling, and graph capture.
    """
    kernels = COMPILED - {"rope"} if framework.native.complex_rope else COMPILED
    native = replace(framework.native, waits_for_keys=True)
    if not framework.native.compiles_loss:
        return replace(framework, fusion=_fusing(framework, kernels - {LOSS}), native=native)
    split = min(framework.allocation.split_loss_bytes_per_logit, FUSED_LOSS_BYTES)
    loss = min(framework.memory.loss_bytes_per_logit, FUSED_LOSS_BYTES)
    return replace(
        framework,
        fusion=_fusing(framework, kernels),
        native=native,
        memory=replace(framework.memory, loss_bytes_per_logit=loss),
        allocation=replace(framework.allocation, split_loss_bytes_per_logit=split),
    )


def _fusing(framework: Framework, kernels: frozenset[str]) -> Fusion:
    return replace(framework.fusion, fused=framework.fusion.fused | kernels)

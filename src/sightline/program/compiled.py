"""What a compiler changes: chains of element-wise operators become one kernel each."""

from dataclasses import replace

from sightline.scenario import Framework

LOSS = "cross-entropy"
COMPILED = frozenset({"norm", "rope", "softmax", "activation", "squared-relu", "bias-dropout-add", LOSS})
"""Chains that TorchInductor fuses; matmuls, attention kernels and the adding up of gradients stay as they are."""
FUSED_LOSS_BYTES = 4.0
"""Bytes per logit of a fused loss: logits and their gradient in 16 bits."""


def compiled(framework: Framework) -> Framework:
    """Return ``framework`` with its chains fused by a compiler, in whose graph a wait follows its collective.

    Left out: the time of compiling, and graph capture.
    """
    chains = COMPILED - {"rope"} if framework.complex_rope else COMPILED
    if not framework.compiles_loss:
        return replace(framework, fused=framework.fused | chains - {LOSS}, waits_for_keys=True)
    split = min(framework.allocation.split_loss_bytes_per_logit, FUSED_LOSS_BYTES)
    return replace(
        framework,
        fused=framework.fused | chains,
        waits_for_keys=True,
        loss_bytes_per_logit=min(framework.loss_bytes_per_logit, FUSED_LOSS_BYTES),
        allocation=replace(framework.allocation, split_loss_bytes_per_logit=split),
    )

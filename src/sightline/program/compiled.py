"""What a compiler changes: chains of element-wise operators become one kernel each."""

from dataclasses import replace

from sightline.scenario import Framework

COMPILED = frozenset({"norm", "rope", "softmax", "activation", "bias-dropout-add", "cross-entropy"})
"""Chains that TorchInductor fuses; matmuls, attention kernels and the adding up of gradients stay as they are."""


def compiled(framework: Framework) -> Framework:
    """Return ``framework`` with its chains fused by a compiler. Left out: the time of compiling, and graph capture."""
    return replace(framework, fused=framework.fused | COMPILED)

"""The places that a step passes through, under the addresses of a prediction."""

from typing import NamedTuple


class Region(NamedTuple):
    """A part of a model or of a step, whatever the phase."""

    block: str
    module: str
    operator: str = "all"
    """Where one module is taken apart: logits and cross-entropy of the head."""


EMBEDDING = Region("embedding", "embedding")
ATTENTION_NORM = Region("layer", "attention norm")
QKV = Region("layer", "qkv")
ROPE = Region("layer", "rope")
CORE = Region("layer", "attention core")
OUTPUT = Region("layer", "output projection")
RESIDUAL = Region("layer", "residual")
MLP_NORM = Region("layer", "mlp norm")
MLP = Region("layer", "mlp")
EXPERTS = Region("layer", "experts")
ROUTER = Region("layer", "router")
SHARED_EXPERTS = Region("layer", "shared experts")
FINAL_NORM = Region("head", "final norm")
LOGITS = Region("head", "head", "logits")
LOSS = Region("head", "head", "cross-entropy")
UPDATE = Region("step", "optimizer", "update")
COLLECTIVES = Region("step", "data parallel", "gradients and parameters")
BETWEEN = Region("step", "host", "between phases")

STARTS = {
    "forward": EMBEDDING,
    "backward": LOSS,
    "optimizer": UPDATE,
    "communication_exposed": COLLECTIVES,
    "prefill": EMBEDDING,
    "decode": EMBEDDING,
}
"""Phases that can be announced, and where each of them begins."""


class Address(NamedTuple):
    """A region in a phase."""

    phase: str
    region: Region

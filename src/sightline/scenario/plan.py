"""How the work is laid out: parallelism, memory techniques, precision, framework."""

from dataclasses import dataclass, fields
from typing import Literal

from sightline.quantities import Count
from sightline.scenario.framework import Framework

Schedule = Literal["gpipe", "1f1b", "interleaved"]
Recompute = Literal["none", "selective", "full"]
AttentionKernel = Literal["flash", "eager"]

MESH_AXES = (
    "tensor_parallel",
    "pipeline_parallel",
    "micro_batch",
    "virtual_stages",
    "zero_stage",
    "sequence_parallel",
)
"""Numeric fields that a search lays out as an open mesh; the others choose which operators exist."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """A resolved plan: every field has a value, every degree may be an array that broadcasts with the others."""

    framework: Framework
    tensor_parallel: Count = 1
    pipeline_parallel: Count = 1
    data_parallel: Count = 1
    micro_batch: Count | None = None
    """Sequences per forward pass and data-parallel rank; None asks ``predict`` for the fastest that fits."""
    virtual_stages: Count = 1
    """Chunks of layers per pipeline stage; above 1 the schedule is interleaved."""
    zero_stage: Count = 0
    sequence_parallel: Count | bool = False
    """Activations between tensor-parallel regions are split along the sequence (arXiv 2205.05198)."""
    schedule: Schedule = "1f1b"
    recompute: Recompute = "none"
    attention: AttentionKernel = "flash"
    dtype: str = "bf16"
    optimizer: str = "adamw"

    @property
    def sequences(self) -> Count:
        """The micro-batch, once it is known."""
        if self.micro_batch is None:
            raise ValueError("the micro-batch is still open")
        return self.micro_batch

    def to_dict(self) -> dict[str, object]:
        """The plan's fields by name, the framework by its name and version."""
        out: dict[str, object] = {f.name: getattr(self, f.name) for f in fields(self)}
        out["framework"] = self.framework.name
        if self.framework.version:
            out["framework_version"] = self.framework.version
        return out

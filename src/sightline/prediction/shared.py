"""What replicas hold alike and may share out: routed experts have replicas of their own, fewer than everything else."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sightline.quantities import Number
from sightline.scenario import Plan


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """Bytes or parameters on one device before ZeRO."""

    common: Number
    experts: Number
    """Those of routed experts, which each expert-parallel rank has some of."""

    def __mul__(self, factor: Number) -> "Shared":
        return Shared(self.common * factor, self.experts * factor)

    def __add__(self, other: "Shared") -> "Shared":
        return Shared(self.common + other.common, self.experts + other.experts)

    @property
    def total(self) -> Number:
        """Both together."""
        return self.common + self.experts

    def shared(self, plan: Plan, among_replicas: Any) -> Number:
        """What a device keeps where ``among_replicas`` says that replicas, or the ranks of a copy, share it out."""
        common = self.common * np.where(among_replicas, 1.0 / plan.shards, 1.0)
        return common + self.experts * np.where(among_replicas, 1.0 / plan.expert_shards, 1.0)

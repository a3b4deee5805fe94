"""The question: a model on a cluster, a workload, a plan - and, for published results, what somebody measured."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sightline.quantities import Number, rounded_up
from sightline.scenario.cluster import Cluster
from sightline.scenario.model import Model
from sightline.scenario.plan import Plan
from sightline.scenario.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scenario:
    """One fully resolved question."""

    model: Model
    cluster: Cluster
    workload: Workload
    plan: Plan
    name: str = ""
    measured: Mapping[str, object] = field(default_factory=dict)
    """Measured values under the result keys, with ``source``."""
    warnings: tuple[str, ...] = ()
    """Remarks of loading that do not stop the prediction (a sequence beyond the trained context)."""

    @property
    def micro_batches(self) -> Number:
        """Micro-batches of a step on one replica."""
        return rounded_up(self.workload.global_batch / (self.plan.data_parallel * self.plan.sequences))

"""A group of equal devices among unlike ones, seen as the whole cluster: what all functions of a step price."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sightline.cost.clock import at_its_clock
from sightline.prediction.training.constants import TrainingConstants
from sightline.prediction.training.memory.ledger import StageLedger, stage_ledgers
from sightline.prediction.training.offload import as_kept
from sightline.prediction.training.priced import Priced, price
from sightline.prediction.training.step import StepTimes
from sightline.quantities import Number
from sightline.scenario import Cluster, Scenario

ConstantsOf = Callable[[Scenario], TrainingConstants]
"""The framework's constants on the devices of a scenario of equal ones."""


def seen_as_whole(cluster: Cluster, group: Cluster) -> Cluster:
    """Return the cluster as if all its devices were those of a group, and its nodes the group's."""
    return replace(group, devices=cluster.devices, name=cluster.name)


def seen_from(scenario: Scenario, group: Cluster) -> Scenario:
    """Return the scenario as if all devices were those of a group."""
    return replace(scenario, cluster=seen_as_whole(scenario.cluster, group))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupStep:
    """A step on one group's devices: its own stages, or its own replicas with their share of the batch."""

    group: Cluster
    priced: Priced
    times: StepTimes
    ledgers: Sequence[StageLedger]

    @property
    def scenario(self) -> Scenario:
        """The scenario seen from the group."""
        return self.priced.scenario

    @property
    def step_time_s(self) -> Number:
        """Seconds of the step, as far as this group goes."""
        return self.times.step_time_s


def priced_groups(scenario: Scenario, constants_of: ConstantsOf) -> list[Priced]:
    """Return the micro-batch priced on the devices of each group."""
    seen = [seen_from(scenario, group) for group in scenario.cluster.parts]
    return [price(at_its_clock(as_kept(one)), constants_of(one)) for one in seen]


def group_step(group: Cluster, priced: Priced, times: StepTimes, held: Sequence[Number] | None = None) -> GroupStep:
    """Return a group's step with its memory; ``held`` are the micro-batches in flight on stages that are stated."""
    return GroupStep(group=group, priced=priced, times=times, ledgers=stage_ledgers(priced, times, held))

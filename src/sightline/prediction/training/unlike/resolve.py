"""What a plan leaves open over unlike devices: how the groups split the work, layers, shares of the batch, micro-batch.

Every choice is the fastest prediction that fits; where none fits, the one that needs the least share of a memory.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from sightline.errors import InputError
from sightline.prediction.training.unlike.groups import ConstantsOf, GroupStep
from sightline.prediction.training.unlike.pipeline import best_layers, pipeline_steps
from sightline.prediction.training.unlike.replicas import best_batches, replica_steps
from sightline.scenario import Cluster, Scenario
from sightline.scenario.plan import Split
from sightline.scenario.rules import breaks_no_rule


class Resolved(NamedTuple):
    """A scenario with nothing open, and the step of each of its groups."""

    scenario: Scenario
    steps: list[GroupStep]

    @property
    def step_time_s(self) -> float:
        """The slowest group's."""
        return max(float(step.step_time_s) for step in self.steps)

    @property
    def fullness(self) -> float:
        """The largest share of a device's memory that is needed, of any group."""
        return max(fullness(step) for step in self.steps)


def fullness(step: GroupStep) -> float:
    """Return the share of its memory that the fullest device of a group needs."""
    most = max(float(ledger.memory.total) for ledger in step.ledgers)
    return most / float(step.group.device.memory_bytes)


def resolved(scenario: Scenario, constants_of: ConstantsOf) -> list[Resolved]:
    """Return the scenario with all that it leaves open chosen, the best first, then the best of the other split.

    Raises:
        InputError: no micro-batch divides the batch.
    """
    found = [_of_split(replace_plan(scenario, split=split), constants_of) for split in possible_splits(scenario)]
    answers = [one for one in found if one is not None]
    if not answers:
        raise InputError(f"workload.global_batch: {scenario.workload.global_batch} has no whole micro-batches for all "
                         "replicas of the unlike devices")  # fmt: skip
    return sorted(answers, key=_rank)


def _rank(one: Resolved) -> tuple[bool, float]:
    """What fits comes first, by its time; what does not by the memory it needs."""
    fits = one.fullness <= 1.0
    return not fits, one.step_time_s if fits else one.fullness


def possible_splits(scenario: Scenario) -> Iterator[Split | None]:
    """Yield the ways in which whole stages or whole replicas fall on each group; None on equal devices."""
    plan, cluster = scenario.plan, scenario.cluster
    if not cluster.groups or plan.split is not None:
        yield plan.split
        return
    ranks = int(plan.tensor_parallel * plan.context_parallel)
    stages, replicas = int(plan.pipeline_parallel), int(plan.data_parallel)
    if stages > 1 and plan.schedule != "dualpipe" and plan.group_batches is None and _whole(cluster, ranks * replicas):
        yield "pipeline"
    if plan.stage_layers is None and _whole(cluster, ranks * stages):
        yield "data"


def _whole(cluster: Cluster, devices: int) -> bool:
    return all(group.devices % devices == 0 for group in cluster.groups)


def replace_plan(scenario: Scenario, **fields: object) -> Scenario:
    """Return the scenario with other values of some fields of its plan."""
    return replace(scenario, plan=replace(scenario.plan, **fields))  # type: ignore[arg-type]


def _of_split(scenario: Scenario, constants_of: ConstantsOf) -> Resolved | None:
    """The best micro-batch under one split; None where no micro-batch is possible."""
    answers = []
    for sized in _sized(scenario):
        try:
            answers.append(_with_parts(sized, constants_of))
        except InputError:
            if scenario.plan.micro_batch is not None:
                raise
    return min(answers, key=_rank, default=None)


def _sized(scenario: Scenario) -> Iterable[Scenario]:
    """The scenario with each micro-batch that divides the batch, the stated one alone where there is one."""
    if scenario.plan.micro_batch is not None:
        return [scenario]
    share = int(scenario.workload.global_batch // scenario.plan.data_parallel)
    tried = (replace_plan(scenario, micro_batch=size) for size in range(1, share + 1))
    return (
        one for one in tried if scenario.workload.global_batch % int(one.plan.sequences) == 0 and breaks_no_rule(one)
    )


def _with_parts(scenario: Scenario, constants_of: ConstantsOf) -> Resolved:
    """The scenario with layers or shares chosen where they are open."""
    parts: Callable[[Scenario, ConstantsOf], list[GroupStep]] = pipeline_steps
    if scenario.plan.split == "data":
        parts = replica_steps
        if scenario.plan.group_batches is None:
            scenario = replace_plan(scenario, group_batches=best_batches(scenario, constants_of))
    elif scenario.plan.stage_layers is None:
        scenario = replace_plan(scenario, stage_layers=best_layers(scenario, constants_of))
    return Resolved(scenario, parts(scenario, constants_of))

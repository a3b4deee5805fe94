"""What a plan leaves open over unlike devices: how the groups split the work, layers, shares of the batch, micro-batch.

Every choice is the fastest prediction that fits; where none fits, the one that needs the least share of a memory.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import hypot
from typing import NamedTuple

from sightline.catalog import entry
from sightline.errors import InputError
from sightline.prediction.changes import what_would_fit
from sightline.prediction.common_figures import (
    ADD_YOUR_OWN,
    LONGER,
    energy_per_step_j,
    evidence_of_step,
    lower_bounds,
    weakest_evidence,
)
from sightline.prediction.training.constants import TrainingConstants
from sightline.prediction.training.heterogeneous import (
    ConstantsOf,
    GroupStep,
    best_batches,
    best_layers,
    pipeline_steps,
    places_of_stages,
    replica_steps,
    replicas_of_groups,
)
from sightline.prediction.training.knowledge import Knowledge
from sightline.prediction.training.memory import StageLedger, fullest_stage, step_intervals
from sightline.prediction.training.offload import fits_on_host
from sightline.prediction.training.step_rows import hardware_flops, levels_of, limits_of, model_flops, rows_of
from sightline.profile import Profile, StageMemory
from sightline.quantities import FOUR_IN_FIVE, Number, percent
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
    by_split = [_of_split(replace_plan(scenario, split=split), constants_of) for split in possible_splits(scenario)]
    answers = [answer for answer in by_split if answer is not None]
    if not answers:
        raise InputError(
            f"workload.global_batch {scenario.workload.global_batch} has no whole micro-batches for all replicas on "
            "heterogeneous devices"
        )
    return sorted(answers, key=_rank)


def _rank(answer: Resolved) -> tuple[bool, float]:
    """What fits comes first, by its time; what does not by the memory it needs."""
    fits = answer.fullness <= 1.0
    return not fits, answer.step_time_s if fits else answer.fullness


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
        sized
        for sized in tried
        if scenario.workload.global_batch % int(sized.plan.sequences) == 0 and breaks_no_rule(sized)
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


def split_sentences(answers: Sequence[Resolved]) -> Iterator[str]:
    """Yield how the best answer splits the work, and what the others would take; nothing on equal devices."""
    best, *others = answers
    if not best.scenario.cluster.groups:
        return
    yield from _of_replicas(best) if best.scenario.plan.split == "data" else _of_stages(best)
    for other in others:
        verdict = f"{other.step_time_s / best.step_time_s:.2f} x the time"
        if best.fullness <= 1.0 < other.fullness:
            verdict = "more memory than available"
        yield f"plan.split is {best.scenario.plan.split}: {other.scenario.plan.split} would take {verdict}"


def _of_stages(answer: Resolved) -> Iterator[str]:
    """The layers of each group's stages."""
    scenario = answer.scenario
    layers, stages = scenario.plan.stage_layers or (), int(scenario.plan.pipeline_parallel)
    places = places_of_stages(scenario.cluster, stages)
    for number, group in enumerate(scenario.cluster.groups):
        own = [place.position for place in places if place.group == number]
        counts = [layers[position] for position in own]
        first, last = own[0] + 1, own[-1] + 1
        called = f"stage {first}" if first == last else f"stages {first} to {last}"
        ends = (["the embedding"] if own[0] == 0 else []) + (["the head"] if own[-1] == stages - 1 else [])
        contents = f"{', '.join(map(str, counts))} layer{'s' if counts != [1] else ''}"
        yield f"{called} on {group.in_words}: {' and '.join([contents, *ends])}"


def _of_replicas(answer: Resolved) -> Iterator[str]:
    """The share of the batch of each group's replicas."""
    scenario = answer.scenario
    batches, size = scenario.plan.group_batches or (), int(scenario.plan.sequences)
    counts = replicas_of_groups(scenario)
    for group, batch, count, step in zip(scenario.cluster.groups, batches, counts, answer.steps, strict=True):
        steps = batch // (count * size)
        share = (
            f"{steps} micro-batch{'es' if steps > 1 else ''} of {size} "
            f"on each of {count} replica{'s' if count > 1 else ''}"
        )
        idle = 1.0 - float(step.step_time_s) / answer.step_time_s
        waits = f", idle {percent(idle)} of the step" if idle >= 0.005 else ""
        yield f"{group.in_words}: {batch} of {scenario.workload.global_batch} sequences, {share}{waits}"


Remarks = Callable[[Scenario, Sequence[StageMemory]], Sequence[str]]
"""Sentences about a scenario of equal devices and the memory of its stages."""
Interval = Mapping[str, tuple[float, float | None]]

NEVER_MEASURED = f"no published measurement of heterogeneous devices{ADD_YOUR_OWN}"


def unlike_profile(
    scenario: Scenario,
    constants: TrainingConstants | None,
    known: Knowledge,
    *,
    spread_of: Callable[[Scenario], float],
    remarks_of: Remarks,
) -> Profile:
    """Return the profile of a step whose groups differ.

    ``spread_of`` gives the logarithmic half-width of the interval of a scenario of equal devices.
    """
    answers = resolved(scenario, lambda seen: constants or known.constants(seen))
    best = answers[0]
    pace = max(best.steps, key=lambda step: float(step.step_time_s))
    fullest = max(best.steps, key=fullness)
    host_fits = all(map(_host_fits, best.steps))
    again = partial(unlike_profile, constants=constants, known=known, spread_of=spread_of, remarks_of=remarks_of)
    return Profile(
        scenario=best.scenario,
        source="predicted",
        step_time_s=pace.step_time_s,
        phases=lambda _: pace.times.phases,
        memory_bytes=fullest_stage(fullest.ledgers),
        usable_bytes=fullest.group.device.memory_bytes,
        fits=host_fits and fullness(fullest) <= 1.0,
        host_fits=host_fits,
        rows=lambda _: rows_of(pace.priced, pace.times),
        limits=lambda _: limits_of(pace.priced, pace.times),
        levels=lambda _: levels_of(pace.priced, pace.times),
        model_flops=lambda _: model_flops(best.scenario),
        hardware_flops=lambda _: hardware_flops(best.scenario, pace.priced.program),
        energy_per_step_j=lambda _: _energy_j(best),
        stages=_stages(best),
        stage_times=lambda _: _stage_times(best, pace),
        micro_batches=pace.times.micro_batches,
        forward_pass_s=best.steps[0].times.forward_pass_s,
        interval=lambda profile: _interval(profile, best.steps, constants, spread_of),
        evidence=lambda _: _evidence(best.steps, constants, known),
        missing=lambda _: _missing(best, constants, known),
        advice=lambda profile: what_would_fit(profile, lambda other: again(_opened(other, scenario))),
        warnings=lambda _: _warnings(answers, remarks_of),
    )


def _host_fits(step: GroupStep) -> bool:
    """Whether the memory of the hosts of a group's devices is enough."""
    return bool(fits_on_host([ledger.memory for ledger in step.ledgers], step.group))


def _energy_j(answer: Resolved) -> float:
    """Joules of all groups; those that wait for the slowest idle meanwhile."""
    whole_s, total_j = answer.step_time_s, 0.0
    for step in answer.steps:
        phases = dict(step.times.phases)
        phases["pipeline_bubble"] = phases["pipeline_bubble"] + (whole_s - float(step.step_time_s))
        total_j += float(energy_per_step_j(replace(step.scenario, cluster=step.group), phases))
    return total_j


def _stages(answer: Resolved) -> list[StageMemory]:
    """The ledgers of all groups' stages, each with the devices that hold it."""
    several = len(answer.steps) > 1

    def called(step: GroupStep, ledger: StageLedger) -> StageMemory:
        memory = ledger.memory
        return replace(memory, stage=f"{memory.stage} on {step.group.in_words}") if several else memory

    return [called(step, ledger) for step in answer.steps for ledger in step.ledgers]


def _stage_times(answer: Resolved, pace: GroupStep) -> Mapping[str, tuple[Number, Number, Number]]:
    """Seconds of a micro-batch by stage: of all stages in order, or of those of the slowest group's replicas."""
    if answer.scenario.plan.split == "data":
        return pace.times.slot_s
    return {name: seconds for step in answer.steps for name, seconds in step.times.slot_s.items()}


def _interval(
    profile: Profile,
    steps: Sequence[GroupStep],
    constants: TrainingConstants | None,
    spread_of: Callable[[Scenario], float],
) -> Interval:
    """The interval of each result: that of the least known group, wider because unlike devices were never measured."""
    if constants is None and profile.scenario.plan.framework.is_bound:
        return lower_bounds(profile, LONGER)
    spread = constants.spread if constants is not None else max(spread_of(step.scenario) for step in steps)
    if constants is None and len(steps) > 1:
        spread = hypot(spread, FOUR_IN_FIVE * float(entry("training", "constants")["beyond"]["devices"]))
    return step_intervals(profile, spread)


def _evidence(steps: Sequence[GroupStep], constants: TrainingConstants | None, known: Knowledge) -> dict[str, str]:
    """The weakest evidence of any group, by kind; a framework's constants were measured on equal devices alone."""
    by_group = [
        {
            **evidence_of_step(step.scenario, step.priced.device_model),
            "framework": "given" if constants else known.evidence(step.scenario),
        }
        for step in steps
    ]
    return weakest_evidence(by_group)


def _missing(answer: Resolved, constants: TrainingConstants | None, known: Knowledge) -> dict[str, str]:
    """What would have to be measured."""
    if constants is not None or answer.scenario.plan.framework.is_bound:
        return {}
    if len(answer.steps) == 1:
        return known.missing(answer.steps[0].scenario)
    return {"framework": NEVER_MEASURED}


def _warnings(answers: Sequence[Resolved], remarks_of: Remarks) -> tuple[str, ...]:
    """How the work is split, and what is to be said of each group."""
    best = answers[0]
    own = [
        sentence
        for step in best.steps
        for sentence in remarks_of(step.scenario, [ledger.memory for ledger in step.ledgers])
    ]
    return tuple(dict.fromkeys((*best.scenario.warnings, *split_sentences(answers), *own)))


def _opened(other: Scenario, request: Scenario) -> Scenario:
    """A changed scenario with what was chosen for the plan that was asked left open again."""
    open_again = ("split", "stage_layers", "group_batches")
    return replace_plan(other, **{name: getattr(request.plan, name) for name in open_again})

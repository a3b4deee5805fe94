"""The profile of a training step on unlike devices, or on stages whose layers the plan states.

Times, table and phases are those of the group that sets the pace, memory that of the device which is fullest for its
size; energy, FLOPs and rent are of all devices.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import hypot

from sightline.catalog import entry
from sightline.prediction.changes import what_would_fit
from sightline.prediction.evidence import evidence_of_step
from sightline.prediction.figures import LONGER, SHORTER, energy_per_step_j, intervals, lower_bounds
from sightline.prediction.training.constants import TrainingConstants
from sightline.prediction.training.flops import hardware_flops, model_flops
from sightline.prediction.training.knowledge import Knowledge, is_bound
from sightline.prediction.training.levels import levels_of
from sightline.prediction.training.memory.ledger import StageLedger, fullest_stage
from sightline.prediction.training.memory.spread import memory_interval
from sightline.prediction.training.offload import fits_on_host
from sightline.prediction.training.rows import limits_of, rows_of
from sightline.prediction.training.unlike.groups import GroupStep
from sightline.prediction.training.unlike.resolve import Resolved, fullness, replace_plan, resolved
from sightline.prediction.training.unlike.words import split_sentences
from sightline.profile import Profile, StageMemory
from sightline.quantities import FOUR_IN_FIVE, Number
from sightline.scenario import Scenario

Remarks = Callable[[Scenario, Sequence[StageMemory]], Sequence[str]]
"""Sentences about a scenario of equal devices and the memory of its stages."""
Interval = Mapping[str, tuple[float, float | None]]

EVIDENCE = ("datasheet", "estimated", "extrapolated", "calibrated", "given")
"""From the weakest on."""
NEVER_MEASURED = "no published step on unlike devices is known; calibrated needs one, or a run of your own"


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
    again = partial(unlike_profile, constants=constants, known=known, spread_of=spread_of, remarks_of=remarks_of)
    return Profile(
        scenario=best.scenario,
        source="predicted",
        step_time_s=pace.step_time_s,
        phases=lambda _: pace.times.phases,
        memory_bytes=fullest_stage(fullest.ledgers),
        usable_bytes=fullest.group.device.memory_bytes,
        fits=all(map(_fits, best.steps)),
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


def _fits(step: GroupStep) -> bool:
    """Whether the memory of a group's devices, and of their hosts, is enough."""
    stages = [ledger.memory for ledger in step.ledgers]
    return fullness(step) <= 1.0 and bool(fits_on_host(stages, step.group))


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
    if constants is None and is_bound(profile.scenario):
        return lower_bounds(profile, LONGER)
    spread = constants.spread if constants is not None else max(spread_of(step.scenario) for step in steps)
    if constants is None and len(steps) > 1:
        spread = hypot(spread, FOUR_IN_FIVE * float(entry("training", "constants")["beyond"]["devices"]))
    return {**intervals(profile, dict.fromkeys((*LONGER, *SHORTER), spread)), **memory_interval(profile)}


def _evidence(steps: Sequence[GroupStep], constants: TrainingConstants | None, known: Knowledge) -> dict[str, str]:
    """The weakest evidence of any group, by kind; a framework's constants were measured on equal devices alone."""
    found = [
        {
            **evidence_of_step(step.scenario, step.priced.device_model),
            "framework": "given" if constants else known.evidence(step.scenario),
        }
        for step in steps
    ]
    worst = {kind: min((one[kind] for one in found), key=EVIDENCE.index) for kind in found[0]}
    if worst["framework"] == "calibrated" and len(steps) > 1:
        worst["framework"] = "extrapolated"
    return worst


def _missing(answer: Resolved, constants: TrainingConstants | None, known: Knowledge) -> dict[str, str]:
    """What would have to be measured."""
    if constants is not None or is_bound(answer.scenario):
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


def _opened(other: Scenario, asked: Scenario) -> Scenario:
    """A changed scenario with what was chosen for the plan that was asked left open again."""
    open_again = ("split", "stage_layers", "group_batches")
    return replace_plan(other, **{name: getattr(asked.plan, name) for name in open_again})

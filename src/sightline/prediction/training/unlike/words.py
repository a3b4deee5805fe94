"""Sentences: how layers or the batch are split over unlike devices, and what another split would take."""

from collections.abc import Iterator, Sequence

from sightline.prediction.training.unlike.replicas import replicas_of_groups
from sightline.prediction.training.unlike.resolve import Resolved
from sightline.prediction.training.unlike.stages import places_of_stages
from sightline.quantities import percent


def split_sentences(answers: Sequence[Resolved]) -> Iterator[str]:
    """Yield how the best answer splits the work, and what the others would take; nothing on equal devices."""
    best, *others = answers
    if not best.scenario.cluster.groups:
        return
    yield from _of_replicas(best) if best.scenario.plan.split == "data" else _of_stages(best)
    for other in others:
        verdict = f"{other.step_time_s / best.step_time_s:.2f} x as long"
        if best.fullness <= 1.0 < other.fullness:
            verdict = "more memory than there is"
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
        held = f"{', '.join(map(str, counts))} layer{'s' if counts != [1] else ''}"
        yield f"{called} on {group.in_words}: {' and '.join([held, *ends])}"


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
        waits = f", which wait {percent(idle)} of the step" if idle >= 0.005 else ""
        yield f"{group.in_words}: {batch} of {scenario.workload.global_batch} sequences, {share}{waits}"

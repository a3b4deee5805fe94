"""A predicted step drawn out in time: the schedule played out, then what happens once per step."""

from collections.abc import Iterable
from dataclasses import replace

from sightline.prediction.schedules.closed_forms import stage_layers
from sightline.prediction.schedules.simulation import Span, StageSeconds, simulate
from sightline.prediction.training.stages import layers_to_spread
from sightline.profile import Profile
from sightline.scenario import Scenario

MOST_SPANS = 60_000
"""Spans up to which every micro-batch is drawn; beside their modules a viewer still scrolls through that many."""

OMITTED, HOST = "omitted", "host"
ONCE = {
    "data parallel": "gradient reduction",
    "embedding": "tied embedding",
    "samples": "waiting for longer samples",
    "devices": "waiting for the slowest device",
}
"""Kinds of the spans that stand for exposed collectives and waiting once per step, by module in the profile's table."""


def timeline(profile: Profile) -> list[Span]:
    """Return what every pipeline stage does in a predicted step, by stage and time; the last span ends with the step.

    The schedule is played out with each stage's own seconds; then follow, on all stages at once and at the length that
    shows in the step: gradient reduction, the tied table's gradients, optimizer, and the host's own time (that of each
    micro-batch is gathered there). A schedule of more than ``MOST_SPANS`` spans is played out with fewer micro-batches,
    and one span per stage stands for the others. The prediction takes a pipeline's length from a closed form, which
    differs from the schedule played out by up to some percent where stages differ: a schedule that ends earlier waits
    until then, a longer one is shortened in proportion. Left out: work hidden behind compute; a stage's embedding or
    head is spread evenly over its chunks.
    """
    if not profile.rows:
        raise ValueError("a timeline needs the table of one predicted scenario")
    plan = profile.scenario.plan
    forward_s, backward_s, weight_s = _chunk_seconds(profile)
    in_step = int(profile.micro_batches or 1)
    drawn = drawn_micro_batches(profile.scenario, in_step)
    step_rows = {row.module: row for row in profile.rows if row.block == "step"}
    sent = step_rows.get("pipeline")
    message_s = float(sent.time_s / sent.count) if sent else 0.0
    played = simulate(plan.schedule, forward_s, backward_s, drawn, message_s, weight_s=weight_s)

    pace_s = max(sum(f) + sum(b) for f, b in zip(forward_s, backward_s, strict=True))
    pace_s += 2.0 * message_s * len(forward_s[0])
    once = [
        (OMITTED, (in_step - drawn) * pace_s),
        *((kind, float(step_rows[module].time_s)) for module, kind in ONCE.items() if module in step_rows),
        ("optimizer", float(profile.phases["optimizer"])),
    ]
    schedule_s = in_step * pace_s + float(profile.phases["pipeline_bubble"])
    rest_s = max(0.0, float(profile.step_time_s) - schedule_s - sum(seconds for _, seconds in once[1:]))
    start_s = float(profile.step_time_s) - rest_s - sum(seconds for _, seconds in once)
    spans = _shortened(played.spans, min(1.0, start_s / played.total_s))
    for kind, seconds in [*once, (HOST, rest_s)]:
        if seconds > 0.0:
            span = Span(stage=0, kind=kind, start_s=start_s, end_s=start_s + seconds)
            spans += [replace(span, stage=stage) for stage in range(len(forward_s))]
            start_s = span.end_s
    return sorted(spans, key=lambda span: (span.stage, span.start_s))


def _shortened(spans: Iterable[Span], scale: float) -> list[Span]:
    """The spans with their times scaled."""
    return [replace(span, start_s=span.start_s * scale, end_s=span.end_s * scale) for span in spans]


def drawn_micro_batches(scenario: Scenario, in_step: int | None = None) -> int:
    """Micro-batches that the timeline draws one by one: all, or as many as ``MOST_SPANS`` lets it, in whole groups.

    ``in_step`` are all of them where replicas differ.
    """
    plan = scenario.plan
    in_step = int(scenario.micro_batches) if in_step is None else in_step
    stages, chunks = int(plan.pipeline_parallel), int(plan.virtual_stages)
    # A pass is a span and may send a message, which is one more.
    most = max(1, MOST_SPANS // (4 * stages * chunks))
    if in_step <= most:
        return in_step
    return most - most % stages if most > stages else most


def _chunk_seconds(profile: Profile) -> tuple[StageSeconds, StageSeconds, StageSeconds]:
    """Seconds of one micro-batch's forward and backward passes and weight gradients.

    A middle stage's follow its layers.
    """
    plan = profile.scenario.plan
    stages, chunks = int(plan.pipeline_parallel), int(plan.virtual_stages)
    if plan.stage_layers is not None:
        own = list(profile.stage_times.values())
        forward_s, backward_s, weight_s = ([[float(of[kind]) / chunks] * chunks for of in own] for kind in range(3))
        return forward_s, backward_s, weight_s
    layers = stage_layers(layers_to_spread(profile.scenario), stages)
    heaviest = max(layers[1:-1], default=0) or 1
    parts = [("middle", count / heaviest) for count in layers]
    parts[-1] = ("last", 1.0)
    parts[0] = ("first", 1.0)
    passes = [(profile.stage_times[name], share / chunks) for name, share in parts]
    forward_s, backward_s, weight_s = (
        [[float(seconds[kind]) * share] * chunks for seconds, share in passes] for kind in range(3)
    )
    return forward_s, backward_s, weight_s

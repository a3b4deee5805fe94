"""Pipeline schedules played out event by event, and a predicted step drawn out in time.

The reference for the closed forms. Every stage runs its operations one after another in an order fixed by the
schedule; an operation starts when the stage is free and its input has arrived. Chunk ``c`` of stage ``i`` is the
``c * p + i``-th piece of the model. Under DualPipe a stage's chunks are directions, and those of direction 1 pass the
pieces from the last stage to the first.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from sightline.content import description
from sightline.prediction.schedules.closed_forms import stage_layers
from sightline.prediction.training.stages import layers_to_spread
from sightline.profile import Profile
from sightline.scenario import Scenario
from sightline.scenario.plan import Schedule

FORWARD, BACKWARD, INPUT, WEIGHT = "forward", "backward", "input gradient", "weight gradient"
"""Passes. A backward pass may run in two parts: input gradients, which other stages wait for, and weight gradients."""


class Operation(NamedTuple):
    """One pass of one micro-batch through one chunk of a stage's layers."""

    kind: str
    micro_batch: int
    chunk: int
    """Under DualPipe the direction: 0 enters at the first device, 1 at the last."""


Slot = tuple[Operation, ...]
"""What a device does at once: one pass, or a forward and a backward pass together."""


def order(schedule: Schedule, stage: int, stages: int, micro_batches: int, chunks: int) -> list[Slot]:
    """A stage's operations in the order of the schedule: warm-up, one forward one backward, cool-down.

    Warm-up forwards of stage ``i`` of ``p``: all in GPipe, ``p - 1 - i`` in 1F1B, ``2 (p - 1 - i) + (v - 1) g`` chunks
    in Megatron-LM's interleaved schedule with groups of ``g`` micro-batches. Any schedule with more than one chunk is
    interleaved. Zero bubble has the warm-up of 1F1B.
    """
    if schedule == "dualpipe":
        return _numbered(_both_ways(stage, stages, micro_batches))
    groups = _groups(stages, micro_batches) if chunks > 1 else [micro_batches]
    backward = INPUT if schedule == "zero-bubble" else BACKWARD
    forwards = [Operation(FORWARD, m, c) for m, c in _passes(groups, chunks)]
    backwards = [Operation(backward, m, chunks - 1 - c) for m, c in _passes(groups, chunks)]
    warm_up = stages - 1 - stage
    if chunks > 1:
        warm_up = 2 * warm_up + (chunks - 1) * groups[-1]
    elif schedule == "gpipe":
        warm_up = micro_batches
    warm_up = min(warm_up, len(forwards))
    out = forwards[:warm_up]
    for pair in zip(forwards[warm_up:], backwards, strict=False):
        out += pair
    out += backwards[len(forwards) - warm_up :]
    return [(operation,) for operation in (_with_weight_gradients(out, stage) if schedule == "zero-bubble" else out)]


def _with_weight_gradients(operations: Sequence[Operation], stage: int) -> list[Operation]:
    """Zero bubble: stage ``i`` runs its weight gradients ``i`` backward passes late, the last of them at the end.

    So every stage holds the activations of as many micro-batches as the first one does in 1F1B.
    """
    late: list[Operation] = []
    out: list[Operation] = []
    for operation in operations:
        out.append(operation)
        if operation.kind == INPUT:
            late.append(operation._replace(kind=WEIGHT))
            if len(late) > stage:
                out.append(late.pop(0))
    return out + late


def _groups(stages: int, micro_batches: int) -> list[int]:
    """Sizes of the groups of micro-batches that pass a chunk together: one per stage, the last takes what is left over.

    Megatron-LM refuses a remainder; a smaller last group would wait for itself forever.
    """
    whole = max(1, micro_batches // stages)
    return [stages] * (whole - 1) + [micro_batches - stages * (whole - 1)]


def _passes(groups: Sequence[int], chunks: int) -> Iterator[tuple[int, int]]:
    """Micro-batch and chunk of each pass: a group of micro-batches goes through one chunk after the other."""
    start = 0
    for size in groups:
        for chunk in range(chunks):
            for micro_batch in range(start, start + size):
                yield micro_batch, chunk
        start += size


Work = tuple[str, int]
"""A pass, and the direction of its micro-batch."""


def _numbered(slots: Iterator[tuple[Work, ...]]) -> list[Slot]:
    """DualPipe's passes with their micro-batches: even numbers in one direction, odd ones in the other.

    Input gradients count on with whole backward passes; weight gradients are of the micro-batch that waits longest.
    """
    passed: Counter[Work] = Counter()
    late: tuple[list[int], list[int]] = ([], [])

    def numbered(kind: str, direction: int) -> Operation:
        if kind == WEIGHT:
            return Operation(kind, late[direction].pop(0), direction)
        counted = (FORWARD if kind == FORWARD else BACKWARD, direction)
        micro_batch = 2 * passed[counted] + direction
        passed[counted] += 1
        if kind == INPUT:
            late[direction].append(micro_batch)
        return Operation(kind, micro_batch, direction)

    return [tuple(numbered(*work) for work in slot) for slot in slots]


def _both_ways(device: int, stages: int, micro_batches: int) -> Iterator[tuple[Work, ...]]:
    """Yield what a device of DualPipe does, in order; ``micro_batches`` of both directions together, 2 p or more.

    Micro-batches enter at both ends at once: device ``i`` of ``p`` holds stage ``i`` for one direction and stage
    ``p - 1 - i`` for the other. A forward pass of one direction runs together with a backward pass of the other, each
    hiding the other's collectives. A device in the second half sees the directions exchanged. Its distance from the
    pipeline's end, ``near``, and from the middle, ``far``, give the lengths of the phases.
    """
    near = min(device, stages - 1 - device)
    far, own = stages // 2 - near - 1, int(device >= stages // 2)
    other = 1 - own
    half = micro_batches // 2
    yield from [((FORWARD, own),)] * (2 * far)
    for _ in range(near + 1):
        yield ((FORWARD, own),)
        yield ((FORWARD, other),)
    for _ in range(far):
        yield ((INPUT, other),)
        yield ((WEIGHT, other),)
        yield ((FORWARD, other),)
    for turn in range(half - stages + near + 1):
        first = ((FORWARD, own), (BACKWARD, other))
        # In the middle the first backward pass waits for the forward pass before it.
        yield from [(work,) for work in first] if turn == 0 and far == 0 else [first]
        yield ((FORWARD, other), (BACKWARD, own))
    for _ in range(far):
        yield ((BACKWARD, other),)
        yield ((FORWARD, other), (BACKWARD, own))
    yield from _ending(near, far, own)


def _ending(near: int, far: int, own: int) -> Iterator[tuple[Work, ...]]:
    """The last backward passes.

    From some point on their weight gradients are put off to fill what would be idle time.
    """
    other, passes = 1 - own, near + 1
    late: list[int] = []
    for turn in range(passes):
        for direction, starts in ((other, near % 2 == 1), (own, near % 2 == 0)):
            if late or (turn == passes // 2 and starts):
                yield ((INPUT, direction),)
                late.append(direction)
            else:
                yield ((BACKWARD, direction),)
    for _ in range(far):
        if late:
            yield ((WEIGHT, late.pop(0)),)
        yield ((INPUT, own),)
        late.append(own)
    for direction in late:
        yield ((WEIGHT, direction),)


TRANSFER = "transfer"
StageSeconds = Sequence[Sequence[float]]
"""Seconds of a pass by stage and chunk."""


@description
class Span:
    """Something a stage's devices do from ``start_s`` to ``end_s`` (seconds from the start of the step)."""

    stage: int
    kind: str
    start_s: float
    end_s: float
    micro_batch: int | None = None
    """None where the work belongs to the whole step (optimizer)."""
    chunk: int = 0


@description
class Simulation:
    """A schedule played out."""

    spans: Sequence[Span]
    """By stage, each stage's in order of time."""
    total_s: float
    in_flight: Sequence[float]
    """By stage: most micro-batches whose activations are held at once, in units of a whole stage's activations."""


def simulate(
    schedule: Schedule,
    forward_s: StageSeconds,
    backward_s: StageSeconds,
    micro_batches: int,
    transfer_s: float = 0.0,
    weight_s: StageSeconds | None = None,
) -> Simulation:
    """Play out ``schedule`` with ``forward_s[stage][chunk]`` and ``backward_s[stage][chunk]`` seconds per micro-batch.

    Zero bubble and DualPipe run weight gradients apart, ``weight_s[stage][chunk]`` of the backward seconds: only the
    rest lies on the way of a micro-batch, and weight gradients fill what would be idle time. DualPipe has one chunk per
    stage; passes that run together take as long as both.

    ``transfer_s`` is the time of one message between neighbouring stages in one direction, in which the sender is busy
    as well (Megatron's non-interleaved schedule exchanges an activation against a gradient over the same full-duplex
    boundary, so each boundary costs each side one message time per pass); 0 where messages overlap with compute. Leaves
    out: contention between messages, and a sender waiting for a receiver that is not ready.
    """
    stages, chunks, both_ways = len(forward_s), len(forward_s[0]), schedule == "dualpipe"
    if weight_s is None and (both_ways or schedule == "zero-bubble"):
        raise ValueError(f"{schedule} needs the seconds of the weight gradients")
    of_weights = weight_s or backward_s

    def passed(operation: Operation, stage: int) -> _Pass:
        kind, chunk = operation.kind, operation.chunk
        if both_ways:
            stage, chunk = (stages - 1 - stage if chunk else stage), 0
        whole_s = {FORWARD: forward_s, WEIGHT: of_weights}.get(kind, backward_s)[stage][chunk]
        seconds = whole_s - of_weights[stage][chunk] if kind == INPUT else whole_s
        return _Pass(operation, seconds, chunk * stages + stage, stages * chunks)

    orders = [order(schedule, stage, stages, micro_batches, chunks) for stage in range(stages)]
    slots = [deque([passed(one, stage) for one in slot] for slot in own) for stage, own in enumerate(orders)]
    spans, total_s = _play(slots, transfer_s if stages > 1 else 0.0)
    return Simulation(spans=spans, total_s=total_s, in_flight=[_peak(own) / chunks for own in orders])


_Result = tuple[str, int, int]
"""What a forward or backward pass takes: its kind, the micro-batch, the piece of the model."""


class _Pass(NamedTuple):
    """An operation with its seconds and the piece of the model that it passes."""

    operation: Operation
    seconds: float
    piece: int
    pieces: int

    @property
    def needs(self) -> _Result | None:
        """What it waits for; a stage's own backward pass has put its weight gradients' input there."""
        kind, micro_batch, _ = self.operation
        if kind == WEIGHT or (kind == FORWARD and self.piece == 0):
            return None
        return (FORWARD if kind == FORWARD else BACKWARD, micro_batch, self.piece)

    @property
    def makes(self) -> _Result | None:
        """What it makes possible: the next piece's forward, the last piece's backward, the backward before."""
        kind, micro_batch, _ = self.operation
        if kind == WEIGHT or (kind != FORWARD and self.piece == 0):
            return None
        if kind == FORWARD and self.piece + 1 == self.pieces:
            return (BACKWARD, micro_batch, self.piece)
        return (FORWARD, micro_batch, self.piece + 1) if kind == FORWARD else (BACKWARD, micro_batch, self.piece - 1)


def _play(waiting: Sequence[deque[list[_Pass]]], transfer_s: float) -> tuple[list[Span], float]:
    """Return spans by stage and time, and the end of the last.

    A slot starts when its stage is free and its inputs are there.
    """
    arrived: dict[_Result | None, float] = {None: 0.0}
    free_at = [0.0] * len(waiting)
    spans: list[list[Span]] = [[] for _ in waiting]

    def drawn(stage: int, kind: str, of: Operation, seconds: float) -> None:
        start_s, end_s = free_at[stage], free_at[stage] + seconds
        span = Span(stage=stage, kind=kind, start_s=start_s, end_s=end_s, micro_batch=of.micro_batch, chunk=of.chunk)
        spans[stage].append(span)
        free_at[stage] = end_s

    while any(waiting):
        ready = [stage for stage, slots in enumerate(waiting) if slots and all(x.needs in arrived for x in slots[0])]
        if not ready:
            raise RuntimeError("a stage waits for something that never comes")
        for stage in ready:
            slot = waiting[stage].popleft()
            free_at[stage] = max(free_at[stage], *(arrived[ready_pass.needs] for ready_pass in slot))
            for ready_pass in slot:
                kind = ready_pass.operation.kind
                drawn(stage, BACKWARD if kind == INPUT else kind, ready_pass.operation, ready_pass.seconds)
            end_s = free_at[stage]
            for ready_pass in slot:
                makes = ready_pass.makes
                sent_s = transfer_s if makes and makes[2] != ready_pass.piece else 0.0
                if sent_s:
                    drawn(stage, TRANSFER, ready_pass.operation, sent_s)
                if makes:
                    arrived[makes] = end_s + sent_s
    return [span for of_stage in spans for span in of_stage], max(free_at)


def _peak(slots: Sequence[Slot]) -> int:
    """Most forwards whose backward pass, with its weight gradients, has not ended yet."""
    kept = peak = 0
    for slot in slots:
        kept += sum(operation.kind == FORWARD for operation in slot)
        peak = max(peak, kept)
        kept -= sum(operation.kind in (BACKWARD, WEIGHT) for operation in slot)
    return peak


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
    shows in the step: gradient reduction, the tied table's gradients, optimizer, and the host's own time. A schedule of
    more than ``MOST_SPANS`` spans is played out with fewer micro-batches, and one span per stage stands for the others.
    The prediction takes a pipeline's length from a closed form, which differs from the schedule played out by up to
    some percent where stages differ: a schedule that ends earlier waits until then, a longer one is shortened in
    proportion. Left out: work hidden behind compute; a stage's embedding, head, data or loss are spread evenly over its
    chunks.
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
        forward_s, backward_s, weight_s = (
            [[float(times[kind]) / chunks] * chunks for times in own] for kind in range(3)
        )
        return forward_s, backward_s, weight_s
    layers = stage_layers(layers_to_spread(profile.scenario), stages, plan.framework.pipeline_ends)
    heaviest = max(layers[1:-1], default=0) or 1
    parts = [("middle", count / heaviest) for count in layers]
    parts[-1] = ("last", 1.0)
    parts[0] = ("first", 1.0)
    passes = [(profile.stage_times[name], share / chunks) for name, share in parts]
    forward_s, backward_s, weight_s = (
        [[float(seconds[kind]) * share] * chunks for seconds, share in passes] for kind in range(3)
    )
    return forward_s, backward_s, weight_s

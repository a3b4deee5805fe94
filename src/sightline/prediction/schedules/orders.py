"""What each pipeline stage does, in order, by schedule.

Stages and chunks count from 0. GPipe: arXiv 1811.06965; 1F1B and interleaved 1F1B: arXiv 2104.04473, in Megatron-LM's
order; zero bubble with the memory of 1F1B (ZB-H1): arXiv 2401.10241; DualPipe: DeepSeek V3, arXiv 2412.19437.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

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
    return [(one,) for one in (_with_weight_gradients(out, stage) if schedule == "zero-bubble" else out)]


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

"""DualPipe (DeepSeek V3, arXiv 2412.19437): micro-batches enter a pipeline at both ends at once.

Device ``i`` of ``p`` holds stage ``i`` for one direction and stage ``p - 1 - i`` for the other, so parameters lie twice in
the pipeline. A forward pass of one direction runs together with a backward pass of the other, each hiding the other's
collectives. The order of operations here plays the schedule out; the closed forms are held to it by tests.
"""

from collections.abc import Iterator
from typing import NamedTuple

from sightline.quantities import Count, Number, larger
from sightline.scenario import Plan

FORWARD, BACKWARD, INPUT, WEIGHT = "forward", "backward", "input gradient", "weight gradient"


class Work(NamedTuple):
    """One pass of the micro-batches of one direction: 0 enters at the first device, 1 at the last."""

    kind: str
    direction: int


Slot = tuple[Work, ...]
"""What a device does at once: one pass, or a forward and a backward pass together."""


def bubble_s(backward_s: Number, weight_s: Number, both_s: Number, stages: Count) -> Number:
    """Return the idle seconds of a device: (p/2 - 1) (F&B + B - 3 W), never below 0.

    ``backward_s`` holds the weight gradients, ``weight_s``; ``both_s`` is a forward and a backward pass that run together.
    For an even number of stages p and 2 p or more micro-batches. Exact where forward pass, input and weight gradients take
    equally long; elsewhere the order below idles less, by up to about a pass.
    """
    return larger((stages / 2.0 - 1.0) * (both_s + backward_s - 3.0 * weight_s), 0.0) * (stages > 1)


def order(device: int, stages: int, micro_batches: int) -> Iterator[Slot]:
    """Yield what a device does, in order; ``micro_batches`` of both directions together, 2 p or more.

    A device in the second half sees the directions exchanged. Its distance from the pipeline's end, ``near``, and from the
    middle, ``far``, give the lengths of the phases.
    """
    near = min(device, stages - 1 - device)
    far, own = stages // 2 - near - 1, int(device >= stages // 2)
    other = 1 - own
    half = micro_batches // 2
    yield from [(Work(FORWARD, own),)] * (2 * far)
    for _ in range(near + 1):
        yield (Work(FORWARD, own),)
        yield (Work(FORWARD, other),)
    for _ in range(far):
        yield (Work(INPUT, other),)
        yield (Work(WEIGHT, other),)
        yield (Work(FORWARD, other),)
    for turn in range(half - stages + near + 1):
        first = (Work(FORWARD, own), Work(BACKWARD, other))
        # In the middle the first backward pass waits for the forward pass before it.
        yield from [(work,) for work in first] if turn == 0 and far == 0 else [first]
        yield (Work(FORWARD, other), Work(BACKWARD, own))
    for _ in range(far):
        yield (Work(BACKWARD, other),)
        yield (Work(FORWARD, other), Work(BACKWARD, own))
    yield from _ending(near, far, own)


def _ending(near: int, far: int, own: int) -> Iterator[Slot]:
    """The last backward passes; from some point on their weight gradients are put off to fill what would be idle time."""
    other, passes = 1 - own, near + 1
    late: list[int] = []
    for turn in range(passes):
        for direction, starts in ((other, near % 2 == 1), (own, near % 2 == 0)):
            if late or (turn == passes // 2 and starts):
                yield (Work(INPUT, direction),)
                late.append(direction)
            else:
                yield (Work(BACKWARD, direction),)
    for _ in range(far):
        if late:
            yield (Work(WEIGHT, late.pop(0)),)
        yield (Work(INPUT, own),)
        late.append(own)
    for direction in late:
        yield (Work(WEIGHT, direction),)


def stage_replicas(plan: Plan) -> Number:
    """Devices of a pipeline that hold the same stage: 2 under DualPipe, else 1."""
    return 1.0 + (plan.pipeline_parallel > 1) if plan.schedule == "dualpipe" else 1.0

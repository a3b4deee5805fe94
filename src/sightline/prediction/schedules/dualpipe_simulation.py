"""DualPipe played out: when each device does what, from the order of its operations and their seconds."""

from collections import Counter
from collections.abc import Sequence

from sightline.prediction.schedules import simulation as plain
from sightline.prediction.schedules.dualpipe import BACKWARD, FORWARD, INPUT, WEIGHT, Slot, Work, order
from sightline.prediction.schedules.simulation import Simulation, Span

_DRAWN = {FORWARD: plain.FORWARD, BACKWARD: plain.BACKWARD, INPUT: plain.BACKWARD, WEIGHT: plain.WEIGHT}
_Done = tuple[str, int, int, int]
"""Forward or backward, direction, device, number of the micro-batch in its direction."""


def simulate_both_ways(
    forward_s: Sequence[float], backward_s: Sequence[float], weight_s: Sequence[float], micro_batches: int
) -> Simulation:
    """Play DualPipe out with each stage's seconds per micro-batch; ``backward_s`` holds the weight gradients.

    The micro-batches of direction 0 have even numbers. Passes that run together take as long as both. Leaves out:
    messages, which overlap with compute.
    """
    stages = len(forward_s)
    own = {FORWARD: forward_s, BACKWARD: backward_s, WEIGHT: weight_s}
    own[INPUT] = [b - w for b, w in zip(backward_s, weight_s, strict=True)]
    orders = [list(order(device, stages, micro_batches)) for device in range(stages)]
    ended: dict[_Done, float] = {}
    counts = [Counter[tuple[str, int]]() for _ in range(stages)]
    spans: list[list[Span]] = [[] for _ in range(stages)]
    free, position = [0.0] * stages, [0] * stages
    waiting = list(range(stages))
    while waiting:
        played = [d for d in waiting if _ready(orders[d][position[d]], d, stages, counts[d], ended)]
        if not played:
            raise RuntimeError("a device waits for something that never comes")
        for device in played:
            slot = orders[device][position[device]]
            inputs = [ended.get(_input(work, device, stages, counts[device]), 0.0) for work in slot]
            start = max(free[device], *inputs)
            for work in slot:
                end = start + own[work.kind][device if work.direction == 0 else stages - 1 - device]
                number = counts[device][_pass(work)]
                spans[device].append(
                    Span(
                        stage=device,
                        kind=_DRAWN[work.kind],
                        start_s=start,
                        end_s=end,
                        micro_batch=2 * number + work.direction,
                        chunk=work.direction,
                    )
                )
                start = end
            for work in slot:
                ended[(*_pass(work), device, counts[device][_pass(work)])] = start
                counts[device][_pass(work)] += 1
            free[device] = start
            position[device] += 1
        waiting = [d for d in waiting if position[d] < len(orders[d])]
    held = [_peak(slots) for slots in orders]
    return Simulation(spans=[span for one in spans for span in one], total_s=max(free), in_flight=held)


def _pass(work: Work) -> tuple[str, int]:
    """Backward passes count alike with weight gradients or without."""
    return (BACKWARD if work.kind == INPUT else work.kind, work.direction)


def _input(work: Work, device: int, stages: int, counts: Counter[tuple[str, int]]) -> _Done:
    """What a pass waits for: the pass before it in its direction, or its own forward pass at the end."""
    number, step = counts[_pass(work)], 1 if work.direction == 0 else -1
    if work.kind == WEIGHT:
        return (BACKWARD, work.direction, device, number)
    source = device - step if work.kind == FORWARD else device + step
    if 0 <= source < stages:
        return (FORWARD if work.kind == FORWARD else BACKWARD, work.direction, source, number)
    return ("", 0, 0, 0) if work.kind == FORWARD else (FORWARD, work.direction, device, number)


def _ready(slot: Slot, device: int, stages: int, counts: Counter[tuple[str, int]], ended: dict[_Done, float]) -> bool:
    inputs = [_input(work, device, stages, counts) for work in slot]
    return all(source in ended or not source[0] for source in inputs)


def _peak(slots: Sequence[Slot]) -> float:
    """Most micro-batches whose forward pass is done and whose weight gradients are not."""
    held = peak = 0
    for slot in slots:
        held += sum(work.kind == FORWARD for work in slot)
        peak = max(peak, held)
        held -= sum(work.kind in (BACKWARD, WEIGHT) for work in slot)
    return peak

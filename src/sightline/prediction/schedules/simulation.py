"""Pipeline schedules played out event by event: the reference for the closed forms, and the source of timelines.

Every stage runs its operations one after another in an order fixed by the schedule; an operation starts when the stage
is free and its input has arrived. Chunk ``c`` of stage ``i`` is the ``c * p + i``-th piece of the model. Under DualPipe
a stage's chunks are directions, and those of direction 1 pass the pieces from the last stage to the first.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sightline.prediction.schedules.orders import BACKWARD, FORWARD, INPUT, WEIGHT, Operation, Slot, order
from sightline.scenario.plan import Schedule

TRANSFER = "transfer"
StageSeconds = Sequence[Sequence[float]]
"""Seconds of a pass by stage and chunk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Something a stage's devices do from ``start_s`` to ``end_s`` (seconds from the start of the step)."""

    stage: int
    kind: str
    start_s: float
    end_s: float
    micro_batch: int | None = None
    """None where the work belongs to the whole step (optimizer)."""
    chunk: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
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
            free_at[stage] = max(free_at[stage], *(arrived[one.needs] for one in slot))
            for one in slot:
                kind = one.operation.kind
                drawn(stage, BACKWARD if kind == INPUT else kind, one.operation, one.seconds)
            end_s = free_at[stage]
            for one in slot:
                makes = one.makes
                sent_s = transfer_s if makes and makes[2] != one.piece else 0.0
                if sent_s:
                    drawn(stage, TRANSFER, one.operation, sent_s)
                if makes:
                    arrived[makes] = end_s + sent_s
    return [span for of_stage in spans for span in of_stage], max(free_at)


def _peak(slots: Sequence[Slot]) -> int:
    """Most forwards whose backward pass, with its weight gradients, has not ended yet."""
    held = peak = 0
    for slot in slots:
        held += sum(one.kind == FORWARD for one in slot)
        peak = max(peak, held)
        held -= sum(one.kind in (BACKWARD, WEIGHT) for one in slot)
    return peak

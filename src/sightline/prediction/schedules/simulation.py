"""Pipeline schedules played out event by event: the reference for the closed forms, and the source of timelines.

Every stage runs its operations one after another in an order fixed by the schedule; an operation starts when the stage
is free and its input has arrived. Stages and chunks count from 0; chunk ``c`` of stage ``i`` is the ``c * p + i``-th
piece of the model. GPipe: arXiv 1811.06965; 1F1B and interleaved 1F1B: arXiv 2104.04473, in Megatron-LM's order; zero
bubble with the memory of 1F1B (ZB-H1): arXiv 2401.10241.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sightline.scenario.plan import Schedule

Operation = tuple[str, int, int]
"""Kind (``forward``, ``backward`` or ``weight gradient``), micro-batch, chunk."""
FORWARD, BACKWARD, WEIGHT, TRANSFER = "forward", "backward", "weight gradient", "transfer"


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
    forward_s: Sequence[Sequence[float]],
    backward_s: Sequence[Sequence[float]],
    micro_batches: int,
    transfer_s: float = 0.0,
    overlapped: bool = False,
    weight_s: Sequence[Sequence[float]] | None = None,
) -> Simulation:
    """Play out ``schedule`` with ``forward_s[stage][chunk]`` and ``backward_s[stage][chunk]`` seconds per micro-batch.

    Zero bubble runs the weight gradients apart, ``weight_s[stage][chunk]`` of the backward seconds: only the rest lies on
    the way of a micro-batch, and weight gradients fill what would be idle time.

    ``transfer_s`` is the time of one message between neighbouring stages in one direction. Overlapped, it only delays
    the receiver; otherwise the sender is busy as well (Megatron's non-interleaved schedule exchanges an activation
    against a gradient over the same full-duplex boundary, so each boundary costs each side one message time per pass).
    Leaves out: contention between messages, and a sender waiting for a receiver that is not ready.
    """
    stages, chunks = len(forward_s), len(forward_s[0])
    orders = [order(schedule, stage, stages, micro_batches, chunks) for stage in range(stages)]
    if schedule == "zero-bubble":
        if weight_s is None:
            raise ValueError("zero bubble needs the seconds of the weight gradients")
        backward_s = [[b - w for b, w in zip(*pair, strict=True)] for pair in zip(backward_s, weight_s, strict=True)]
    player = _Player(forward_s, backward_s, weight_s or backward_s, transfer_s if stages > 1 else 0.0, overlapped)
    waiting = set(range(stages))
    position = [0] * stages
    while waiting:
        stage = waiting.pop()
        operations = orders[stage]
        while position[stage] < len(operations) and (follower := player.play(stage, operations[position[stage]])) >= 0:
            position[stage] += 1
            waiting.add(follower)
    return Simulation(
        spans=[span for spans in player.spans for span in spans],
        total_s=max(player.free_at),
        in_flight=[_peak(operations) / chunks for operations in orders],
    )


class _Player:
    """The state of a simulation: when each stage is free and when each input has arrived."""

    def __init__(
        self,
        forward_s: Sequence[Sequence[float]],
        backward_s: Sequence[Sequence[float]],
        weight_s: Sequence[Sequence[float]],
        transfer_s: float,
        overlapped: bool,
    ) -> None:
        self.stages, self.chunks = len(forward_s), len(forward_s[0])
        self.duration = {FORWARD: forward_s, BACKWARD: backward_s, WEIGHT: weight_s}
        self.transfer_s, self.overlapped = transfer_s, overlapped
        self.free_at = [0.0] * self.stages
        self.spans: list[list[Span]] = [[] for _ in range(self.stages)]
        self.arrived: dict[tuple[str, int, int], float] = {}
        """Arrival of an operation's input by kind, micro-batch and piece of the model."""

    def play(self, stage: int, operation: Operation) -> int:
        """Run ``operation`` and return the stage that its result goes to; -1 when its input has not been sent yet."""
        kind, micro_batch, chunk = operation
        piece = chunk * self.stages + stage
        # A stage's own backward pass has put its weight gradients' input there.
        if kind == WEIGHT or (kind == FORWARD and piece == 0):
            input_at = 0.0
        else:
            arrival = self.arrived.get((kind, micro_batch, piece))
            if arrival is None:
                return -1
            input_at = arrival
        start = max(self.free_at[stage], input_at)
        end = start + self.duration[kind][stage][chunk]
        spans = self.spans[stage]
        spans.append(Span(stage=stage, kind=kind, start_s=start, end_s=end, micro_batch=micro_batch, chunk=chunk))
        self.free_at[stage] = end
        if kind == WEIGHT:
            return stage
        next_kind, next_piece = _successor(kind, piece, self.stages * self.chunks)
        if next_piece < 0:
            return stage
        sent = end if next_piece == piece else end + self.transfer_s
        if sent > end and not self.overlapped:
            spans.append(
                Span(stage=stage, kind=TRANSFER, start_s=end, end_s=sent, micro_batch=micro_batch, chunk=chunk)
            )
            self.free_at[stage] = sent
        self.arrived[next_kind, micro_batch, next_piece] = sent
        return next_piece % self.stages


def _successor(kind: str, piece: int, pieces: int) -> tuple[str, int]:
    """Which operation takes the result: the next piece's forward, the last piece's backward, the backward before."""
    if kind == BACKWARD:
        return BACKWARD, piece - 1
    return (FORWARD, piece + 1) if piece + 1 < pieces else (BACKWARD, piece)


def order(schedule: Schedule, stage: int, stages: int, micro_batches: int, chunks: int) -> list[Operation]:
    """A stage's operations in the order of the schedule: warm-up, one forward one backward, cool-down.

    Warm-up forwards of stage ``i`` of ``p``: all in GPipe, ``p - 1 - i`` in 1F1B, ``2 (p - 1 - i) + (v - 1) g`` chunks
    in Megatron-LM's interleaved schedule with groups of ``g`` micro-batches. Any schedule with more than one chunk is
    interleaved. Zero bubble has the warm-up of 1F1B.
    """
    groups = _groups(stages, micro_batches) if chunks > 1 else [micro_batches]
    forwards = [(FORWARD, m, c) for m, c in _passes(groups, chunks)]
    backwards = [(BACKWARD, m, chunks - 1 - c) for m, c in _passes(groups, chunks)]
    warm_up = stages - 1 - stage
    if chunks > 1:
        warm_up = 2 * warm_up + (chunks - 1) * groups[-1]
    elif schedule == "gpipe":
        warm_up = micro_batches
    warm_up = min(warm_up, len(forwards))
    out: list[Operation] = forwards[:warm_up]
    for forward, backward in zip(forwards[warm_up:], backwards, strict=False):
        out += (forward, backward)
    out += backwards[len(forwards) - warm_up :]
    return _with_weight_gradients(out, stage) if schedule == "zero-bubble" else out


def _with_weight_gradients(operations: Sequence[Operation], stage: int) -> list[Operation]:
    """Zero bubble: stage ``i`` runs its weight gradients ``i`` backward passes late, the last of them at the end.

    So every stage holds the activations of as many micro-batches as the first one does in 1F1B.
    """
    late: list[Operation] = []
    out: list[Operation] = []
    for operation in operations:
        out.append(operation)
        kind, micro_batch, chunk = operation
        if kind == BACKWARD:
            late.append((WEIGHT, micro_batch, chunk))
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


def _peak(operations: Sequence[Operation]) -> int:
    """Most forwards whose last pass (the weight gradients, where they run apart) has not ended yet."""
    last = WEIGHT if any(kind == WEIGHT for kind, _, _ in operations) else BACKWARD
    held = peak = 0
    for kind, _, _ in operations:
        held += (kind == FORWARD) - (kind == last)
        peak = max(peak, held)
    return peak

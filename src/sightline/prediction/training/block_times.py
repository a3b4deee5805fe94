"""Seconds of one block for one micro-batch: its passes, and which collectives a framework overlaps with its kernels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sightline.cost.prices import Prices
from sightline.frameworks import TensorOverlap
from sightline.prediction.pass_times import PassTimes, operator_times, seconds_of
from sightline.program import Block, Collective, FlashAttention, Matmul, Operator
from sightline.program.address import ATTENTION_CORE, EXPERT_MODULES
from sightline.program.techniques.context_blocks import FURTHER_CHUNKS
from sightline.quantities import Number, larger, plain, smaller


class BlockTimes(NamedTuple):
    """The three passes of one block."""

    forward: PassTimes
    recompute: PassTimes
    backward: PassTimes
    weight_s: Number
    """Part of the backward pass that makes weight gradients, which nothing else of the micro-batch waits for."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Overlap:
    """Which collectives of a block run while kernels work, and what the host waits for."""

    kind: TensorOverlap
    chunks: Number
    """Pieces that a forward matmul's collective is cut into: one per rank, of which one stays exposed."""
    slowdown: float
    """Share of the hidden time by which the overlapped kernels slow down."""
    experts: bool
    """Tokens travel to experts and back while another micro-batch is computed."""
    counts: bool = False
    """Before it launches a layer's experts the host waits for the numbers of tokens that the router gave them."""

    def exposed_s(self, collective_s: Number, matmul_s: Number, *, backward: bool) -> Number:
        """Seconds that collectives add to the matmuls they may overlap with."""
        if self.kind == "none" or (self.kind == "backward" and not backward):
            return collective_s
        first_s = 0.0 if backward else collective_s / self.chunks
        return first_s + self.behind(collective_s - first_s, matmul_s)

    def behind(self, transfer_s: Number, work_s: Number) -> Number:
        """Seconds that fully overlapped transfers add to the work that hides them."""
        return transfer_s - (1.0 - self.slowdown) * smaller(transfer_s, work_s)

    def exposed_dispatch_s(self, dispatch_s: Number, work_s: Number) -> Number:
        """Seconds that the tokens' way to experts and back adds to an equally long pass of another micro-batch."""
        return self.behind(dispatch_s, work_s) if self.experts else dispatch_s


def block_times(block: Block, prices: Prices, overlap: Overlap, launch_s: Number) -> BlockTimes:
    """Return the seconds of ``block``; ``launch_s`` are the host's per launch in a forward pass."""
    return BlockTimes(
        forward=_plain(_pass_times(block.forward, prices, overlap, launch_s)),
        recompute=_plain(_pass_times(block.recomputed, prices, overlap, launch_s).times(block.recomputed_share)),
        backward=_plain(_pass_times(block.backward, prices, overlap, None)),
        weight_s=plain(seconds_of([op for op in block.backward if op.direction == "weight gradient"], prices)),
    )


def _plain(times: PassTimes) -> PassTimes:
    return PassTimes._make(map(plain, times))


def _pass_times(
    operators: Sequence[Operator], prices: Prices, overlap: Overlap, forward_launch_s: Number | None
) -> PassTimes:
    """Seconds of one pass; None for the launches of a backward pass, in which the host waits for nothing."""
    times = operator_times(operators, prices)
    exposed_s = exposed_collectives_s(operators, prices, overlap, backward=forward_launch_s is None)
    held_s: Number = 0.0
    if overlap.counts and not overlap.experts and forward_launch_s is not None:
        held_s = _held_s(operators, prices, forward_launch_s, exposed_s.get("micro-batch", 0.0))
    return times._replace(collective_s=sum(exposed_s.values(), 0.0), held_s=held_s)


def exposed_collectives_s(
    operators: Sequence[Operator], prices: Prices, overlap: Overlap, *, backward: bool
) -> dict[str, Number]:
    """Return the exposed seconds of a pass's collectives by what they overlap with."""
    found: dict[str, list[Operator]] = {}
    for op in operators:
        if isinstance(op, Collective):
            found.setdefault(op.overlapped_with, []).append(op)
    if not found:
        return {}
    exposed_s = {overlapped: seconds_of(collectives, prices) for overlapped, collectives in found.items()}
    work = [op for op in operators if not isinstance(op, Collective)]
    if "projections" in found:
        # Attention's products wait for the collective's result; projections overlap with it.
        matmuls_s = seconds_of([op for op in work if isinstance(op, Matmul) and op.module != ATTENTION_CORE], prices)
        exposed_s["projections"] = overlap.exposed_s(exposed_s["projections"], matmuls_s, backward=backward)
    if "attention" in found:
        # A block of keys travels while attention works on the one before, each about as long as the next.
        chunks = [op for op in work if isinstance(op, FlashAttention) and op.part in FURTHER_CHUNKS]
        exposed_s["attention"] = overlap.behind(exposed_s["attention"], seconds_of(chunks, prices))
    if "micro-batch" in found:
        exposed_s["micro-batch"] = overlap.exposed_dispatch_s(exposed_s["micro-batch"], seconds_of(work, prices))
    return exposed_s


def _held_s(operators: Sequence[Operator], prices: Prices, launch_s: Number, dispatch_s: Number) -> Number:
    """Seconds by which launching a layer's experts outlasts them, where nothing could be launched ahead.

    The device idles when the host learns the numbers of tokens, so the two start level: after E the device is done at
    max(E, launches of E), and what follows E is launched while it catches up. Backward takes the numbers from forward.
    """
    behind = [op for op in operators if op.module in EXPERT_MODULES and not isinstance(op, Collective)]
    launches = sum((op.count * op.kernels for op in behind), 0.0)
    return larger(launches * launch_s - seconds_of(behind, prices) - dispatch_s, 0.0)

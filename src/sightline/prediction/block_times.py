"""Seconds of one block kind for one micro-batch, summed over its operators by what they are."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sightline.cost.pricing import Prices
from sightline.frameworks import TensorOverlap
from sightline.program import Block, Collective, FlashAttention, Matmul, Operator
from sightline.program.address import ATTENTION_CORE
from sightline.program.context_blocks import FURTHER_CHUNKS
from sightline.program.experts import BEHIND_COUNTS
from sightline.quantities import Number


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PassTimes:
    """One pass (forward, backward or recompute) of one block: device work, collectives, and the host's launches."""

    work_s: Number
    collective_s: Number
    host_s: Number
    held_s: Number = 0.0
    """Seconds the device idles because the host could not launch ahead: it had waited for the device's results."""

    def __add__(self, other: "PassTimes") -> "PassTimes":
        return PassTimes(
            work_s=self.work_s + other.work_s,
            collective_s=self.collective_s + other.collective_s,
            host_s=self.host_s + other.host_s,
            held_s=self.held_s + other.held_s,
        )

    def __mul__(self, count: Number) -> "PassTimes":
        return PassTimes(
            work_s=self.work_s * count,
            collective_s=self.collective_s * count,
            host_s=self.host_s * count,
            held_s=self.held_s * count,
        )

    @property
    def device_s(self) -> Number:
        """Seconds the device needs."""
        return self.work_s + self.collective_s

    @property
    def wait_s(self) -> Number:
        """Seconds that the device waits for the host's launches."""
        return np.maximum(self.host_s - self.device_s, self.held_s)

    @property
    def total_s(self) -> Number:
        """Seconds of the pass: the device's, and those it waits for launches."""
        return self.device_s + self.wait_s


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockTimes:
    """The three passes of one block."""

    forward: PassTimes
    recompute: PassTimes
    backward: PassTimes
    weight_s: Number
    """Part of the backward pass that makes weight gradients, which nothing else of the micro-batch waits for."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Overlap:
    """How a framework hides tensor-parallel collectives behind matmuls."""

    kind: TensorOverlap
    chunks: Number
    """Pieces a collective is cut into beside a forward matmul: one per rank, of which one stays exposed."""
    slowdown: float
    """Share of the hidden time by which the matmuls beside it slow down."""
    experts: bool
    """Tokens travel to experts and back while another micro-batch is computed."""
    counts: bool = False
    """Before it launches a layer's experts the host waits for the numbers of tokens that the router gave them."""

    def exposed_s(self, collective_s: Number, matmul_s: Number, *, backward: bool) -> Number:
        """Seconds that collectives add to the matmuls they may run beside."""
        if self.kind == "none" or (self.kind == "backward" and not backward):
            return collective_s
        first_s = 0.0 if backward else collective_s / self.chunks
        return first_s + self.behind(collective_s - first_s, matmul_s)

    def behind(self, transfer_s: Number, work_s: Number) -> Number:
        """Seconds that transfers add to work they run wholly beside."""
        return transfer_s - (1.0 - self.slowdown) * np.minimum(transfer_s, work_s)

    def exposed_travel_s(self, travel_s: Number, work_s: Number) -> Number:
        """Seconds that the tokens' way to experts and back adds to the work of as long a pass of another micro-batch."""
        if not self.experts:
            return travel_s
        return self.behind(travel_s, work_s)


def block_times(
    block: Block, prices: Prices, forward_launch: Number, backward_launch: Number, overlap: Overlap
) -> BlockTimes:
    """Return the seconds of ``block`` with the host's seconds per launch in each pass."""
    return BlockTimes(
        forward=_pass_times(block.forward, prices, forward_launch, overlap, backward=False),
        recompute=_pass_times(block.recomputed, prices, forward_launch, overlap, backward=False)
        * block.recomputed_share,
        backward=_pass_times(block.backward, prices, backward_launch, overlap, backward=True),
        weight_s=_seconds([op for op in block.backward if op.direction == "weight gradient"], prices),
    )


def _pass_times(
    operators: Sequence[Operator], prices: Prices, launch_s: Number, overlap: Overlap, *, backward: bool
) -> PassTimes:
    work = _work(operators)
    exposed_s = exposed_collectives_s(operators, prices, overlap, backward=backward)
    launches = _total(op.count * op.kernels for op in operators)
    travel_s = exposed_s["micro-batch"]
    waits = overlap.counts and not overlap.experts and not backward
    return PassTimes(
        work_s=_seconds(work, prices),
        collective_s=_total(exposed_s.values()),
        host_s=launches * launch_s,
        held_s=_held_s(work, prices, launch_s, travel_s) if waits else 0.0,
    )


def exposed_collectives_s(
    operators: Sequence[Operator], prices: Prices, overlap: Overlap, *, backward: bool
) -> dict[str, Number]:
    """Return the exposed seconds of a pass's collectives by what they are overlapped with."""
    collectives = {
        company: _seconds([op for op in operators if isinstance(op, Collective) and op.beside == company], prices)
        for company in ("projections", "attention", "micro-batch", "nothing")
    }
    work = _work(operators)
    # Attention's products wait for the collective's result; projections run beside it.
    beside = [op for op in work if isinstance(op, Matmul) and op.module != ATTENTION_CORE]
    # A block of keys travels while attention works on the one before, each about as long as the next.
    chunks = [op for op in work if isinstance(op, FlashAttention) and op.part in FURTHER_CHUNKS]
    return {
        "projections": overlap.exposed_s(collectives["projections"], _seconds(beside, prices), backward=backward),
        "attention": overlap.behind(collectives["attention"], _seconds(chunks, prices)),
        "micro-batch": overlap.exposed_travel_s(collectives["micro-batch"], _seconds(work, prices)),
        "nothing": collectives["nothing"],
    }


def _work(operators: Sequence[Operator]) -> list[Operator]:
    """The operators of a pass that compute."""
    return [op for op in operators if not isinstance(op, Collective)]


def _held_s(work: Sequence[Operator], prices: Prices, launch_s: Number, travel_s: Number) -> Number:
    """Seconds by which launching a layer's experts outlasts them, where nothing could be launched ahead.

    The device idles when the host learns the numbers of tokens, so the two start level: after E the device is done at
    max(E, launches of E), and what follows E is launched while it catches up. Backward takes the numbers from forward.
    """
    behind = [op for op in work if op.module in BEHIND_COUNTS]
    return np.maximum(
        _total(op.count * op.kernels for op in behind) * launch_s - _seconds(behind, prices) - travel_s, 0.0
    )


def _seconds(operators: Sequence[Operator], prices: Prices) -> Number:
    return _total(op.count * prices[id(op)].time_s for op in operators)


def _total(values: Iterable[Number]) -> Number:
    return sum(values, 0.0)

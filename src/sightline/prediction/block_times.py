"""Seconds of one block kind for one micro-batch, summed over its operators by what they are."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sightline.cost.pricing import Prices
from sightline.cost.training_constants import TrainingConstants
from sightline.program import Block, Collective, Operator
from sightline.quantities import Number


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PassTimes:
    """One pass (forward, backward or recompute) of one block: device work, collectives, and the host's launches."""

    work_s: Number
    collective_s: Number
    host_s: Number

    def __add__(self, other: "PassTimes") -> "PassTimes":
        return PassTimes(
            work_s=self.work_s + other.work_s,
            collective_s=self.collective_s + other.collective_s,
            host_s=self.host_s + other.host_s,
        )

    def __mul__(self, count: Number) -> "PassTimes":
        return PassTimes(
            work_s=self.work_s * count, collective_s=self.collective_s * count, host_s=self.host_s * count
        )

    @property
    def device_s(self) -> Number:
        """Seconds the device needs."""
        return self.work_s + self.collective_s

    @property
    def wait_s(self) -> Number:
        """Seconds by which the host's launches outlast the device."""
        return np.maximum(self.host_s - self.device_s, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockTimes:
    """The three passes of one block."""

    forward: PassTimes
    recompute: PassTimes
    backward: PassTimes


def block_times(block: Block, prices: Prices, constants: TrainingConstants, launch_s: Number | None) -> BlockTimes:
    """Return the seconds of ``block``; ``launch_s`` is the host's own time per launch where the scenario gives one."""
    forward_launch = constants.launch_forward_s if launch_s is None else launch_s
    backward_launch = constants.launch_backward_s if launch_s is None else launch_s
    return BlockTimes(
        forward=_pass_times(block.forward, prices, forward_launch),
        recompute=_pass_times(block.recomputed, prices, forward_launch),
        backward=_pass_times(block.backward, prices, backward_launch),
    )


def _pass_times(operators: Sequence[Operator], prices: Prices, launch_s: Number) -> PassTimes:
    collectives = [op for op in operators if isinstance(op, Collective)]
    work = [op for op in operators if not isinstance(op, Collective)]
    launches = _total(op.count * op.kernels for op in operators)
    return PassTimes(
        work_s=_total(op.count * prices[id(op)].time_s for op in work),
        collective_s=_total(op.count * prices[id(op)].time_s for op in collectives),
        host_s=launches * launch_s,
    )


def _total(values: Iterable[Number]) -> Number:
    return sum(values, 0.0)

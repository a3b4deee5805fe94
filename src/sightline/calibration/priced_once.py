"""Passes of engines as columns, for fits that ask thousands of times what other constants make of the same prices."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np

from sightline.calibration.fits import Array
from sightline.cost.operator_cost import OperatorCost
from sightline.cost.prices import Prices
from sightline.prediction.generation.engine_constants import InferenceConstants
from sightline.prediction.generation.phases import PricedGeneration
from sightline.prediction.generation.policies import Workers
from sightline.prediction.generation.worker import PricedPass, slowdown_of, time_in_engine
from sightline.prediction.pass_times import PassTimes
from sightline.program import Collective, MatrixVector, Operator
from sightline.quantities import larger


class EnginePrices(dict[int, OperatorCost]):
    """Prices of a pass in an engine, of each operator when it is first asked for."""

    def __init__(self, of: "TabledPass", constants: InferenceConstants) -> None:
        super().__init__()
        self.of, self.constants = of, constants

    def __missing__(self, key: int) -> OperatorCost:
        """The price of the operator of this identity."""
        alone = self.of.prices[key]
        time_s = larger(time_in_engine(self.of.known[key], alone, self.constants), alone.least_s)
        self[key] = alone._replace(time_s=time_s)
        return self[key]


@dataclass(frozen=True, kw_only=True, eq=False)
class TabledPass(PricedPass):
    """A priced pass without matrix-vector kernels: a time is ``alone x slowdown + gap``, or the floor."""

    known: dict[int, Operator]
    examples: Sequence[Operator]
    """One of all that constants treat alike."""
    kinds: Array
    """Which of them stands for each operator."""
    counts: Array
    alone: Array
    least: Array
    gaps: Array
    """Gaps that come after it: its kernels, or for a collective 1 where ranks wait for each other."""
    bound: Array
    """1 where arithmetic bounds an operator."""
    sends: Array
    """1 where it is a collective."""
    launches: float

    @classmethod
    def of(cls, priced: PricedPass) -> Self:
        """The columns of a pass."""
        pairs = [(block.count, op) for block in priced.program.blocks for op in block.operators]
        operators, prices = [op for _, op in pairs], [priced.prices[id(op)] for _, op in pairs]
        alike: dict[Hashable, int] = {}
        kinds = [alike.setdefault(_kind(op), len(alike)) for op in operators]
        counts = np.array([float(count) * op.count for count, op in pairs], dtype=float)
        kernels = np.array([op.kernels for op in operators], dtype=float)
        alone = np.array([price.time_s for price in prices], dtype=float)
        sends = np.array([isinstance(op, Collective) for op in operators], dtype=float)
        return cls(
            **{f.name: getattr(priced, f.name) for f in fields(PricedPass)},
            known={id(op): op for op in operators},
            examples=[operators[kinds.index(number)] for number in range(len(alike))],
            kinds=np.array(kinds),
            counts=counts,
            alone=alone,
            least=np.array([price.least_s for price in prices], dtype=float),
            gaps=np.where(sends > 0, alone > 0, kernels),
            bound=np.array([price.compute_s >= price.memory_s for price in prices], dtype=float),
            sends=sends,
            launches=float(counts @ kernels),
        )

    def in_engine(self, constants: InferenceConstants) -> Prices:
        """Return the prices as the engine runs the operators, when they are asked for."""
        return EnginePrices(self, constants)

    def times(self, prices: Prices) -> PassTimes:
        """Return the seconds of the pass, as `PricedPass.times` does."""
        if not isinstance(prices, EnginePrices):
            return PricedPass.times(self, prices)
        c = prices.constants
        slowdown = np.array(
            [c.collective_slowdown if isinstance(op, Collective) else slowdown_of(op, c) for op in self.examples]
        )
        gap_s = np.where(self.sends > 0, c.synchronization_s, c.kernel_gap_s)
        seconds = self.counts * np.maximum(self.alone * slowdown[self.kinds] + self.gaps * gap_s, self.least)
        work = seconds * (1.0 - self.sends)
        compute_s, work_s = float(work @ self.bound), float(work.sum())
        return PassTimes(compute_s, work_s - compute_s, float(seconds @ self.sends), self.launches)


def tabled(workers: Workers) -> Workers:
    """Return workers whose passes are columns, as far as these say all."""
    all_of = (workers.prefilling, workers.decoding, workers.lighter)
    found = {id(priced): _tabled(priced) for priced in all_of if priced is not None}
    lighter = None if workers.lighter is None else found[id(workers.lighter)]
    return replace(
        workers, prefilling=found[id(workers.prefilling)], decoding=found[id(workers.decoding)], lighter=lighter
    )


def _tabled(priced: PricedGeneration) -> PricedGeneration:
    return replace(priced, passes={phase: _columns(of) for phase, of in priced.passes.items()})


def _columns(priced: PricedPass) -> PricedPass:
    own_kernels = any(isinstance(op, MatrixVector) for op in priced.program.operators)
    return priced if own_kernels else TabledPass.of(priced)


def _kind(op: Operator) -> Hashable:
    """What constants of engines tell operators apart by."""
    return (type(op), *(getattr(op, name, None) for name in ("dtype", "kernel", "decode")))

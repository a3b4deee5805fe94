"""Seconds of a pass through blocks of operators on one device: what their prices add up to."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from sightline.cost.operator_cost import OperatorCost
from sightline.cost.prices import Prices
from sightline.program import Collective, Operator
from sightline.quantities import Number, larger


def in_setting(
    operators: Iterable[Operator], prices: Prices, time_s: Callable[[Operator, OperatorCost], Number]
) -> Prices:
    """Return the prices of operators inside a framework's step or an engine's pass, by what ``time_s`` makes of each.

    Between others an operator takes longer than alone in a benchmark: clocks, cold caches, gaps between kernels, ranks
    that wait for each other. Constants may also say less, as for kernels better than those that were measured alone;
    none makes an operator faster than its arithmetic and its bytes beyond L2 allow.
    """
    found: Prices = {}
    for op in operators:
        alone = prices[id(op)]
        inside_s = time_s(op, alone)
        if inside_s is not alone.time_s:
            inside_s = larger(inside_s, alone.least_s)
            alone = OperatorCost(inside_s, alone.compute_s, alone.memory_s, alone.least_s)
        found[id(op)] = alone
    return found


class PriceRows(dict[int, OperatorCost]):
    """Prices of one plan along an axis of constants: their times are rows of a matrix, whose sums are products."""

    def __init__(self, prices: Prices) -> None:
        super().__init__(prices)
        times = [price.time_s for price in prices.values()]
        self._times = np.empty((len(times), *max(map(np.shape, times))))
        for place, time_s in enumerate(times):
            self._times[place] = time_s
        self._places = dict(zip(prices, range(len(times)), strict=True))

    def seconds(self, operators: Sequence[Operator]) -> Number:
        """Return the seconds of one execution of each operator."""
        if not operators:
            return 0.0
        counts: list[Number] = [0.0] * len(self)
        for op in operators:
            counts[self._places[id(op)]] += op.count
        seconds: Number = np.array(counts) @ self._times
        return seconds

    def times(self, operators: Sequence[Operator]) -> "PassTimes":
        """Return the times of one execution of ``operators``, one after the other."""
        parts: tuple[list[Operator], list[Operator], list[Operator]] = ([], [], [])
        for op in operators:
            price = self[id(op)]
            parts[2 if isinstance(op, Collective) else bool(price.compute_s < price.memory_s)].append(op)
        compute_s, memory_s, collective_s = map(self.seconds, parts)
        return PassTimes(compute_s, memory_s, collective_s, sum((op.launches for op in operators), 0.0))


class PassTimes(NamedTuple):
    """One pass of blocks: the device's work, exposed collectives, and the kernels that the host launches."""

    compute_s: Number = 0.0
    """Operators that arithmetic bounds."""
    memory_s: Number = 0.0
    """Operators that memory bounds, and what kernels lose between each other."""
    collective_s: Number = 0.0
    launches: Number = 0.0
    """Kernels that the host launches."""
    held_s: Number = 0.0
    """Seconds in which the device idles because the host had waited for its results and could not launch ahead."""

    @property
    def work_s(self) -> Number:
        """Seconds of the operators that are no collectives."""
        return self.compute_s + self.memory_s

    @property
    def device_s(self) -> Number:
        """Seconds the device is at work."""
        return self.compute_s + self.memory_s + self.collective_s

    def waiting_s(self, host_s: Number) -> Number:
        """Seconds that the device waits for the host, whose launches take ``host_s``."""
        return larger(host_s - self.device_s, self.held_s)

    def times(self, count: Number) -> "PassTimes":
        """The pass ``count`` times."""
        return PassTimes(*(figure * count for figure in self))


def sum_of_passes(counts: Iterable[Number], passes: Iterable[PassTimes]) -> PassTimes:
    """Return the times of several passes, each as often as ``counts`` says."""
    pairs = [(n, times) for n, times in zip(counts, passes, strict=True) if isinstance(n, np.ndarray) or n]
    if not pairs:
        return PassTimes()
    terms = [times.times(n) if isinstance(n, np.ndarray) or n != 1.0 else times for n, times in pairs]
    return PassTimes._make(map(sum, zip(*terms, strict=True))) if len(terms) > 1 else terms[0]


def operator_times(operators: Sequence[Operator], prices: Prices) -> PassTimes:
    """Return the times of one execution of ``operators``, one after the other."""
    if isinstance(prices, PriceRows):
        return prices.times(operators)
    compute_s: Number = 0.0
    memory_s: Number = 0.0
    collective_s: Number = 0.0
    launches: Number = 0.0
    for op in operators:
        price = prices[id(op)]
        time_s = price.time_s if type(op.count) is float and op.count == 1.0 else op.count * price.time_s
        launches = launches + op.count * (op.kernels + op.host_calls)
        if isinstance(op, Collective):
            collective_s = collective_s + time_s
            continue
        bound = price.compute_s >= price.memory_s
        if isinstance(bound, np.ndarray):
            compute_s = compute_s + time_s * bound
            memory_s = memory_s + time_s * (1.0 - bound)
        elif bound:
            compute_s = compute_s + time_s
        else:
            memory_s = memory_s + time_s
    return PassTimes(compute_s, memory_s, collective_s, launches)


def seconds_of(operators: Sequence[Operator], prices: Prices) -> Number:
    """Return the seconds of one execution of each operator."""
    if isinstance(prices, PriceRows):
        return prices.seconds(operators)
    return sum((op.count * prices[id(op)].time_s for op in operators), 0.0)

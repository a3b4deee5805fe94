"""Passes of an engine written out and priced, and their seconds on the ranks of one replica."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from sightline.cost.prices import Prices, price
from sightline.cost.ranks import Ranks
from sightline.prediction.eager_calls import in_eager_pass, pass_execution
from sightline.prediction.engine_constants import InferenceConstants
from sightline.prediction.generation.engine_times import in_engine
from sightline.prediction.pass_times import PassTimes, operator_times, seconds_of, sum_of_passes
from sightline.program import CachedAttention, InferenceKernels, Operator, Program
from sightline.program.mixer_operators import SelectedAttention
from sightline.quantities import Number


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PricedPass:
    """One pass of a replica through all layers, with the prices of its operators, whatever engine runs it."""

    kernels: InferenceKernels
    program: Program
    prices: Prices

    def in_engine(self, constants: InferenceConstants) -> Prices:
        """Return the prices as the engine runs the operators."""
        return in_engine(operators_of(self.program), self.prices, constants)

    def times(self, prices: Prices) -> PassTimes:
        """Return the seconds of the pass, as if one device (with its tensor-parallel peers) held all layers."""
        blocks = self.program.blocks
        return sum_of_passes(
            [float(block.count) for block in blocks], [operator_times(block.operators, prices) for block in blocks]
        )

    def attention_s(self, prices: Prices) -> Number:
        """Return the seconds of the pass that new tokens spend with the tokens before them."""
        attending = (CachedAttention, SelectedAttention)
        return sum(
            block.count * seconds_of([op for op in block.operators if isinstance(op, attending)], prices)
            for block in self.program.layers
        )


def price_passes(passes: Sequence[Program], ranks: Ranks) -> Prices:
    """Return the price of every operator of several passes, priced together where launches are asynchronous."""
    if ranks.device_model.asynchronous:
        return price([op for of in passes for op in operators_of(of)], ranks)
    prices: Prices = {}
    for of in passes:
        raw = price(operators_of(of), replace(ranks, execution=partial(pass_execution, of)))
        prices |= in_eager_pass(of, raw, ranks.device_model)
    return prices


def operators_of(of: Program) -> list[Operator]:
    """Return the operators of all blocks, in order of execution."""
    return [op for block in of.blocks for op in block.operators]

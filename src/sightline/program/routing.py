"""How a router's choices spread over experts and ranks: expected numbers of random choices."""

from functools import cache
from math import erfc, exp, lgamma, log, pi, sqrt
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from sightline.content import record
from sightline.program.shapes import Shapes
from sightline.quantities import Number, plain, rounded_up
from sightline.scenario import Experts

Array = NDArray[np.floating[Any]]
Sizes = TypeVar("Sizes", bound=Shapes)


POPULARITY = 0.9
"""Relative deviation of experts' popularity in a layer: what serving runs of mixtures ask for, between a uniform choice
(0) and an exponential spread (1). Estimated."""

NARROW = 0.5
"""Relative deviation below which loads are as good as those of a normal distribution's cubes."""


@record
class RoutedExperts(Generic[Sizes]):
    """The routed experts of a layer on the rank whose experts get most tokens."""

    x: Sizes
    of: Experts
    width: float
    """Elements of a token on its way."""
    redundant: Number = 0
    """Copies of busy experts besides all experts, on all ranks."""

    @property
    def local(self) -> Number:
        """Experts that the rank holds; where they do not fill ranks evenly, copies of busy ones fill these up."""
        return rounded_up((self.of.count + self.redundant) / self.x.e)


def expected_active(experts: Number, per_token: Number, tokens: Number, *, spread: float = POPULARITY) -> Number:
    """Return how many of ``experts`` receive at least one of ``tokens``, each choosing ``per_token`` distinct ones.

    ``E (1 - (1 - k / E)^tokens)`` for a uniform choice (``spread`` 0). Popular experts are chosen again and again: with
    popularities spread as a gamma distribution of relative deviation ``s``, ``E (1 - (1 + s^2 L)^(-1 / s^2))``, where
    ``L = -tokens ln(1 - k / E)``. A single token has its ``per_token``.
    """
    share = np.minimum(per_token / experts, 1.0 - 1e-12)
    # What the first token chooses is distinct whatever the spread; the others add to it.
    further = -np.log1p(-share) * np.maximum(tokens - 1.0, 0.0)
    square = spread**2
    untouched = np.exp(-further) if square == 0 else (1.0 + square * further) ** (-1.0 / square)
    active: Array = experts * (1.0 - (1.0 - share) * untouched)
    return active


def distinct_ranks(experts: float, per_token: float, ranks: Number, *, group_share: float = 1.0) -> Number:
    """Return on how many of ``ranks`` with equally many of ``experts`` a token's ``per_token`` distinct choices lie.

    ``R (1 - C(E - E/R, k) / C(E, k))`` for a uniform choice. Where a token first chooses groups of experts, a
    ``group_share`` of all, only so many experts and ranks are left for it (arXiv 2412.19437).
    """
    left = experts * group_share
    holding = np.maximum(np.asarray(ranks, dtype=float) * group_share, 1.0)
    missed: Number = 1.0
    for i in range(int(per_token)):
        missed = missed * np.maximum(left - left / holding - i, 0.0) / (left - i)
    reached: Array = holding * (1.0 - missed)
    return reached


def busiest_share(ranks: Number, assignments: Number, *, skew: Number = 0.0, lasting: Number = 0.0) -> Number:
    """Return the expected share of ``assignments`` on the busiest of ``ranks`` that hold equally many experts each.

    A multinomial's counts scatter by ``sqrt(mean (1 - 1 / ranks))``; ``skew`` adds the lasting unevenness of experts,
    as the relative deviation of a rank's load (`largest_of`), or ``lasting``, what the busiest has of it beyond the
    mean (`lasting_excess`); a rank has at most everything. One rank has share 1.
    """
    square = (ranks - 1.0) / np.maximum(assignments, 1e-9) + np.asarray(skew, dtype=float) ** 2
    excess = np.sqrt(largest_of(ranks) ** 2 * square + np.asarray(lasting, dtype=float) ** 2)
    share: Array = np.minimum((1.0 + excess) / ranks, 1.0)
    return share


def lasting_excess(experts: float, ranks: Number, *, spread: float, copies: Number | None = None) -> Number:
    """Return how far beyond the mean the load of the busiest of ``ranks`` lies, of experts with unlike popularity.

    Without ``copies`` experts stand as they are numbered, and a rank's load is the sum of its experts' popularity. With
    any number of them, 0 included, experts are placed by their load, and further ones of the busiest share its tokens
    (EPLB, github.com/deepseek-ai/EPLB). Packing then evens out all but the heaviest copy, which stays whole. Left out:
    loads that change after experts were placed, and copies that have to stay within a node.
    """
    if spread == 0.0:
        return 0.0 * ranks

    def excess(ranks: float, copies: float) -> float:
        if ranks <= 1:
            return 0.0
        local = experts / ranks
        if copies < 0:
            return heaviest_copy(ranks, 0.0, spread / sqrt(local)) - 1.0
        return max(heaviest_copy(experts, copies, spread) / local - 1.0, 0.0)

    found: Number = np.vectorize(excess, otypes=[float])(ranks, -1.0 if copies is None else copies)[()]
    return found


@cache
def heaviest_copy(count: float, copies: float, spread: float) -> float:
    """Return the expected load of the heaviest of ``count`` parts with mean 1 after the busiest got ``copies`` more.

    Loads are spread as a gamma distribution of relative deviation ``spread``. Copies go to whatever is heaviest, so
    that none is heavier than the ``c`` at which ``count sum_j P(load > j c)`` is their number; the expected largest has
    ``exp(-0.577)`` above it (extreme values). Within 5 % of EPLB's own placement up to a spread of 3.
    """
    wanted = (copies + np.exp(-np.euler_gamma)) / count
    low, high = 0.0, 100.0 * (1.0 + spread**2)
    while high - low > 1e-6 * high:
        middle, above, times = (low + high) / 2.0, 0.0, 1
        while (tail := _tail(times * middle, spread)) > 1e-9:
            above, times = above + tail, times + 1
        low, high = (middle, high) if above > wanted else (low, middle)
    return min(high, count)


def _tail(load: float, spread: float) -> float:
    """Return the probability of a load above this one, of a gamma distribution with mean 1 and relative deviation.

    By the series of the incomplete gamma function (NIST's Digital Library of Mathematical Functions 8.7.1); of narrow
    ones, which take many terms, as that of a normal cube root (Wilson and Hilferty 1931), which fails above 2.
    """
    if spread < NARROW:
        ninth = spread**2 / 9.0
        return erfc((load ** (1 / 3) - 1.0 + ninth) / sqrt(2.0 * ninth)) / 2.0
    shape = order = 1.0 / (spread * spread)
    x = shape * load
    term = total = 1.0 / shape
    while term > 1e-14 * total:
        order += 1.0
        term *= x / order
        total += term
    return 1.0 - total * exp(shape * log(x) - x - lgamma(shape))


def busiest_active(experts: Number, active: Number, ranks: Number) -> Number:
    """Return how many experts of the rank with most active ones are, of ``active`` of all ``experts``, evenly placed.

    Which of them are active falls on ranks as draws without replacement do (hypergeometric): whatever experts'
    popularity, with variance ``m p (1 - p) (1 - 1 / R)`` for ``m`` experts of a rank and ``p`` active of each.
    """
    local, share = rounded_up(experts / ranks), np.minimum(active / experts, 1.0)
    deviation = np.sqrt(local * share * (1.0 - share) * (1.0 - 1.0 / np.asarray(ranks, dtype=float)))
    busiest: Array = np.minimum(local * share + largest_of(ranks) * deviation, np.minimum(local, active))
    return busiest


def largest_of(count: Number) -> Array:
    """Return how many deviations above the mean the largest of ``count`` normal variables lies; 0 for one.

    About ``sqrt(2 ln R) - (ln ln R + ln 4 pi) / (2 sqrt(2 ln R))`` and Euler's constant over the root (extreme values).
    Between 1 and 4 that form fails; the exact means of the largest of 2, 3 and 4 stand in.
    """
    r = np.maximum(np.asarray(count, dtype=float), 4.0)
    high = np.sqrt(2 * np.log(r))
    many = high - (np.log(np.log(r)) + np.log(4 * pi)) / (2 * high) + np.euler_gamma / high
    largest: Array = np.where(np.less(count, 4), np.interp(count, [1, 2, 3, 4], [0.0, 0.564, 0.846, 1.029]), many)
    return largest


def busiest_count(ranks: Number, mean: Number) -> Array:
    """Return the expected largest of the counts of ``ranks``, each Poisson with a ``mean``, if any is above none.

    ``sum_k (1 - P(count <= k)^R)`` over the chance of any; counts of many are normal (`largest_of`).
    """
    few = np.minimum(np.asarray(mean, dtype=float), 50.0)
    chance = below = np.exp(-few)
    largest, k = 0.0 * few, 0
    while np.any((above := 1.0 - below ** (1.0 * ranks)) > 1e-9):
        largest, k = largest + above, k + 1
        chance = chance * few / k
        below = np.minimum(below + chance, 1.0)
    many = mean + largest_of(ranks) * np.sqrt(mean)
    busiest: Array = np.where(np.less(mean, 50.0), largest / -np.expm1(-few * ranks), many)
    return busiest


@record
class SequenceGroup:
    """Sequences of a data-parallel rank that are alike: ``count x (new tokens, context)``."""

    count: Number
    new_tokens: Number
    """Of each sequence: a prompt, a chunk of it, or what a step of decoding adds."""
    context_tokens: Number = 0.0
    """Tokens of each that are cached already."""
    decode: bool = False
    """Few new tokens: kernels split the context over the device instead of walking along it per block of queries."""
    logits: Number = 1.0
    """Tokens of each whose logits are wanted."""
    evenness: Number = 1.0
    """New tokens of such groups on all ranks that share experts, over as many of this, the busiest."""

    @property
    def tokens(self) -> Number:
        """New tokens of all sequences."""
        return self.count * self.new_tokens


@record
class Batch:
    """The groups of one iteration; linear layers run over the tokens of all, attention group by group."""

    groups: tuple[SequenceGroup, ...]
    in_turns: Number = 1
    """Such batches that devices with attention and devices with experts take in turns."""

    @classmethod
    def of(cls, *groups: SequenceGroup, in_turns: Number = 1) -> "Batch":
        """Return the batch of ``groups``."""
        return cls(groups=groups, in_turns=in_turns)

    @property
    def tokens(self) -> Number:
        """New tokens of all groups."""
        return sum(group.tokens for group in self.groups)

    @property
    def mean_tokens(self) -> Number:
        """New tokens of all groups on the mean of the ranks that share experts."""
        return sum(group.tokens * group.evenness for group in self.groups)

    @property
    def logits(self) -> Number:
        """Tokens of all groups whose logits are wanted."""
        return sum(group.count * group.logits for group in self.groups)

    @property
    def decode(self) -> bool:
        """Whether all groups decode, so that engines take kernels for few tokens, as a captured graph has them."""
        return all(group.decode for group in self.groups)


def prompts(count: Number, new_tokens: Number, context_tokens: Number = 0.0) -> SequenceGroup:
    """Return prompts, or chunks of them behind what is cached; each wants the logits of its last token."""
    return SequenceGroup(count=plain(count), new_tokens=plain(new_tokens), context_tokens=plain(context_tokens))


def decoding(count: Number, context_tokens: Number, new_tokens: Number = 1.0) -> SequenceGroup:
    """Return sequences that get a token each, or verify drafted ones; the logits of all new tokens are wanted."""
    new = plain(new_tokens)
    return SequenceGroup(
        count=plain(count), new_tokens=new, context_tokens=plain(context_tokens), decode=True, logits=new
    )

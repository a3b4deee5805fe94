"""How long samples are, and what rows they make: padded to the longest of their micro-batch, or packed."""

from dataclasses import fields
from functools import cache
from math import ceil, inf, log, sqrt
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightline.content import description
from sightline.quantities import Count, Number

Distribution = Literal["lognormal", "normal", "uniform", "empirical"]
DRAWN = 1024
"""Lengths that stand for a distribution: its quantiles, equally likely."""
FEWEST_ROWS = 8
"""Rows that are packed to see how full they get."""

Array = NDArray[np.float64]


@description
class Lengths:
    """Tokens of the samples, as a distribution."""

    distribution: Distribution
    mean: float = 0.0
    deviation: float = 0.0
    """Standard deviation (lognormal, normal)."""
    low: float = 1.0
    high: float = inf
    """Shortest and longest; what is drawn beyond them is cut there."""
    values: tuple[float, ...] = ()
    """Lengths as they were found (empirical)."""

    def to_dict(self) -> dict[str, Any]:
        """The keys that the distribution has."""
        own = {"uniform": ("low", "high"), "empirical": ("values",)}.get(self.distribution, ("mean", "deviation"))
        cut = {f.name for f in fields(self) if f.name in ("low", "high") and getattr(self, f.name) != f.default}
        return {"distribution": self.distribution} | {
            f.name: getattr(self, f.name) for f in fields(self) if f.name in {*own, *cut}
        }

    @property
    def expected(self) -> float:
        """Their mean, neither whole nor cut at the length of a row."""
        return float(self._uncut().mean())

    def sampled(self, random: "np.random.Generator", count: int, *, whole: bool = True) -> Array:
        """Return so many random lengths, whole and from ``low`` to ``high``; seconds need not be ``whole``.

        Drawn in several calls they are the same as in one.
        """
        drawn = self._random(random, count)
        return np.clip(np.round(drawn), max(1.0, self.low), self.high) if whole else np.clip(drawn, self.low, self.high)

    def _random(self, random: "np.random.Generator", count: int) -> Array:
        if self.distribution == "empirical":
            values = np.asarray(self.values, dtype=float)
            return values[(random.random(count) * values.size).astype(np.int64)]
        if self.distribution == "uniform":
            return self.low + (self.high - self.low) * random.random(count)
        return self._spread(random.standard_normal(count))

    def drawn(self, longest: int) -> Array:
        """Return equally likely lengths, shortest first, whole and cut at ``longest``."""
        return np.clip(np.round(self._uncut()), 1.0, float(longest))

    def cut_share(self, longest: int) -> float:
        """Return the share of the samples that are longer than ``longest``."""
        return float(np.mean(self._uncut() > longest))

    def _uncut(self) -> Array:
        """Equally likely lengths between ``low`` and ``high``, in no limit of a row."""
        return np.clip(self._quantiles(), self.low, self.high)

    def _quantiles(self) -> Array:
        if self.distribution == "empirical":
            return np.repeat(np.sort(np.asarray(self.values, dtype=float)), -(-DRAWN // len(self.values)))
        ranks = (np.arange(DRAWN) + 0.5) / DRAWN
        if self.distribution == "uniform":
            return self.low + (self.high - self.low) * ranks
        from statistics import NormalDist

        return self._spread(np.array([NormalDist().inv_cdf(rank) for rank in ranks]))

    def _spread(self, normal: Array) -> Array:
        """Lengths of a normal or lognormal distribution that standard normal numbers stand for."""
        if self.distribution == "normal":
            return self.mean + self.deviation * normal
        # Mean and deviation are the samples' own, not those of their logarithms.
        variance = log(1.0 + (self.deviation / self.mean) ** 2)
        spread: Array = np.exp(log(self.mean) - variance / 2.0 + sqrt(variance) * normal)
        return spread


class Rows(NamedTuple):
    """Rows as the model sees them."""

    tokens: Number
    """Of a row, padding included."""
    squares: Number
    """Sum of the squared lengths that attention works on in a row."""
    real: float
    """Tokens of a row without padding."""
    real_squares: float
    """Sum of the squared lengths of a row's samples."""
    spread: Number
    """Relative deviation of the work that differs from row to row: attention's of packed rows, all of padded ones."""


def padded_rows(lengths: Lengths, longest: int, micro_batch: Count) -> Rows:
    """Return rows of one sample each, padded to the longest of their micro-batch.

    The longest of b random lengths is the i-th of n equally likely ones with probability (i / n)^b - ((i - 1) / n)^b.
    """
    drawn = lengths.drawn(longest)
    n, b = drawn.size, np.asarray(micro_batch, dtype=float)[..., None]
    ranks = np.arange(n + 1) / n
    chances = np.diff(ranks**b, axis=-1)
    tokens = (chances * drawn).sum(-1)
    squares = (chances * drawn**2).sum(-1)
    spread = np.sqrt(np.maximum(squares / tokens**2 - 1.0, 0.0))
    scalar = np.ndim(micro_batch) == 0
    return Rows(
        tokens=float(tokens) if scalar else tokens,
        squares=float(squares) if scalar else squares,
        real=float(drawn.mean()),
        real_squares=float((drawn**2).mean()),
        spread=float(spread) if scalar else spread,
    )


@cache
def packed_rows(lengths: Lengths, row_tokens: int) -> Rows:
    """Return rows of ``row_tokens`` that hold several whole samples: first fit of samples in random order.

    The order is drawn once and for all, so that the same lengths always make the same rows.
    """
    from random import Random

    once = [float(length) for length in lengths.drawn(row_tokens)]
    drawn = once * ceil(FEWEST_ROWS * row_tokens / sum(once))
    Random(0).shuffle(drawn)  # noqa: S311 - an order, no secret
    rows: list[tuple[float, float]] = []
    for length in drawn:
        i = next((i for i, (filled, _) in enumerate(rows) if filled + length <= row_tokens), None)
        if i is None:
            rows.append((length, length**2))
        else:
            rows[i] = (rows[i][0] + length, rows[i][1] + length**2)
    # The last row is still being filled, unless it is the only one.
    filled, squares = np.array(rows[:-1] or rows).T
    return Rows(
        tokens=float(row_tokens),
        squares=float(squares.mean()),
        real=float(filled.mean()),
        real_squares=float(squares.mean()),
        spread=float(squares.std() / squares.mean()),
    )

"""What is believed of constants: normal distributions of logarithmic effects, and what measurements teach about them.

An effect is a shift of a constant on its scale (a logarithm, or log-odds of a fraction) by one cause: the device, the
framework, the site of a measurement. A prediction's logarithm is taken as linear in the effects around its mean; then
its variance, and what measured steps teach, are those of a normal distribution (Gelman et al., Bayesian Data Analysis,
3rd ed., ch. 5 and 14).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.catalog import entry
from sightline.content import record

Array = NDArray[np.float64]
Gradient = Mapping[str, Any]
"""By effect, how the logarithm of a result moves with it; effects that are not named do not move it."""
ROUNDS = 12
"""Linearizations of a result that are tried, at most."""
HALVINGS = 5
"""Step lengths that are tried where a result bends."""
CAUSES = ("all", "device", "lent", "kernel", "framework", "code", "site")
"""What a constant may depend on; ``lent`` is what sets a device apart from the relative whose effects it has, and
``kernel`` the generation of attention kernels on the device; ``code`` is whose model code a framework runs."""
SETTLED = 1e-3
"""Largest change of a logarithm from one to the next that is none."""


@cache
def stated_spreads(task: str) -> Mapping[str, Mapping[str, float]]:
    """Return the standard deviations of effects that the catalog states for a task, by constant and cause."""
    stated = entry(task, "constants")
    spreads = {}
    for name, constant in stated["constants"].items():
        spreads[name] = {cause: float(constant[cause]) for cause in CAUSES if cause in constant}
        if "device" in constant:
            spreads[name]["lent"] = constant["device"] * stated["lent"]
    return spreads


def stated_spread(task: str, effect: str) -> float:
    """Return the standard deviation of an effect before anything is measured; its name is CONSTANT/CAUSE/WHICH."""
    constant, cause, _ = effect.split("/", 2)
    return stated_spreads(task)[constant][cause]


@record
class Beliefs:
    """Means and covariance of effects estimated together; any other effect is independent, with a mean of 0."""

    names: tuple[str, ...]
    mean: Array
    covariance: Array
    prior: Callable[[str], float]
    """Standard deviation of an effect before anything is measured, by its name."""

    def mean_of(self, name: str) -> float:
        """Return the mean of an effect."""
        place = _places(self.names).get(name)
        return 0.0 if place is None else float(self.mean[place])

    def spread_of(self, name: str) -> float:
        """Return the standard deviation of an effect."""
        place = _places(self.names).get(name)
        return self.prior(name) if place is None else float(np.sqrt(self.covariance[place, place]))

    def with_effects(self, wanted: Sequence[str]) -> "Beliefs":
        """Return the same beliefs with all ``wanted`` effects among the named ones."""
        known = _places(self.names)
        new = tuple(name for name in dict.fromkeys(wanted) if name not in known)
        if not new:
            return self
        size, total = len(self.names), len(self.names) + len(new)
        covariance = np.zeros((total, total))
        covariance[:size, :size] = self.covariance
        covariance[range(size, total), range(size, total)] = [self.prior(name) ** 2 for name in new]
        mean = np.concatenate([self.mean, np.zeros(len(new))])
        return replace(self, names=self.names + new, mean=mean, covariance=covariance)

    def matrix(self, gradients: Sequence[Gradient]) -> Array:
        """Return the gradients as rows over the named effects."""
        places = _places(self.names)
        rows = np.zeros((len(gradients), len(self.names)))
        for row, gradient in zip(rows, gradients, strict=True):
            for name, slope in gradient.items():
                row[places[name]] += slope
        return rows

    def joint_variance(self, gradients: Sequence[Gradient]) -> Array:
        """Return the covariance of several results' logarithms, noise of their cases left out."""
        effects = list(dict.fromkeys(name for gradient in gradients for name in gradient))
        rows = np.array([[gradient.get(name, 0.0) for name in effects] for gradient in gradients])
        joint: Array = rows @ self._covariance_of(effects) @ rows.T
        return joint

    def variance(self, gradient: Gradient) -> Any:
        """Return the variance of a result's logarithm, noise of its case left out; of many results one for each."""
        slopes = np.array(list(gradient.values()), dtype=float)
        return (slopes * (self._covariance_of(list(gradient)) @ slopes)).sum(axis=0)

    def _covariance_of(self, effects: Sequence[str]) -> Array:
        """The covariance of some effects."""
        places = _places(self.names)
        known = [place for place, name in enumerate(effects) if name in places]
        own = [places[effects[place]] for place in known]
        covariance = np.diag([0.0 if name in places else self.prior(name) ** 2 for name in effects])
        covariance[np.ix_(known, known)] = self.covariance[np.ix_(own, own)]
        return covariance

    def after(self, gradients: Sequence[Gradient], errors: Array, noise: Array) -> "Beliefs":
        """Return what is believed after measurements.

        ``errors`` are logarithms of measured over predicted with today's means, ``noise`` the covariance of what the
        effects do not explain.
        """
        own = self.with_effects([name for gradient in gradients for name in gradient])
        rows = own.matrix(gradients)
        spread = own.covariance @ rows.T
        gain = np.linalg.solve(rows @ spread + noise, spread.T).T
        covariance = own.covariance - gain @ spread.T
        return replace(own, mean=own.mean + gain @ errors, covariance=(covariance + covariance.T) / 2)


@lru_cache(maxsize=64)
def _places(names: tuple[str, ...]) -> dict[str, int]:
    """Where each effect stands."""
    return {name: place for place, name in enumerate(names)}


class Slopes(Sequence[Gradient]):
    """Gradients that are worked out once somebody looks at them: a step that leads nowhere needs none."""

    def __init__(self, count: int, found: Callable[[], Sequence[Gradient]]) -> None:
        """Take their number, and what works them out."""
        self._count, self._found = count, cache(found)

    def __len__(self) -> int:
        """Return how many there are."""
        return self._count

    def __getitem__(self, place: Any) -> Any:
        """Return one of them, or some."""
        return self._found()[place]


Predict = Callable[[Beliefs], tuple[Array, Sequence[Gradient]]]
"""Logarithms of predictions at the means of some beliefs, and their gradients there."""


def learned(
    prior: Beliefs,
    predict: Predict,
    measured: Array,
    noise: Array,
    *,
    starts: Sequence[Beliefs] = (),
    robust: bool = False,
    rounds: int = ROUNDS,
) -> Beliefs:
    """Return what is believed after measurements, whose logarithms are ``measured``.

    ``noise`` is the covariance of what effects do not explain. Results are linearized again where they led to, as long
    as that explains more (Gauss-Newton with halved steps). A ``robust`` search lets errors far beyond the noise count
    by their size instead of their square (soft l1). ``starts`` are where they are linearized first, if not at the
    ``prior`` means; the end that explains most wins.
    """
    ends = [_search(prior, start, predict, measured, noise, robust, rounds) for start in starts or (prior,)]
    return min(ends, key=itemgetter(1))[0]


def _search(
    prior: Beliefs, start: Beliefs, predict: Predict, measured: Array, noise: Array, robust: bool, rounds: int
) -> tuple[Beliefs, float]:
    """Where a search from one start ends, and what it costs there."""
    predicted, gradients = predict(start)
    before, reached = _aligned(prior, start, gradients)
    cost = _cost(before, reached, measured - predicted, noise, robust=robust)
    for _ in range(rounds):
        errors = measured - predicted + before.matrix(gradients) @ (reached.mean - before.mean)
        after = _settled(before, gradients, errors, noise) if robust else before.after(gradients, errors, noise)
        if rounds == 1:
            return after, cost
        tried = _better(before, reached, after, cost, predict, measured, noise, robust=robust)
        if tried is None:
            break
        moved = float(np.abs(tried[0].mean - reached.mean).max(initial=0.0))
        reached, cost, predicted, gradients = tried
        if moved < SETTLED:
            break
        # Where it led to, results may hang on more.
        before, reached = _aligned(prior, reached, gradients)
    return replace(after, mean=np.array([reached.mean_of(name) for name in after.names])), cost


def _aligned(prior: Beliefs, reached: Beliefs, gradients: Sequence[Gradient]) -> tuple[Beliefs, Beliefs]:
    """The prior and what was found, both of all effects that either or a gradient names."""
    before = prior.with_effects([*reached.names, *(name for gradient in gradients for name in gradient)])
    return before, replace(before, mean=np.array([reached.mean_of(name) for name in before.names]))


def _better(
    before: Beliefs,
    reached: Beliefs,
    after: Beliefs,
    cost: float,
    predict: Predict,
    measured: Array,
    noise: Array,
    *,
    robust: bool,
) -> tuple[Beliefs, float, Array, Sequence[Gradient]] | None:
    """The first of ever shorter steps towards ``after`` that costs less, with its predictions; None where none does."""
    for halvings in range(HALVINGS):
        tried = replace(after, mean=reached.mean + (after.mean - reached.mean) / 2**halvings)
        predicted, gradients = predict(tried)
        new = _cost(before, tried, measured - predicted, noise, robust=robust)
        if new < cost:
            return tried, new, predicted, gradients
    return None


def _cost(prior: Beliefs, reached: Beliefs, errors: Array, noise: Array, *, robust: bool) -> float:
    """Twice the negative logarithm of the posterior density, but for a constant."""
    moved = reached.mean - prior.mean
    if robust:
        explained = float(2 * np.sum(np.sqrt(1 + errors**2 / np.diag(noise)) - 1))
    else:
        explained = float(errors @ np.linalg.solve(noise, errors))
    return explained + float(moved @ np.linalg.solve(prior.covariance, moved))


def _settled(prior: Beliefs, gradients: Sequence[Gradient], errors: Array, noise: Array) -> Beliefs:
    """What is believed after measurements of which some are outliers, each with noise of its own."""
    variance = np.diag(noise)
    reached = prior.after(gradients, errors, noise)
    for _ in range(10):
        left = errors - reached.matrix(gradients) @ (reached.mean - prior.mean)
        wilder = np.sqrt(1 + left**2 / variance)
        reached = prior.after(gradients, errors, np.diag(variance * wilder))
    return reached

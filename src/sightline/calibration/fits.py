"""Measured operators as arrays, and fits of constants to their times.

Fits are least squares of logarithmic errors, robust against outliers. A constant lies in a range that a search
may not leave, or has a prior where few measurements support it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar
from zlib import crc32

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sightline.calibration.error_figures import error_statistics
from sightline.cost.residual_surface import Axis, ResidualSurface
from sightline.program import Operator
from sightline.program.operators import Module, Part
from sightline.quantities import significant

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Array = NDArray[np.float64]
Constants = Mapping[str, float]
Kind = TypeVar("Kind", bound=Operator)
AnyTable = TypeVar("AnyTable", bound="Table")

ORDINARY_ERROR = 0.05
"""Relative error up to which a measurement counts by its square; beyond, by its size: a kernel chosen badly, a busy
host."""
PRIOR_WEIGHT = 0.06
"""Pull on the logarithm of every constant towards its centre: decides only what the data leave open."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """Columns of equal length, one element per measurement."""

    seconds: Array
    unit: ClassVar[str] = "FLOP"
    """Of ``size``."""

    @property
    def size(self) -> Array:
        """What a chart lays along its axis: FLOPs, or bytes."""
        raise NotImplementedError

    @classmethod
    def of(cls, rows: pl.DataFrame) -> Self:
        """The columns of samples that the table has by name."""
        return cls(**columns(rows, *(f.name for f in fields(cls))))

    def operators(self, kind: type[Kind], module: Module, part: Part, **stated: Any) -> Kind:
        """The measured operators at an address: sizes that columns are named after, and what else is ``stated``."""
        sizes = {f.name: getattr(self, f.name) for f in fields(self) if f.name in kind.__dataclass_fields__}
        return kind(module=module, part=part, **{**sizes, **stated})

    def named(self, *sizes: str, between: str = "x") -> list[str]:
        """What measurements with the same sizes are called, such as 4096x1024."""
        rows = zip(*(getattr(self, size) for size in sizes), strict=True)
        return [between.join(f"{size:.0f}" for size in row) for row in rows]

    def __len__(self) -> int:
        return len(self.seconds)

    def where(self, mask: NDArray[np.bool_]) -> Self:
        """The measurements for which ``mask`` holds; what is no column is the same for all of them."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return type(self)(**{n: v[mask] if isinstance(v, np.ndarray) else v for n, v in values.items()})


def columns(rows: pl.DataFrame, *names: str) -> dict[str, Array]:
    """Columns of samples as arrays by name: truth values as they are, all others as floats."""
    arrays = {name: rows[name].to_numpy() for name in names}
    return {name: array if array.dtype == bool else array.astype(float) for name, array in arrays.items()}


def by_kernel(rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The samples of each kernel, in order of their names."""
    return {str(name): part for (name,), part in sorted(rows.group_by(["kernel"]), key=lambda pair: str(pair[0][0]))}


class Range(NamedTuple):
    """Where a constant may lie, and where the search for it starts."""

    low: float
    starts: tuple[float, ...]
    high: float


class Prior(NamedTuple):
    """Where a constant lies before anything is measured."""

    value: float
    spread: float
    """Standard deviation of its logarithm."""
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FitResult:
    """Constants by name, the figures they were fitted on, and what they leave unexplained."""

    constants: Mapping[str, Any]
    rows: Mapping[str, int]
    residuals: Mapping[str, Mapping[str, float]]
    """Statistics of the relative error by range of shapes."""


def ranges_of(stated: Mapping[str, Any], known: Mapping[str, Any] | Sequence[str] = ()) -> dict[str, Range]:
    """Return the ranges that a manifest states, without those it states as null and of constants that are ``known``."""
    ranges = {}
    for name, said in stated.items():
        if said is not None and name not in known:
            low, starts, high = said
            ranges[name] = Range(low, tuple(starts) if isinstance(starts, list) else (starts,), high)
    return ranges


def priors_of(stated: Mapping[str, Any]) -> dict[str, Prior]:
    """Return the priors that a manifest states, without those it states as null."""
    return {name: Prior(*said) for name, said in stated.items() if said is not None}


def fit_constants(
    predict: Callable[[Constants], Array], seconds: Array, ranges: Mapping[str, Range]
) -> dict[str, float]:
    """Return the constants whose predictions are nearest to ``seconds``: least squares of soft-l1 logarithmic errors.

    Formulas with whole tiles have steps, so the search starts from the first start of every range and again with each
    further start of one of them; the best end wins. Rounded to three digits.
    """
    low, high = (np.array([getattr(r, side) for r in ranges.values()]) for side in ("low", "high"))

    def errors(x: Array) -> Array:
        logarithms: Array = np.log(predict(dict(zip(ranges, x, strict=True))) / seconds)
        return logarithms

    best = _best(
        errors,
        _range_starts(ranges),
        (low, high),
        x_scale=lambda start: np.maximum(np.abs(start), 1e-3 * high),
        diff_step=0.02,
        max_nfev=30,
    )
    return {name: significant(x) for name, x in zip(ranges, best, strict=True)}


def within(
    ranges: Mapping[str, Range], known: Mapping[str, Any], predict: Callable[[AnyTable, Mapping[str, Any]], Array]
) -> Callable[[AnyTable], dict[str, Any]]:
    """Return what fits a table: constants ``known``, and those within ``ranges`` that `fit_constants` finds."""

    def fit(table: AnyTable) -> dict[str, Any]:
        return {**known, **fit_constants(lambda x: predict(table, {**known, **x}), table.seconds, ranges)}

    return fit


def fit_with_priors(
    predict: Callable[[Constants], Array],
    measured: Array,
    weights: Array,
    priors: Mapping[str, Prior],
    *,
    starts: Sequence[Constants] = (),
    near: Constants | None = None,
) -> dict[str, float]:
    """Return the constants named in ``priors`` whose predictions are nearest to ``measured``, to three digits.

    The fit is the maximum a posteriori: robust squares of logarithmic errors plus squared distances to the priors. Each
    measurement counts with its weight, normalised so that the data's total weight is their number. The search starts
    from the priors, and again from each of ``starts``, which says where that differs; the best end wins. Constants
    known to be ``near`` the end are where it starts instead.
    """
    values, spreads = (np.array([getattr(p, side) for p in priors.values()]) for side in ("value", "spread"))
    scale = np.sqrt(weights / weights.mean())

    def errors(logs: Array) -> Array:
        data = scale * np.log(predict(dict(zip(priors, values * np.exp(logs), strict=True))) / measured)
        return np.concatenate([data, ORDINARY_ERROR * logs / spreads])

    low, high = (np.log([getattr(p, side) / p.value for p in priors.values()]) for side in ("low", "high"))
    others = [
        np.array([np.log(other[n] / p.value) if n in other else 0.0 for n, p in priors.items()]) for other in starts
    ]
    first = [0 * values, *(one for one in others if one.any())]
    if near is not None:
        first = [np.array([np.log(near[name] / p.value) for name, p in priors.items()])]
    best = _best(
        errors,
        [np.clip(logs, low + 1e-3, high - 1e-3) for logs in first],
        (low, high),
        diff_step=0.02,
        max_nfev=25,
    )
    return {name: significant(v) for name, v in zip(priors, values * np.exp(best), strict=True)}


def robust_fit(
    model: Callable[[Array], Array], measured: Array, centre: Array, least: Array, most: Array, starts: Sequence[Array]
) -> Array:
    """Return the positive values, within bounds, whose model is nearest to what was measured, from the best start.

    Starts are logarithms; so are the distances between model and measurement, and to the centre.
    """
    low, high = np.log(least), np.log(most)

    def errors(logs: Array) -> Array:
        pull = PRIOR_WEIGHT * (logs - np.log(centre))
        return np.concatenate([np.log(model(np.exp(logs)) / measured), pull])

    clipped = [np.clip(start, low + 1e-6, high - 1e-6) for start in starts]
    values: Array = np.exp(_best(errors, clipped, (low, high), max_nfev=200, xtol=1e-6))
    return values


def _best(
    errors: Callable[[Array], Array],
    starts: Sequence[Array],
    bounds: tuple[Array, Array],
    x_scale: Callable[[Array], Any] = lambda _: 1.0,
    **settings: Any,
) -> Array:
    """The end with the least cost of the searches from all ``starts``; ``x_scale`` says how far a variable moves."""
    from scipy.optimize import least_squares

    ends = [
        least_squares(
            errors,
            start,
            bounds=bounds,
            loss="soft_l1",
            f_scale=ORDINARY_ERROR,
            x_scale=x_scale(start),
            **settings,
        )
        for start in starts
    ]
    best: Array = min(ends, key=lambda end: float(end.cost)).x
    return best


def _range_starts(ranges: Mapping[str, Range]) -> list[Array]:
    """The first starts of all ranges, and what differs from them in one further start."""
    first = np.array([r.starts[0] for r in ranges.values()])
    others = [(i, other) for i, r in enumerate(ranges.values()) for other in r.starts[1:]]
    return [first, *(np.where(np.arange(len(first)) == i, other, first) for i, other in others)]


def share_of(keys: Sequence[str]) -> Array:
    """A fixed number between 0 and 1 for each key, for splits and samples that anyone can repeat."""
    return np.array([crc32(key.encode()) / 2**32 for key in keys])


STIFFNESS = 0.1
"""Weight of a bend between neighbouring knots, for knots one octave apart, against one measurement's error."""
PULL = 1e-2
"""Weight that pulls every knot to no correction, so that corners without measurements have none."""
ORDINARY = 0.03
"""Logarithmic error up to which a measurement counts by its square in a surface; beyond, by its size."""
ROUNDS = 6
"""Reweighted least squares until outliers have lost their pull."""
Fitted = TypeVar("Fitted")


def left_out(
    table: AnyTable,
    groups: Array | Sequence[str],
    fit: Callable[[AnyTable], Fitted],
    predict: Callable[[AnyTable, Fitted], Array],
) -> Array:
    """Return what is predicted of each measurement with constants fitted to all groups but its own."""
    predicted, names = np.empty(len(table)), np.asarray(groups)
    for group in np.unique(names):
        own = names == group
        predicted[own] = predict(table.where(own), fit(table.where(~own)))
    return predicted


def fit_and_judge(
    table: AnyTable,
    fit: Callable[[AnyTable], Constants],
    predict: Callable[[AnyTable, Constants], Array],
    groups: Mapping[str, Array | Sequence[str]],
) -> FitResult:
    """Return the constants of all measurements, with the errors there and where groups are left out, by their kind."""
    constants = fit(table)
    predicted = {"fit": predict(table, constants)}
    predicted |= {f"{kind} left out": left_out(table, names, fit, predict) for kind, names in groups.items()}
    residuals = {name: error_statistics(seconds, table.seconds) for name, seconds in predicted.items()}
    return FitResult(constants=constants, rows={"fitted": len(table)}, residuals=residuals)


def axis_over(sizes: Array, knots: int) -> Axis:
    """An axis that spans the measured ``sizes``."""
    return Axis(first=float(sizes.min()), last=float(sizes.max()), knots=knots)


def fit_surface(
    axes: Sequence[Axis],
    sizes: Sequence[Array],
    logarithms: Array,
    *,
    stiffness: float = STIFFNESS,
    kind: NDArray[np.int64] | int = 0,
    kinds: int = 1,
) -> ResidualSurface:
    """Return the surface nearest to ``logarithms`` of measured over predicted time at ``sizes``, one array per axis.

    With several ``kinds`` each has a table of its own, to which the measurements of that ``kind`` belong.

    Penalised least squares (P-splines of first order: Eilers and Marx 1996) with robust weights: squares of the errors,
    of the second differences along every axis, and of the values themselves.
    """
    from scipy.sparse import csr_matrix, diags, identity, kron

    axes = tuple(axes)
    count = prod(axis.knots for axis in axes) * kinds
    corners, weights, inside = ResidualSurface.on(axes, np.zeros(count), kinds).cells(*sizes, kind=kind)
    rows = np.tile(np.arange(len(logarithms)), len(corners))
    places = csr_matrix(((weights * inside).ravel(), (rows, corners.ravel())), shape=(len(logarithms), count))
    bends = kron(identity(kinds), _bends(axes, stiffness))
    penalty = bends.T @ bends + PULL * identity(count)
    values: Any = np.zeros(count)
    for _ in range(ROUNDS):
        robust = 1 / np.sqrt(1 + ((logarithms - places @ values) / ORDINARY) ** 2)
        values = _solved(places.T @ diags(robust) @ places + penalty, places.T @ (robust * logarithms))
    # as it is stored, so that what is reported is what is shipped
    return ResidualSurface.from_mapping(ResidualSurface.on(axes, np.asarray(values), kinds).to_mapping())


def _solved(matrix: Any, right: Array) -> Array:
    """The solution for a sparse, symmetric, positive definite matrix.

    Knots couple with near ones alone, so that Cholesky's factor fills a band: several times as fast as a general
    sparse factorization.
    """
    from scipy.linalg import solveh_banded
    from scipy.sparse import tril

    lower = tril(matrix, format="coo")
    below = lower.row - lower.col
    band = np.zeros((int(below.max()) + 1, lower.shape[0]))
    band[below, lower.col] = lower.data
    values: Array = solveh_banded(band, right, overwrite_ab=True, lower=True, check_finite=False)
    return values


def _bends(axes: tuple[Axis, ...], stiffness: float) -> "csr_matrix":
    """Second differences of all values along every axis."""
    from scipy.sparse import diags, identity, kron, vstack

    parts = []
    for bent in axes:
        part = identity(1)
        for axis in axes:
            size = axis.knots
            second = diags([1.0, -2.0, 1.0], [0, 1, 2], shape=(size - 2, size)) * (stiffness * axis.per_octave**1.5)
            part = kron(part, second if axis is bent else identity(size))
        parts.append(part)
    return vstack(parts).tocsr()

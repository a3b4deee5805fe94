"""Matmul constants fitted to a table of measured products, and a surface of what they leave unexplained."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.error_figures import error_statistics
from sightline.calibration.fits import (
    ORDINARY_ERROR,
    Array,
    Constants,
    FitResult,
    Range,
    Table,
    fit_constants,
    ranges_of,
    share_of,
)
from sightline.calibration.manifest import Stated, manifest
from sightline.calibration.parts.part import Entry
from sightline.calibration.residuals import STIFFNESS, axis_over, fit_surface, left_out
from sightline.cost import families as architectures
from sightline.cost.clock import watts_per_tflops
from sightline.cost.matmul import MatmulConstants, kind_of, matmul_cost
from sightline.cost.residual_surface import ResidualSurface
from sightline.loading.clusters import read_device
from sightline.program import Matmul
from sightline.program.formats import format_of
from sightline.quantities import significant
from sightline.scenario import Device


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MatmulTable(Table):
    """Measured products of an ``m x k`` with a ``k x n`` matrix."""

    m: Array
    n: Array
    k: Array

    @property
    def size(self) -> Array:
        """FLOPs."""
        return 2 * self.m * self.n * self.k


HELD_OUT = 0.25
"""Share of the (n, k) families that no fit sees."""
SAMPLE = {"training": 1600, "other": 900}
"""Measurements a fit uses: mostly those of the sizes that training has."""
OF_MEMORY = ("memory_fraction", "memory_ramp_s", "latency_s")
TELLING_ROWS = 512
"""Rows from which products tell of the arithmetic; with fewer all but ``OF_MEMORY`` is the relative's."""
PER_FAMILY = 60
"""Measurements of one (n, k) family that a fit to a small table uses."""
KNOTS = (17, 12, 12)
"""Knots over m, n and k: about one an octave."""
DENSE_KNOTS = (22, 19, 18)
DENSE_STIFFNESS = STIFFNESS / 2
DENSE_ROWS = 20_000
"""Measurements that carry more knots, bends that are less stiff, and a table of their own for rows beyond blocks."""
LAYER_KNOTS = (25, 6, 5)
FEW_FAMILIES = 40
"""(n, k) families below which a table holds the layers of a few models: many rows of few weight matrices."""
ENOUGH_ROWS = 300
"""Measurements that a surface needs."""


def training_sized(table: MatmulTable) -> NDArray[np.bool_]:
    """Shapes as training has them: at least 512 rows, wide operands, rows in whole blocks of 64."""
    return np.asarray((table.m >= 512) & (table.n >= 256) & (table.k >= 256) & (table.m % 64 == 0))


def predicted_seconds(table: MatmulTable, device: Device, constants: MatmulConstants, kernel: str = "16-bit") -> Array:
    """Predicted time of every product of a table, with operands in the format ``kernel`` and results in 16 bits."""
    stored = format_of(kernel, _half(device), device)
    products = table.operators(
        Matmul,
        "mlp",
        "matmul",
        dtype=stored.compute_dtype,
        element_bytes=stored.activation_bytes,
        weight_bytes=stored.weight_bytes,
        output_bytes=2,
    )
    return np.asarray(matmul_cost(products, device, constants).time_s)


def _half(device: Device) -> str:
    return "bf16" if "bf16" in device.peak_flops else "fp16"


def possible(table: MatmulTable, device: Device, kernel: str = "16-bit") -> NDArray[np.bool_]:
    """Measurements no faster than the device's memory, without those of operands that were still in L2."""
    stored = format_of(kernel, _half(device), device)
    operands = stored.activation_bytes * table.m * table.k + stored.weight_bytes * table.k * table.n
    return np.asarray(table.seconds >= (operands + 2 * table.m * table.n) / device.memory_bandwidth)


def held_out(table: MatmulTable) -> NDArray[np.bool_]:
    """Measurements of the (n, k) families that are kept for testing."""
    return share_of(families(table)) < HELD_OUT


def next_in_line(table: MatmulTable) -> NDArray[np.bool_]:
    """A quarter of the other families: left out in their turn, they say how far a fit is off where it saw nothing."""
    share = share_of(families(table))
    return (share >= HELD_OUT) & (share < HELD_OUT + (1 - HELD_OUT) / 4)


def fit_matmul(table: MatmulTable, device: Device, given: Mapping[str, Any], kernel: str = "16-bit") -> FitResult:
    """Return a device's matmul constants from measured products in one format.

    ``given`` holds what the table cannot tell: the library's ``tiles``, ``misaligned_slowdown`` and whatever else is
    not to be fitted; given everything, constants are only judged. Products with odd row counts above 512 do not occur
    in training and are left out of the fit, not of the statistics.
    """
    kept = table.where(possible(table, device, kernel))
    test = held_out(kept)
    used = kept.where(~test & ((kept.m <= 512) | (kept.m % 64 == 0)))
    used = used.where(_sample(used))

    predict = _predictor(device, kernel)
    known = given if "shallow_k" in given else {**given, "shallow_s": None}
    ranges = ranges_of(manifest("matmul")["ranges"][kernel], known)
    fitted = fit_constants(lambda x: predict(used, {**x, **given}), used.seconds, ranges) if ranges else {}
    constants = {**fitted, **given}
    rows = {"table": len(table), "possible": len(kept), "fitted": len(used), "held_out": int(test.sum())}
    judged = kept.where(test)
    return FitResult(constants=constants, rows=rows, residuals=residuals_by_range(judged, predict(judged, constants)))


def _predictor(device: Device, kernel: str) -> Callable[[MatmulTable, Mapping[str, Any]], Array]:
    """What predicts a table by constants as an entry states them."""
    return lambda table, constants: predicted_seconds(table, device, MatmulConstants.from_mapping(constants), kernel)


def fit_small_matmul(
    table: MatmulTable, device: Device, relative: Mapping[str, Any], kernel: str = "16-bit"
) -> FitResult:
    """Return a device's matmul constants from a table of few shapes: a relative's, moved as far as the table shows.

    A relative's constant counts as one measurement whose error, of the ordinary size, is its distance in the manifest's
    ``spreads`` (the maximum a posteriori). Every (n, k) family is held out of the fit that its residuals come from, in
    four parts.
    """
    kept = table.where(possible(table, device, kernel))
    part = np.floor(4 * share_of(families(kept)))

    def fit(rows: MatmulTable) -> Mapping[str, Any]:
        return _moved(rows, device, relative, kernel) if len(rows) else relative

    unseen = left_out(kept, part, fit, _predictor(device, kernel))
    rows = {"table": len(table), "possible": len(kept), "fitted": len(kept)}
    return FitResult(constants=fit(kept), rows=rows, residuals=residuals_by_range(kept, unseen))


def _moved(table: MatmulTable, device: Device, relative: Mapping[str, Any], kernel: str) -> dict[str, Any]:
    spreads = manifest("matmul")["spreads"]
    told = spreads if table.m.max() >= TELLING_ROWS else OF_MEMORY
    names = [name for name in told if relative[name] > 0]
    used = table.where(_evenly(table))
    centre = np.array([relative[name] for name in names])
    weight = ORDINARY_ERROR / np.array([spreads[name] for name in names])
    ranges = {
        name: Range(low=0.2 * relative[name], starts=(0.99 * relative[name],), high=_most(name, 5 * relative[name]))
        for name in names
    }

    predict = _predictor(device, kernel)

    def with_priors(fitted: Constants) -> Array:
        prior = (np.array([fitted[name] for name in names]) / centre) ** weight
        return np.concatenate([predict(used, {**relative, **fitted}), prior])

    fitted = fit_constants(with_priors, np.concatenate([used.seconds, np.ones(len(names))]), ranges)
    return {**relative, **fitted}


def _most(name: str, value: float) -> float:
    return min(value, 1.0) if name in {"peak_fraction", "memory_fraction", "throttled_share"} else value


def families(table: MatmulTable) -> list[str]:
    """The (n, k) family of every measurement: one weight matrix."""
    return table.named("n", "k")


def residuals_by_range(table: MatmulTable, predicted: Array) -> dict[str, dict[str, float]]:
    """Error statistics of a table for the ranges of shapes that matter."""
    training = training_sized(table)
    large = table.size > 1e11
    ranges = {
        "all": table.m > 0,
        "m >= 16": table.m >= 16,
        "training": training,
        "training, above 0.1 TFLOP": training & large,
        "m 16 to 511": (table.m >= 16) & (table.m < 512),
        "m below 16": table.m < 16,
    }
    return {name: error_statistics(predicted[q], table.seconds[q]) for name, q in ranges.items() if q.any()}


def _sample(table: MatmulTable) -> NDArray[np.bool_]:
    """A fixed selection of ``SAMPLE`` measurements from either kind."""
    order = share_of(table.named("m", "n", "k"))
    training = training_sized(table)
    chosen = np.zeros(len(table), dtype=bool)
    for mask, count in ((training, SAMPLE["training"]), (~training, SAMPLE["other"])):
        members = np.flatnonzero(mask)
        chosen[members[np.argsort(order[members], kind="stable")[:count]]] = True
    return chosen


def _evenly(table: MatmulTable) -> NDArray[np.bool_]:
    """A fixed selection of at most ``PER_FAMILY`` measurements of every (n, k) family, spread over the rows."""
    names = np.array(families(table))
    chosen = np.zeros(len(table), dtype=bool)
    for name in np.unique(names):
        members = np.flatnonzero(names == name)
        ordered = members[np.argsort(table.m[members], kind="stable")]
        logs = np.log(table.m[ordered])
        wanted = np.linspace(logs[0], logs[-1], PER_FAMILY)
        chosen[ordered[np.minimum(np.searchsorted(logs, wanted), len(ordered) - 1)]] = True
    return chosen


def has_enough(table: MatmulTable) -> bool:
    """Whether the table can carry a surface."""
    return len(table) >= ENOUGH_ROWS


def knots(table: MatmulTable) -> tuple[int, int, int]:
    """Knots over m, n and k that the table can carry."""
    if len(set(families(table))) < FEW_FAMILIES:
        return LAYER_KNOTS
    return DENSE_KNOTS if len(table) >= DENSE_ROWS else KNOTS


def surface_over(table: MatmulTable, predicted: Array, seen: NDArray[np.bool_]) -> ResidualSurface:
    """The surface fitted to the ``seen`` rows of a table, its axes and kinds those of the whole table.

    Of a dense table rows beyond whole blocks have a surface of their own.
    """
    axes = tuple(
        axis_over(sizes, count) for sizes, count in zip((table.m, table.n, table.k), knots(table), strict=True)
    )
    part = table.where(seen)
    sizes, logarithms = (part.m, part.n, part.k), np.log(part.seconds / predicted[seen])
    if len(table) < DENSE_ROWS:
        return fit_surface(axes, sizes, logarithms)
    return fit_surface(axes, sizes, logarithms, kind=kind_of(part.m), kinds=2, stiffness=DENSE_STIFFNESS)


def fit_matmul_surface(
    table: MatmulTable, device: Device, constants: MatmulConstants, kernel: str = "16-bit"
) -> tuple[ResidualSurface, dict[str, dict[str, float]]]:
    """Return the surface over ``constants`` fitted to the whole table, and its errors there and on families left out.

    The families left out are those that the constants' fit did not see; neither does the surface judged on them.
    """
    kept = table.where(possible(table, device, kernel))
    predicted = predicted_seconds(kept, device, constants.without_surface(), kernel)
    test = held_out(kept)

    def errors(surface: ResidualSurface, rows: NDArray[np.bool_]) -> dict[str, float]:
        part = kept.where(rows)
        factor = replace(constants, surface=surface).correction(part.m, part.n, part.k)
        return error_statistics(predicted[rows] * factor, part.seconds)

    surface, without_test = (surface_over(kept, predicted, seen) for seen in (kept.m > 0, ~test))
    small = kept.m <= 64
    residuals = {
        "in range": errors(surface, kept.m > 0),
        "in range, m up to 64": errors(surface, small),
        "families left out": errors(without_test, test),
        "families left out, m up to 64": errors(without_test, test & small),
    }
    return surface, residuals


REFERENCE = "nvidia"
"""Maker whose libraries the others' are compared with."""
HIGHEST = 0.97
"""Share above which products tell a clock over that of the datasheet, not the power limit."""


def fit_sustained(stated: Stated, without: Collection[str] = ()) -> Entry:
    """Return the constants of the rule by the manifest's ``best`` shares, leaving architectures out.

    A line through the logarithms for the reference maker's later devices; then the geometric means of what older
    silicon and other makers' libraries lack. A maker or process of which nothing is left keeps 1.
    """
    devices = {name: read_device(name) for name in stated["best"]}
    kept = {n: d for n, d in devices.items() if d.architecture not in without}
    share = {name: min(float(stated["best"][name]), HIGHEST) for name in kept}
    later = [n for n, d in kept.items() if _maker(d) == REFERENCE and not _is_old(d)]
    watts = np.log([float(watts_per_tflops(kept[n])) for n in later])
    slope, level = np.polyfit(watts, _lost([share[n] for n in later]), 1)
    scale, exponent = float(np.exp(level)), -float(slope)

    old = [n for n, d in kept.items() if _is_old(d)]
    needed = [np.log(watts_per_tflops(kept[n])) - (level - _lost([share[n]])[0]) / exponent for n in old]
    energy = float(np.exp(np.mean(needed))) if old else 1.0
    makers = {REFERENCE: 1.0, **{m: _library(m, kept, share, scale, exponent) for m in stated["makers"]}}
    return {
        "source": stated["source"],
        "scale": significant(scale),
        "exponent": significant(exponent),
        "process_energy": significant(energy),
        "makers": {maker: significant(reached) for maker, reached in makers.items()},
    }


def _lost(shares: list[float]) -> Array:
    values = np.array(shares)
    lost: Array = np.log((1.0 - values) / values)
    return lost


def _library(
    maker: str, devices: Mapping[str, Device], share: Mapping[str, float], scale: float, exponent: float
) -> float:
    """Mean of what a maker's devices reach over what their power allows; 1 where none is left."""
    own = [n for n, d in devices.items() if _maker(d) == maker]
    allowed = [1.0 / (1.0 + scale * float(watts_per_tflops(devices[n])) ** -exponent) for n in own]
    return float(np.exp(np.mean(np.log([share[n] / a for n, a in zip(own, allowed, strict=True)])))) if own else 1.0


def _maker(device: Device) -> str:
    return str(architectures.of_device(device)["maker"])


def _is_old(device: Device) -> bool:
    return "process" in architectures.of_device(device)

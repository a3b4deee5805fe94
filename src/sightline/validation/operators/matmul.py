"""Suites of measured matmuls: every number format of every family, fitted, held out, and by the formula alone."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.fits import by_kernel
from sightline.calibration.manifest import device_of, has_tables, manifest, samples
from sightline.calibration.parts.matmul import (
    MatmulTable,
    held_out,
    next_in_line,
    possible,
    predicted_seconds,
    surface_over,
)
from sightline.cost.matmul.constants import MatmulConstants, load_matmul
from sightline.loading.clusters import read_device
from sightline.validation.operators.never_fitted import has_siblings, matmul_without, never_fitted_device
from sightline.validation.operators.suite import Array, Compared, Known, OperatorSuite, predicted_twice
from sightline.validation.suite import Split

GRID_DECISIONS = (
    "Device time of one matmul. Rows that are faster than one read of the operands from device memory are left out.",
    "Split by (n, k), whole weight matrices: a quarter of them is held out of the fit of the constants.",
    (
        "The fitted part is predicted as shipped, with the residual surface if the format has one. The test part "
        "is predicted with a surface that has not seen it."
    ),
    (
        "The width of intervals comes from the errors of a quarter of the fitted matrices with a surface that has "
        "not seen them."
    ),
)
FORMULA_DECISIONS = (*GRID_DECISIONS[:2], "Predicted by the formula alone, without the residual surface.")
LAYER_DECISIONS = (
    "Linear layers of a few models. Rows that are faster than one read of the operands are left out.",
    (
        "All rows are used for fitting, because there are too few matrices to hold some out. The catalog entry "
        "has the errors with each left out in turn."
    ),
)
GOAL, FORMULA_GOAL = "median 3 %, p90 9 % fitted; median 5 % on test", "median 7 %"
Parts = Mapping[Split, Compared]


@dataclass(frozen=True, slots=True, kw_only=True)
class Products:
    """Products of one number format that a family was measured in."""

    data: Path
    family: str
    kernel: str
    tables: Mapping[str, Any]

    def read(self) -> MatmulTable:
        """The products that no cache can have made shorter than memory allows."""
        table = MatmulTable.of(by_kernel(samples(self.data, "matmul", self.tables))[self.kernel])
        return table.where(possible(table, device_of(self.family), self.kernel))

    def compare(self, known: Known) -> Compared:
        """The products with the family's constants, or with those of others."""
        table, own = self.read(), load_matmul(self.family, self.kernel)
        if known == "itself":
            constants = own
        else:
            _, constants = matmul_without(self.family, self.kernel, siblings=known == "siblings")
        return _compared(table, predicted_seconds(table, device_of(self.family), constants, self.kernel))


def matmul_suites(data: Path) -> Iterator[OperatorSuite]:
    """Yield the suites of every number format of every family whose tables are there."""
    for family, told in manifest("matmul")["families"].items():
        for tables in told["tables"]:
            for kernel in tables["kernels"] if has_tables(data, tables) else ():
                yield from _suites(Products(data=data, family=family, kernel=kernel, tables=tables))


def unmeasured(data: Path) -> Iterator[tuple[str, str, Callable[[], Compared]]]:
    """Yield name, source and comparison of the products on devices that no constants were fitted to."""
    for name, tables in manifest("matmul")["never_fitted"].items():
        if has_tables(data, tables):
            yield f"matmul-16-bit {name}", str(tables["source"]), partial(_compare_unmeasured, data, name, tables)


def _compare_unmeasured(data: Path, name: str, tables: Mapping[str, Any]) -> Compared:
    device = read_device(name)
    table = MatmulTable.of(samples(data, "matmul", tables))
    table = table.where(possible(table, device))
    return _compared(table, predicted_seconds(table, device, never_fitted_device(device)))


def _compared(table: MatmulTable, predicted: Array, rows: Any = slice(None)) -> Compared:
    """Predicted and measured seconds of some products, or of all."""
    sizes = {name: getattr(table, name)[rows] for name in ("m", "n", "k")}
    return Compared(predicted=predicted[rows], measured=table.seconds[rows], sizes=sizes)


def _suites(products: Products) -> Iterator[OperatorSuite]:
    """Yield the suite of one number format, and one of the formula alone where a surface corrects it."""
    kind, family, tables = f"matmul-{products.kernel}", products.family, products.tables
    layers = predicted_twice(f"{kind} {family}", str(tables["source"]), LAYER_DECISIONS, products.compare)
    layers = replace(layers, siblings=has_siblings(family, "matmul", products.kernel))
    if "relative" in tables:  # it has the layers of a few models, no shapes of its own
        yield layers
        return
    by_formula = partial(_compare_formula, products)
    corrected = load_matmul(family, products.kernel).surface is not None
    compare = partial(_compare_grid, products) if corrected else by_formula
    yield replace(layers, decisions=GRID_DECISIONS, compare=compare, goal=GOAL)
    if corrected:
        formula = replace(layers, name=f"{kind}-formula {family}", decisions=FORMULA_DECISIONS, goal=FORMULA_GOAL)
        yield replace(formula, compare=by_formula, unseen=None)


def _compare_formula(products: Products) -> Parts:
    table = products.read()
    plain, test = _formula(products, table), held_out(table)
    return {"fit": _compared(table, plain, ~test), "test": _compared(table, plain, test)}


def _formula(products: Products, table: MatmulTable) -> Array:
    constants = load_matmul(products.family, products.kernel).without_surface()
    return predicted_seconds(table, device_of(products.family), constants, products.kernel)


def _compare_grid(products: Products) -> Parts:
    table, constants = products.read(), load_matmul(products.family, products.kernel)
    plain, test = _formula(products, table), held_out(table)
    factor = np.where(
        test, _unseen_factor(table, plain, constants, ~test), constants.correction(table.m, table.n, table.k)
    )
    fitted, near = _compared(table, plain * factor, ~test), next_in_line(table)
    left_out = plain[near] * _unseen_factor(table, plain, constants, ~test & ~near)[near]
    unseen = np.log(left_out / table.seconds[near])
    return {"fit": replace(fitted, unseen=unseen), "test": _compared(table, plain * factor, test)}


def _unseen_factor(table: MatmulTable, plain: Array, constants: MatmulConstants, seen: NDArray[np.bool_]) -> Array:
    """Return what a surface fitted to the ``seen`` rows alone corrects everywhere."""
    fitted = replace(constants, surface=surface_over(table, plain, seen))
    return np.asarray(fitted.correction(table.m, table.n, table.k))

"""Suites of measured operators that constants were fitted to: matmuls, attention, bandwidth-bound kernels."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.manifest import device_of, has_tables, manifest, samples
from sightline.calibration.parts.fused_attention import AttentionTable, predicted_seconds
from sightline.calibration.parts.matmul import MatmulTable, held_out, next_in_line
from sightline.calibration.parts.matmul import predicted_seconds as matmul_seconds
from sightline.calibration.parts.matmul_surface import surface_over
from sightline.calibration.samples import by_kernel
from sightline.catalog import entry
from sightline.cost.attention.constants import load_attention
from sightline.cost.matmul.constants import MatmulConstants, load_matmul
from sightline.validation.operators.suite import Array, Compared, OperatorSuite
from sightline.validation.operators.tables import (
    Products,
    Reading,
    attention_readings,
    elementwise_readings,
    grouped_readings,
    matmul_compared,
    matmul_products,
)
from sightline.validation.suite import Split

GRID_DECISIONS = (
    "Device time of one matmul. Rows that are faster than one read of the operands from device memory are left out.",
    "Split by (n, k), whole weight matrices: a quarter of them is held out of the fit of the constants.",
    "The fitted part is predicted as shipped, with the residual surface if the format has one. The test part is predicted with a surface that has not seen it.",
    "The width of intervals comes from the errors of a quarter of the fitted matrices with a surface that has not seen them.",
)
FORMULA_DECISIONS = (*GRID_DECISIONS[:2], "Predicted by the formula alone, without the residual surface.")
LAYER_DECISIONS = (
    "Linear layers of a few models. Rows that are faster than one read of the operands are left out.",
    "All rows are used for fitting, because there are too few matrices to hold some out. The catalog entry has the errors with each left out in turn.",
)
GROUPED_DECISIONS = (
    "DeepGEMM's grouped matmuls with fp8 blocks, up and down matrices of the experts of published models. Rows per expert are drawn within 30 % of the stated number.",
    "All rows are used for fitting. The catalog entry has the errors with each model left out in turn.",
)
GOAL, FORMULA_GOAL = "median 3 %, p90 9 % fitted; median 5 % on test", "median 7 %"
CHART_DECISIONS = (
    "Bars of the published charts, self-attention of 16,384 tokens at a hidden size of 2,048, for the forward pass alone or both passes.",
    "All rows are used for fitting. The catalog entry has the errors with every head dimension left out in turn.",
)
ENGINE_DECISIONS = (
    "Attention of serving engines, the prefills and decoding steps of the table, one layer repeated.",
    "All rows are used for fitting. The catalog entry has the errors with head shapes left out.",
)
ENGINE_GOAL = "median 3 %, p90 11 %"
ELEMENTWISE_DECISIONS = (
    "Every tensor counts once per read or write at 16 bits.",
    "All rows are used for fitting, class by class. The catalog entry has the errors with whole widths left out.",
)
Parts = Mapping[Split, Compared]


def fitted_suites(data: Path) -> Iterator[OperatorSuite]:
    """Yield the suites whose tables are in the data folder."""
    for products in matmul_products(data):
        yield from _matmul_suites(products)
    yield from (_suite(reading, *GROUPED_DECISIONS) for reading in grouped_readings(data))
    yield from _chart_suites(data)
    for reading in attention_readings(data):
        yield _suite(reading, *ENGINE_DECISIONS, *reading.notes, goal=ENGINE_GOAL)
    yield from (_suite(reading, *ELEMENTWISE_DECISIONS) for reading in elementwise_readings(data))


def _suite(reading: Reading, *decisions: str, goal: str = "") -> OperatorSuite:
    def compare() -> Parts:
        return {"fit": reading.compare(False)}

    return OperatorSuite(name=reading.name, source=reading.source, decisions=decisions, compare=compare, goal=goal)


def _matmul_suites(products: Products) -> Iterator[OperatorSuite]:
    """Yield the suite of one number format, and one of the formula alone where a surface corrects it."""
    source, kind = str(products.tables["source"]), f"matmul-{products.kernel}"
    if not products.spans_plane:
        reading = Reading(kind=kind, family=products.family, source=source, compare=products.compare)
        yield _suite(reading, *LAYER_DECISIONS)
        return
    corrected = load_matmul(products.family, products.kernel).surface is not None
    for name, compare, decisions, goal in (
        (kind, _compare_grid if corrected else _compare_formula, GRID_DECISIONS, GOAL),
        (f"{kind}-formula", _compare_formula, FORMULA_DECISIONS, FORMULA_GOAL),
    )[: 2 if corrected else 1]:
        yield OperatorSuite(
            name=f"{name} {products.family}",
            source=source,
            decisions=decisions,
            compare=partial(compare, products),
            goal=goal,
        )


def _compare_formula(products: Products) -> Parts:
    table = products.read()
    plain, test = _formula(products, table), held_out(table)
    return {"fit": matmul_compared(table, plain, ~test), "test": matmul_compared(table, plain, test)}


def _formula(products: Products, table: MatmulTable) -> Array:
    constants = load_matmul(products.family, products.kernel).without_surface()
    return matmul_seconds(table, device_of(products.family), constants, products.kernel)


def _compare_grid(products: Products) -> Parts:
    table, constants = products.read(), load_matmul(products.family, products.kernel)
    plain, test = _formula(products, table), held_out(table)
    factor = np.where(
        test, _unseen_factor(table, plain, constants, ~test), constants.correction(table.m, table.n, table.k)
    )
    fitted, near = matmul_compared(table, plain * factor, ~test), next_in_line(table)
    left_out = plain[near] * _unseen_factor(table, plain, constants, ~test & ~near)[near]
    unseen = np.log(left_out / table.seconds[near])
    return {"fit": replace(fitted, unseen=unseen), "test": matmul_compared(table, plain * factor, test)}


def _unseen_factor(table: MatmulTable, plain: Array, constants: MatmulConstants, seen: NDArray[np.bool_]) -> Array:
    """Return what a surface fitted to the ``seen`` rows alone corrects everywhere."""
    fitted = replace(constants, surface=surface_over(table, plain, seen))
    return np.asarray(fitted.correction(table.m, table.n, table.k))


def _chart_suites(data: Path) -> Iterator[OperatorSuite]:
    """Yield the suites of fused attention as training calls it."""
    stated = manifest("attention")
    for family, told in stated["families"].items():
        if not has_tables(data, told["tables"]):
            continue
        for kernel, shipped in entry("calibrations", f"{family}/attention")["kernels"].items():
            if "rows" in shipped and kernel in stated["kernels"]:
                chart = stated["kernels"][kernel]["chart"]
                yield OperatorSuite(
                    name=f"attention-{kernel} {family}",
                    source=stated["source"],
                    decisions=CHART_DECISIONS,
                    compare=partial(_compare_chart, data, family, kernel, told["tables"], chart),
                )


def _compare_chart(data: Path, family: str, kernel: str, tables: Mapping[str, Any], chart: str) -> Parts:
    rows = by_kernel(samples(data, "attention", tables))
    if chart not in rows:
        return {}
    table = AttentionTable.of(rows[chart])
    predicted = predicted_seconds(table, device_of(family), load_attention(family, kernel))
    sizes = {
        "tokens": table.query_tokens,
        "head": table.head_dim,
        "causal": table.causal.astype(float),
        "backward": table.backward.astype(float),
    }
    return {"fit": Compared(predicted=np.asarray(predicted), measured=table.seconds, sizes=sizes)}

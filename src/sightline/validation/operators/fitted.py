"""Suites of measured operators that constants were fitted to: matmuls, attention, bandwidth-bound kernels."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.manifest import device_of, has_tables, manifest, samples
from sightline.calibration.parts.fused_attention import AttentionTable
from sightline.calibration.parts.fused_attention import predicted_seconds as attention_seconds
from sightline.calibration.parts.grouped import FITTED
from sightline.calibration.parts.grouped import predicted_seconds as grouped_seconds
from sightline.calibration.parts.matmul import MatmulTable, held_out, next_in_line, predicted_seconds
from sightline.calibration.parts.matmul_surface import surface_over
from sightline.calibration.parts.serving_attention import ServingAttentionTable
from sightline.calibration.parts.serving_joint import Measured
from sightline.calibration.samples import by_kernel
from sightline.catalog import entry
from sightline.cost.attention.constants import load_attention
from sightline.cost.elementwise import load_elementwise
from sightline.cost.matmul.constants import MatmulConstants, load_matmul
from sightline.cost.matmul.grouped import load_grouped
from sightline.validation.operators.suite import Array, Compared, OperatorSuite
from sightline.validation.operators.tables import (
    PHASES,
    Products,
    attention_compared,
    attention_tables,
    elementwise_compared,
    grouped_compared,
    grouped_products,
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


def matmul_suites(data: Path) -> Iterator[OperatorSuite]:
    """Yield the suites of dense matmuls whose tables are in the data folder."""
    for products in matmul_products(data):
        name = f"matmul-{products.kernel}"
        if "relative" in products.stated:
            yield OperatorSuite(
                name=f"{name} {products.family}",
                source=products.source,
                decisions=LAYER_DECISIONS,
                compare=partial(_compare_layers, products),
            )
            continue
        yield OperatorSuite(
            name=f"{name} {products.family}",
            source=products.source,
            decisions=GRID_DECISIONS,
            compare=partial(_compare_grid, products),
            goal=GOAL,
        )
        if load_matmul(products.family, products.kernel).surface is not None:
            yield OperatorSuite(
                name=f"{name}-formula {products.family}",
                source=products.source,
                decisions=FORMULA_DECISIONS,
                compare=partial(_compare_formula, products),
                goal=FORMULA_GOAL,
            )


def _compare_layers(products: Products) -> Parts:
    table = products.matmuls()
    return {"fit": matmul_compared(table, _predicted(products, table, load_matmul(products.family, products.kernel)))}


def _compare_formula(products: Products) -> Parts:
    table = products.matmuls()
    constants = load_matmul(products.family, products.kernel).without_surface()
    plain, test = _predicted(products, table, constants), held_out(table)
    return {"fit": matmul_compared(table, plain, ~test), "test": matmul_compared(table, plain, test)}


def _compare_grid(products: Products) -> Parts:
    constants = load_matmul(products.family, products.kernel)
    if constants.surface is None:
        return _compare_formula(products)
    table = products.matmuls()
    plain, test = _predicted(products, table, constants.without_surface()), held_out(table)
    factor = np.where(
        test, _unseen_factor(table, plain, constants, ~test), constants.correction(table.m, table.n, table.k)
    )
    fitted, near = matmul_compared(table, plain * factor, ~test), next_in_line(table)
    left_out = plain[near] * _unseen_factor(table, plain, constants, ~test & ~near)[near]
    unseen = np.log(left_out / table.seconds[near])
    return {"fit": replace(fitted, unseen=unseen), "test": matmul_compared(table, plain * factor, test)}


def _predicted(products: Products, table: MatmulTable, constants: MatmulConstants) -> Array:
    return predicted_seconds(table, device_of(products.family), constants, products.kernel)


def _unseen_factor(table: MatmulTable, plain: Array, constants: MatmulConstants, seen: NDArray[np.bool_]) -> Array:
    """Return what a surface fitted to the ``seen`` rows alone corrects everywhere."""
    fitted = replace(constants, surface=surface_over(table, plain, seen))
    return np.asarray(fitted.correction(table.m, table.n, table.k))


def grouped_suites(data: Path) -> Iterator[OperatorSuite]:
    """Yield the suites of grouped matmuls by layout."""
    for products in grouped_products(data):
        yield OperatorSuite(
            name=f"grouped-matmul-{PHASES[products.kernel]} {products.family}",
            source=products.source,
            decisions=GROUPED_DECISIONS,
            compare=partial(_compare_grouped, products),
        )


def _compare_grouped(products: Products) -> Parts:
    table = products.grouped()
    constants, _ = load_grouped(products.family, FITTED, products.kernel)
    return {"fit": grouped_compared(table, grouped_seconds(table, device_of(products.family), constants))}


def chart_suites(data: Path) -> Iterator[OperatorSuite]:
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
    predicted = attention_seconds(table, device_of(family), load_attention(family, kernel))
    sizes = {
        "tokens": table.query_tokens,
        "head": table.head_dim,
        "causal": table.causal.astype(float),
        "backward": table.backward.astype(float),
    }
    return {"fit": Compared(predicted=np.asarray(predicted), measured=table.seconds, sizes=sizes)}


def attention_suites(data: Path) -> Iterator[OperatorSuite]:
    """Yield the suites of serving engines' attention."""
    for name, part, family, measured in attention_tables(data):
        yield OperatorSuite(
            name=name,
            source=measured.source,
            decisions=(*ENGINE_DECISIONS, *measured.filters),
            compare=partial(_compare_engine, data, part, family, measured),
            goal=ENGINE_GOAL,
        )


def _compare_engine(data: Path, part: str, family: str, measured: Measured) -> Parts:
    table = ServingAttentionTable.of(samples(data, part, measured.tables))
    constants = entry("calibrations", f"{family}/{part}")["constants"]
    return {"fit": attention_compared(table, measured.kernel.predict(table, device_of(family), constants))}


def elementwise_suites(data: Path) -> Iterator[OperatorSuite]:
    """Yield the suites of bandwidth-bound kernels (norm, rotation, activation, embedding, ...)."""
    for family, suite in manifest("elementwise")["suites"].items():
        if has_tables(data, suite["tables"]):
            yield OperatorSuite(
                name=f"element-wise {family}",
                source=suite["source"],
                decisions=ELEMENTWISE_DECISIONS,
                compare=partial(_compare_elementwise, data, family, suite),
            )


def _compare_elementwise(data: Path, family: str, suite: Mapping[str, Any]) -> Parts:
    return {"fit": elementwise_compared(data, family, suite, load_elementwise(family, suite["generation"]))}

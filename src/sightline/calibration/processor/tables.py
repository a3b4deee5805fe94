"""Measured operators of a processor, sorted into what its constants are fitted to."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sightline.calibration.samples import Array, Table
from sightline.cost.processor.constants import FEW_ROWS, ROWS_AT_ONCE
from sightline.loading import operation_from_mapping, to_mapping
from sightline.runs import Run

ORDERS: Mapping[str, str] = {
    "library": "forward",
    "input-gradient": "input gradient",
    "weight-gradient": "weight gradient",
}
"""Order of a product's operands by how it was measured."""
WAYS: Mapping[str, str] = {"recorded": "forward", "backward": "backward"}
ELEMENTWISE: Mapping[tuple[str, str], str] = {
    ("norm", "recorded"): "norm",
    ("norm", "backward"): "norm gradient",
    ("rope", "recorded"): "rope",
    ("rope", "backward"): "rope gradient",
    ("gated_activation", "recorded"): "activation",
    ("gated_activation", "backward"): "activation gradient",
    ("residual", "recorded"): "residual",
    ("embedding", "recorded"): "lookup",
    ("embedding", "backward"): "table gradient",
    ("cross_entropy", "recorded"): "cross-entropy",
    ("cross_entropy", "backward"): "cross-entropy gradient",
    ("adam", "clipped"): "update",
}
"""A program's chain of kernels by operator and how it was measured."""
FEW_SAMPLES = 5
"""Samples of a long operator, of which a median says little if they are fewer."""
DISPATCH_FLOPS = 2e4
"""A product of fewer is measured for the time of its call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One operator that was measured."""

    workload: Mapping[str, Any]
    implementation: str
    cached: bool
    """Its operands stayed in the cache as far as they fit."""
    seconds: float
    width: float | None = None

    @property
    def dtype(self) -> str:
        """Number format; optimizers work in fp32 whatever the model computes in."""
        return str(self.workload.get("dtype", "fp32"))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProductTable(Table):
    """Products in one order of operands."""

    m: Array
    n: Array
    k: Array
    missing: Array
    """1 where the operands came from memory, 0 where they were in the cache."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PassTable(Table):
    """Fused causal attention in one direction."""

    batch: Array
    heads: Array
    kv_heads: Array
    head_dim: Array
    tokens: Array
    missing: Array
    """1 where operands came from memory, 0 where they were in the cache."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChainTable(Table):
    """A chain of kernels at several sizes."""

    elements: Array
    cached: Array


def operator_results(runs: Iterable[Run]) -> list[Mapping[str, Any]]:
    """Return the measured operators in runs, each under the documented keys with its scenario."""
    found: list[Mapping[str, Any]] = []
    for run in runs:
        if "results" in run.result:
            whole = [_resolved(r) for r in run.result["results"] if "time_s" in r and "scenario" in r]
            found += [{**r, "environment": run.environment} for r in whole]
        elif (run.scenario.get("workload") or {}).get("task") == "operator" and "time_s" in run.result:
            found.append({**run.result, "scenario": run.scenario, "environment": run.environment})
    return found


def measurements(results: Iterable[Mapping[str, Any]]) -> list[Measurement]:
    """Return what was measured of single operators on one device, out of results under the documented keys."""
    found = []
    for result in results:
        scenario, how = result["scenario"], result.get("measurement") or {}
        workload = scenario.get("workload") or {}
        if result.get("source") == "measured" and workload.get("task") == "operator" and "implementation" in how:
            found.append(
                Measurement(
                    workload=workload,
                    implementation=how["implementation"],
                    cached=how.get("sets") == 1 and not how.get("flushed", False),
                    seconds=_undisturbed_s(result),
                )
            )
    return found


def _resolved(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a suite's result with its scenario written out as those of single operators are."""
    if not isinstance(result["scenario"].get("cluster"), str):
        return result
    return {**result, "scenario": to_mapping(operation_from_mapping(result["scenario"]))}


def _undisturbed_s(result: Mapping[str, Any]) -> float:
    """The median of the samples; where other processes had the machine, which only ever adds, their 10th percentile.

    The least of few: the first calls also fetch memory from the system.
    """
    contended = (result.get("environment") or {}).get("contended", False)
    spread = result["measurement"].get("spread_s") or {}
    few = result["measurement"].get("repeats", FEW_SAMPLES) < FEW_SAMPLES
    low = spread.get("min" if few else "p10")
    return float(low if (contended or few) and low else result["time_s"])


def product_table(rows: Sequence[Measurement], order: str) -> ProductTable:
    """Return the products in an order of operands; forward ones are told apart by how many rows they have."""
    chosen = [
        r for r in rows if r.workload["operator"] == "matmul" and r.workload.get("batch", 1) == 1 and _order(r) == order
    ]
    sizes = {name: _column(r.workload[name] for r in chosen) for name in ("m", "n", "k")}
    return ProductTable(
        seconds=_column(r.seconds for r in chosen), missing=_column(not r.cached for r in chosen), **sizes
    )


def _order(row: Measurement) -> str | None:
    order, rows = ORDERS.get(row.implementation), row.workload["m"]
    if order != "forward" or rows > FEW_ROWS:
        return order
    return "one row" if rows <= ROWS_AT_ONCE else "few rows"


def pass_table(rows: Sequence[Measurement], way: str) -> PassTable:
    """Return the attention passes of one direction."""
    chosen = [r for r in rows if r.workload["operator"] == "attention" and WAYS.get(r.implementation) == way]
    names = {
        "batch": "batch",
        "heads": "heads",
        "kv_heads": "kv_heads",
        "head_dim": "head_dim",
        "tokens": "query_tokens",
    }
    sizes = {ours: _column(r.workload.get(theirs, 1) for r in chosen) for ours, theirs in names.items()}
    missing = _column(not r.cached for r in chosen)
    return PassTable(seconds=_column(r.seconds for r in chosen), missing=missing, **sizes)


def chain_table(rows: Sequence[Measurement], chain: str) -> ChainTable:
    """Return a chain's measurements by size."""
    chosen = [r for r in rows if ELEMENTWISE.get((r.workload["operator"], r.implementation)) == chain]
    return ChainTable(
        seconds=_column(r.seconds for r in chosen),
        elements=_column(_elements(r, chain) for r in chosen),
        cached=_column(r.cached for r in chosen),
    )


def _elements(row: Measurement, chain: str) -> float:
    """Elements of the chain's tensor; of a lookup those that are read, whatever the table's size."""
    elements = float(row.workload["elements"])
    return LOOKED_UP * min(LOOKUP_WIDTH, elements) if chain == "lookup" else elements


LOOKED_UP, LOOKUP_WIDTH = 256.0, 512.0
"""Tokens that are looked up where an embedding is measured, and the widest row of its table."""


def _column(values: Iterable[float]) -> Array:
    return np.array(list(values), dtype=float)

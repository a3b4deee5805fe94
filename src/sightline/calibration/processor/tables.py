"""Measured operators of a processor, sorted into what its constants are fitted to."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from sightline.calibration.fits import AnyTable, Array, Table
from sightline.calibration.manifest import manifest
from sightline.calibration.parts.fused_attention import HeadsTable
from sightline.calibration.parts.matmul import MatmulTable
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
    (operator, how): chain for operator, ways in manifest("processor")["chains"].items() for how, chain in ways.items()
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

    @property
    def dtype(self) -> str:
        """Number format; optimizers work in fp32 whatever the model computes in."""
        return str(self.workload.get("dtype", "fp32"))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProductTable(MatmulTable):
    """Products in one order of operands."""

    missing: Array
    """1 where the operands came from memory, 0 where they were in the cache; so for all tables of a processor."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PassTable(HeadsTable):
    """Fused causal attention in one direction."""

    missing: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChainTable(Table):
    """A chain of kernels at several sizes."""

    elements: Array
    missing: Array


def _table(kind: type[AnyTable], rows: Sequence[Measurement]) -> AnyTable:
    """The measurements as a table; a size that a measurement does not state is 1."""
    columns: dict[str, list[float]] = {"seconds": [r.seconds for r in rows], "missing": [not r.cached for r in rows]}
    sizes = [f.name for f in fields(kind) if f.name not in columns]
    columns |= {name: [r.workload.get(name, 1) for r in rows] for name in sizes}
    return kind(**{name: np.array(values, dtype=float) for name, values in columns.items()})


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
    products = [r for r in rows if r.workload["operator"] == "matmul" and r.workload.get("batch", 1) == 1]
    return _table(ProductTable, [r for r in products if _order(r) == order])


def _order(row: Measurement) -> str | None:
    order, rows = ORDERS.get(row.implementation), row.workload["m"]
    if order != "forward" or rows > FEW_ROWS:
        return order
    return "one row" if rows <= ROWS_AT_ONCE else "few rows"


def pass_table(rows: Sequence[Measurement], way: str) -> PassTable:
    """Return the attention passes of one direction."""
    passes = [r for r in rows if r.workload["operator"] == "attention"]
    return _table(PassTable, [r for r in passes if WAYS.get(r.implementation) == way])


def chain_table(rows: Sequence[Measurement], chain: str) -> ChainTable:
    """Return a chain's measurements by size: of a lookup the elements that are read, whatever the table's size."""
    chosen = [r for r in rows if ELEMENTWISE.get((r.workload["operator"], r.implementation)) == chain]
    table = _table(ChainTable, chosen)
    if chain != "lookup":
        return table
    return replace(table, elements=LOOKED_UP * np.minimum(LOOKUP_WIDTH, table.elements))


LOOKED_UP, LOOKUP_WIDTH = 256.0, 512.0
"""Tokens that are looked up where an embedding is measured, and the widest row of its table."""

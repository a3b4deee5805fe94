"""A processor's constants from measured operators: products, attention, fused kernels, and the calls around them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sightline.calibration.error_figures import error_statistics
from sightline.calibration.fits import AnyTable, Array, FitResult, fit_with_priors, priors_of
from sightline.calibration.manifest import manifest
from sightline.calibration.parts.part import PartFit, Points
from sightline.calibration.processor.tables import (
    DISPATCH_FLOPS,
    ELEMENTWISE,
    ChainTable,
    Measurement,
    PassTable,
    ProductTable,
    chain_table,
    pass_table,
    product_table,
)
from sightline.calibration.residuals import fit_and_judge
from sightline.cost.processor.constants import (
    THIN,
    FusedAttentionConstants,
    Processor,
    ProcessorConstants,
    ProductConstants,
)
from sightline.cost.processor.formulas import fused_attention_cost, product_cost
from sightline.errors import InputError
from sightline.progress import SILENT, Progress
from sightline.quantities import significant
from sightline.scenario import Device

ORDERS = ("forward", "few rows", "one row", "input gradient", "weight gradient")
WAYS = ("forward", "backward")
LEAST = 8
"""Measurements that a product's or a pass's constants need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    """What the formulas need in addition to the constants that are fitted."""

    device: Device
    dtype: str
    cores: float

    def processor(
        self, products: Mapping[str, ProductConstants], attention: Mapping[str, FusedAttentionConstants]
    ) -> Processor:
        """The processor with constants of which one kind is used."""
        constants = ProcessorConstants(cores=self.cores, products=products, attention=attention, kernels={}, calls={})
        return Processor(device=self.device, dtype=self.dtype, constants=constants)


def fit_processor(rows: Sequence[Measurement], device: Device, progress: Progress = SILENT) -> PartFit:
    """Return a processor's constants in every number format that was measured.

    Errors are those of whole families that a fit did not see: of linear layers, of head shapes, of a chain's sizes.

    Raises:
        InputError: operators are missing that every step needs.
    """
    formats: dict[str, Any] = {}
    fits: dict[str, FitResult] = {}
    points: list[Points] = []
    cores = float(device.compute_units)
    dtypes = sorted({r.dtype for r in rows if r.workload["operator"] == "matmul"})
    progress.begin(len(dtypes), "fitting")
    for dtype in dtypes:
        progress.check()
        mine = [r for r in rows if r.dtype == dtype or r.workload["operator"] == "adam"]
        machine = _Machine(device=device, dtype=dtype, cores=cores)
        tables = {order: product_table(mine, order) for order in ORDERS}
        known = [order for order in THIN if len(tables[order]) >= LEAST] or THIN
        tables = {order: table for order, table in tables.items() if order not in THIN or order in known}
        products = {
            order: _fit(table, "products", order, _layers(table, order), partial(_product_seconds, machine, order))
            for order, table in tables.items()
        }
        attention = {
            way: _fit(passes, "attention", way, passes.named("heads", "head_dim"), partial(_pass_seconds, machine, way))
            for way, passes in ((way, pass_table(mine, way)) for way in WAYS)
        }
        kernels = {chain: _curve(chain_table(mine, chain), chain) for chain in ELEMENTWISE.values()}
        formats[dtype] = {
            "products": {order: dict(f.constants) for order, f in products.items()},
            "attention": {way: dict(f.constants) for way, f in attention.items()},
            "calls": _calls(mine),
            "kernels": {chain: dict(f.constants) for chain, f in kernels.items()},
        }
        fits |= {f"{dtype} product, {order}": f for order, f in products.items()}
        fits |= {f"{dtype} attention, {way}": f for way, f in attention.items()}
        fits |= {f"{dtype} {chain}": f for chain, f in kernels.items()}
        points += [_points(f"{dtype} product, {o}", t, o, machine, products[o]) for o, t in tables.items()]
        progress.advance()
    content = {"cores": cores, "formats": formats, "residuals": {name: fit.residuals for name, fit in fits.items()}}
    return PartFit(content=content, fits=fits, points=points)


def _layers(table: ProductTable, order: str) -> list[str]:
    """The linear layer of every product, by its weights."""
    return table.named(*("mn" if order == "weight gradient" else "nk"))


def _product_seconds(machine: _Machine, order: str, table: ProductTable, values: Mapping[str, float]) -> Array:
    of = "forward" if order in THIN else order
    on = machine.processor(dict.fromkeys((of, *THIN), ProductConstants.from_mapping(values)), {})
    return np.asarray(product_cost(table.m, table.n, table.k, on=on, order=of, missing=table.missing).time_s)


def _pass_seconds(machine: _Machine, way: str, table: PassTable, values: Mapping[str, float]) -> Array:
    passes = table.passes("backward" if way == "backward" else "forward", machine.dtype)
    on = machine.processor({}, dict.fromkeys(WAYS, FusedAttentionConstants.from_mapping(values)))
    return np.asarray(fused_attention_cost(passes, on, missing=table.missing).time_s)


def _fit(
    table: AnyTable,
    kind: str,
    way: str,
    families: Sequence[str],
    predict: Callable[[AnyTable, Mapping[str, float]], Array],
) -> FitResult:
    """Fit all, and again without each of the ``families`` where enough is left."""
    if len(table) < LEAST:
        raise InputError(
            f"{kind} ({way}): {len(table)} measurements are too few, {LEAST} are needed; measure the standard suite"
        )

    priors = priors_of(manifest("processor")["priors"][kind])

    def fit(part: AnyTable) -> dict[str, float]:
        return fit_with_priors(lambda v: predict(part, v), part.seconds, np.ones(len(part)), priors)

    largest = np.unique(families, return_counts=True)[1].max()
    return fit_and_judge(table, fit, predict, {"family": families} if len(table) - largest >= LEAST else {})


def _curve(table: ChainTable, chain: str) -> FitResult:
    """A chain's times by size, in the cache and from memory.

    Disturbances only ever add: no time is longer than that of more elements, and none in the cache than from memory.
    """
    if len(table) < 2:
        raise InputError(f"{chain}: it was measured at {len(table)} sizes, two are needed; measure the standard suite")
    knots = np.unique(table.elements)

    def times(places: Sequence[bool]) -> Array:
        found = []
        for size in knots:
            here = table.elements == size
            own = here & np.isin(table.missing == 0, places)
            found.append(float(table.seconds[own if own.any() else here].min()))
        return np.minimum.accumulate(np.array(found)[::-1])[::-1]

    cached_s, memory_s = times((True, False)), times((False,))
    residuals = {}
    if len(knots) > 3:
        inner = [np.interp(knots[i], np.delete(knots, i), np.delete(cached_s, i)) for i in range(1, len(knots) - 1)]
        residuals["size left out"] = error_statistics(np.array(inner), cached_s[1:-1])
    constants = {
        "elements": [float(x) for x in knots],
        "cached_s": [significant(x) for x in cached_s],
        "memory_s": [significant(x) for x in np.maximum(memory_s, cached_s)],
    }
    return FitResult(constants=constants, rows={"fitted": len(table)}, residuals=residuals)


def _calls(rows: Sequence[Measurement]) -> dict[str, float]:
    """What recording and running the graph adds to a linear layer so small that only calls take time."""
    tiny = {
        r.implementation: r.seconds
        for r in rows
        if r.workload["operator"] == "matmul" and 2 * np.prod([r.workload[x] for x in "mnk"]) < DISPATCH_FLOPS
    }
    missing = {"library", "input-gradient", "weight-gradient", "recorded", "backward"} - tiny.keys()
    if missing:
        raise InputError(
            f"calls: no tiny product was measured as {', '.join(sorted(missing))}; measure the standard suite"
        )
    forward = tiny["recorded"] - tiny["library"]
    backward = tiny["backward"] - tiny["input-gradient"] - tiny["weight-gradient"]
    return {"forward": significant(max(forward, 0.0)), "input gradient": significant(max(backward, 0.0))}


def _points(name: str, table: ProductTable, order: str, machine: _Machine, fit: FitResult) -> Points:
    predicted = _product_seconds(machine, order, table, fit.constants)
    return Points(kernel=name, size=table.size, unit=table.unit, predicted=predicted, measured=table.seconds)

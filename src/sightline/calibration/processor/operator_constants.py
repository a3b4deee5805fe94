"""Constants of a processor's operators, and the machine's calibrations of all that was measured."""

import json
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sightline.calibration.error_figures import error_statistics
from sightline.calibration.fits import AnyTable, Array, FitResult, Table, fit_and_judge, fit_with_priors, priors_of
from sightline.calibration.from_tables import Calibration, calibrate, read_tables
from sightline.calibration.manifest import manifest
from sightline.calibration.parts.attention import HeadsTable
from sightline.calibration.parts.matmul import MatmulTable
from sightline.calibration.parts.part import PartFit, Points
from sightline.calibration.processor import small_models
from sightline.cost.collectives.libraries import CollectiveConstants
from sightline.cost.families import PROCESSOR
from sightline.cost.processor import fused_attention_cost, product_cost
from sightline.cost.processor_constants import (
    FEW_ROWS,
    ROWS_AT_ONCE,
    THIN,
    FusedAttentionConstants,
    Processor,
    ProcessorConstants,
    ProductConstants,
    from_mapping,
)
from sightline.errors import InputError
from sightline.loading import operation_from_mapping, to_mapping
from sightline.loading.clusters import read_cluster
from sightline.loading.clusters.hardware import DEVICE, device_to_mapping
from sightline.loading.clusters.this_machine import THIS_MACHINE, share_of
from sightline.prediction.training.constants import ANY, TrainingConstants
from sightline.progress import SILENT, Progress
from sightline.quantities import significant
from sightline.runs import Run
from sightline.scenario import Device

ORDER_OF_SOURCE: Mapping[str, str] = {
    "library": "forward",
    "input-gradient": "input gradient",
    "weight-gradient": "weight gradient",
}
"""Order of a product's operands by how it was measured."""
WAY_OF_SOURCE: Mapping[str, str] = {"recorded": "forward", "backward": "backward"}
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
    order, rows = ORDER_OF_SOURCE.get(row.implementation), row.workload["m"]
    if order != "forward" or rows > FEW_ROWS:
        return order
    return "one row" if rows <= ROWS_AT_ONCE else "few rows"


def pass_table(rows: Sequence[Measurement], way: str) -> PassTable:
    """Return the attention passes of one direction."""
    passes = [r for r in rows if r.workload["operator"] == "attention"]
    return _table(PassTable, [r for r in passes if WAY_OF_SOURCE.get(r.implementation) == way])


def chain_table(rows: Sequence[Measurement], chain: str) -> ChainTable:
    """Return a chain's measurements by size: of a lookup the elements that are read, whatever the table's size."""
    chosen = [r for r in rows if ELEMENTWISE.get((r.workload["operator"], r.implementation)) == chain]
    table = _table(ChainTable, chosen)
    if chain != "lookup":
        return table
    return replace(table, elements=LOOKED_UP * np.minimum(LOOKUP_WIDTH, table.elements))


LOOKED_UP, LOOKUP_WIDTH = 256.0, 512.0
"""Tokens that are looked up where an embedding is measured, and the widest row of its table."""


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
    for dtype in progress.each(dtypes, "fitting"):
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
            f"{kind} ({way}): {len(table)} measurements are too few, at least {LEAST} required; measure the "
            "standard suite"
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
        raise InputError(f"{chain}: measured at {len(table)} sizes, two required; measure the standard suite")
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
        raise InputError(f"calls: no small matmul measured as {', '.join(sorted(missing))}; measure the standard suite")
    forward = tiny["recorded"] - tiny["library"]
    backward = tiny["backward"] - tiny["input-gradient"] - tiny["weight-gradient"]
    return {"forward": significant(max(forward, 0.0)), "input gradient": significant(max(backward, 0.0))}


def _points(name: str, table: ProductTable, order: str, machine: _Machine, fit: FitResult) -> Points:
    predicted = _product_seconds(machine, order, table, fit.constants)
    return Points(kernel=name, size=table.size, unit=table.unit, predicted=predicted, measured=table.seconds)


TRAINING = "training"
COLLECTIVES = "collectives"
TABLES = ("elementwise", COLLECTIVES)
"""Parts that have formulas of their own on a processor too: single kernels, and processes that talk to each other."""

NEUTRAL: Mapping[str, float | str] = manifest("processor")["training"]
"""Constants of a training step that is the sum of its calls."""


def is_of_processor(rows: Sequence[Measurement]) -> bool:
    """Whether measurements are those of a processor's standard suite."""
    return any(row.implementation in WAY_OF_SOURCE for row in rows)


def calibrate_machine(
    results: Sequence[Mapping[str, Any]],
    source: str,
    progress: Progress = SILENT,
    dispatch: Mapping[str, Sequence[Mapping[str, float]]] | None = None,
    sharded: Mapping[str, Sequence[Mapping[str, float]]] | None = None,
) -> tuple[list[Calibration], dict[str, Any], list[str]]:
    """Return the calibrations, the machine's figures as a catalog device, and why parts are missing.

    ``dispatch`` holds the measured phases of `dispatch_scenarios` by number format, where they were measured,
    ``sharded`` those of `sharding_scenarios`.

    ``results`` are those of the standard suite under the documented keys, ``source`` says where they come from. The
    figures are those the machine had when it was measured: constants are shares of them.

    Raises:
        InputError: the results are not a processor's standard suite.
    """
    rows = measurements(results)
    if not is_of_processor(rows):
        raise InputError(f"{source} has no standard suite of a CPU; measure one with `sightline calibrate --measure`")
    figures = device_figures(results)
    device = DEVICE.build(figures)
    fit = fit_processor(rows, device, progress)
    for dtype, phases in (dispatch or {}).items():
        if dtype in fit.content["formats"]:
            _add_dispatch(fit, dtype, phases, device)
    tiny = [p for phases in (dispatch or {}).values() for p in phases[: len(small_models.DEPTHS)]]
    taken = [p[small_models.FRAMEWORK_BYTES] for p in tiny if small_models.FRAMEWORK_BYTES in p]
    if taken:
        fit = replace(fit, content={**fit.content, small_models.FRAMEWORK_BYTES: significant(np.median(taken))})
    calibrations = [
        _calibration(PROCESSOR, fit, source, rows),
        _calibration(TRAINING, _training(dispatch or {}), source, ()),
    ]
    more, missing = _from_tables(results, progress)
    library = next((c.fit.content for c in more if c.part == COLLECTIVES), None)
    if library is not None:
        for dtype, steps in (sharded or {}).items():
            _add_sharding(fit, dtype, steps, figures, library)
    return calibrations + more, figures, missing


def device_figures(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return this machine's figures under a catalog device's keys, as the results state them or as they are found."""
    for result in results:
        stated = (result["scenario"].get("cluster") or {}) if isinstance(result["scenario"], Mapping) else {}
        if isinstance(stated, Mapping) and (stated.get("device") or {}).get("name") == THIS_MACHINE:
            if int(stated.get("devices", 1)) > 1:
                continue
            figures = dict(stated["device"])
            break
    else:
        figures = {**device_to_mapping(read_cluster(THIS_MACHINE).device), "source": "detected"}
    figures = {key: value for key, value in figures.items() if value is not None}
    return {**figures, "calibration": THIS_MACHINE, "relatives": []}


def _add_dispatch(fit: PartFit, dtype: str, phases: Sequence[Mapping[str, float]], device: Device) -> None:
    """Put the host time of layers and passes next to the other calls of a number format."""
    content = fit.content["formats"][dtype]
    machine = from_mapping(content, fit.content["cores"])
    scenarios = [
        replace(scenario, cluster=replace(scenario.cluster, device=device))
        for scenario in small_models.dispatch_scenarios(dtype)
    ]
    constants = TrainingConstants.from_mapping(NEUTRAL)
    content["calls"] |= small_models.dispatch_calls(phases, scenarios, machine, constants)
    weights = small_models.call_weights(phases[0], scenarios[0], machine, constants)
    unrecorded, more = small_models.decode_calls(phases[len(small_models.DEPTHS) - 1 :], dtype, device, machine)
    content["calls"] |= unrecorded
    content |= {"call_weights": weights | more} if weights or more else {}
    if len(phases) > len(small_models.DEPTHS):
        shares = small_models.cold_shares(
            phases[-1], scenarios[-1], from_mapping(content, fit.content["cores"]), constants
        )
        content |= {"cold_shares": shares} if shares else {}


def _add_sharding(
    fit: PartFit,
    dtype: str,
    steps: Sequence[Mapping[str, float]],
    figures: Mapping[str, Any],
    library: Mapping[str, Any],
) -> None:
    """Put what sharding takes, and what processes with some of the cores do, next to the rest of a number format."""
    if dtype not in fit.content["formats"]:
        return
    content, constants = fit.content["formats"][dtype], TrainingConstants.from_mapping(NEUTRAL)
    machine = from_mapping(content, fit.content["cores"])
    device = DEVICE.build(share_of(figures, small_models.PROCESSES))
    scenarios = [replace(s, cluster=replace(s.cluster, device=device)) for s in small_models.sharding_scenarios(dtype)]
    content["fewer_cores"] = small_models.fewer_cores(
        steps[small_models.LARGE], scenarios[small_models.LARGE], machine, constants
    )
    collectives = CollectiveConstants.from_mapping({"evidence": "fitted", **library})
    content["sharding"] = small_models.sharding_constants(steps, scenarios, machine, collectives, constants)


def keep_other_formats(calibrations: Sequence[Calibration], before: Mapping[str, Any]) -> None:
    """Keep what a processor's entry that is about to be replaced says of number formats that were not measured now."""
    for content in (c.fit.content for c in calibrations if c.part == PROCESSOR):
        for key in ("formats", "residuals"):
            for name, said in before.get(key, {}).items():
                content[key].setdefault(name, said)


def _training(dispatch: Mapping[str, Sequence[Mapping[str, float]]]) -> PartFit:
    """A step's constants: nothing but what small models' steps take between their phases, where that was measured."""
    between = [phases["host"] for models in dispatch.values() for phases in models if "host" in phases]
    constants, told = dict(NEUTRAL), "estimated"
    if between:
        constants["step_s"] = significant(max(np.median(between) - float(NEUTRAL["micro_batch_s"]), 0.0))
        told = "those of small models"
    stated = {"evidence": "calibrated", "source": f"a sum of calls; host times {told}", **constants}
    told_of_all = FitResult(constants=constants, rows={}, residuals={})
    return PartFit(content={"frameworks": {ANY: stated}}, fits={"all frameworks": told_of_all})


def _calibration(part: str, fit: PartFit, source: str, rows: Sequence[Measurement]) -> Calibration:
    return Calibration(device=THIS_MACHINE, part=part, fit=fit, source=source, covered=_covered(rows))


def _covered(rows: Sequence[Measurement]) -> dict[str, dict[str, tuple[float, float]]]:
    """The range of sizes of products and of chains."""
    products = [r.workload for r in rows if r.implementation in ORDER_OF_SOURCE and r.workload["operator"] == "matmul"]
    chains = [r.workload for r in rows if (r.workload["operator"], r.implementation) in ELEMENTWISE]
    found = {}
    if products:
        found["products"] = {x: (min(w[x] for w in products), max(w[x] for w in products)) for x in "mnk"}
    if chains:
        sizes = [w["elements"] for w in chains]
        found["chains"] = {"elements": (min(sizes), max(sizes))}
    return found


def _from_tables(results: Sequence[Mapping[str, Any]], progress: Progress) -> tuple[list[Calibration], list[str]]:
    """Parts that are fitted as those of any device are, as far as enough was measured."""
    found, missing = [], []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "results.json"
        file.write_text(json.dumps(list(results)), encoding="utf-8")
        for part in TABLES:
            try:
                found += calibrate(read_tables([file], THIS_MACHINE, part), progress)
            except InputError as error:
                missing.append(f"{part}: {'; '.join(error.problems)}")
    return found, missing

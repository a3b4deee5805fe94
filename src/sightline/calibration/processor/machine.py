"""Everything that this machine's own measurements say of it: its figures, and a calibration of every part."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sightline.calibration.fits import FitResult
from sightline.calibration.from_tables import Calibration, calibrate, read_tables
from sightline.calibration.manifest import manifest
from sightline.calibration.parts.part import PartFit
from sightline.calibration.processor.operators import ELEMENTWISE, Measurement, fit_processor, measurements
from sightline.calibration.processor.operators import ORDER_OF_SOURCE as ORDERS
from sightline.calibration.processor.operators import WAY_OF_SOURCE as WAYS
from sightline.calibration.processor.steps import (
    DEPTHS,
    FRAMEWORK_BYTES,
    LARGE,
    PROCESSES,
    call_weights,
    cold_shares,
    decode_calls,
    dispatch_calls,
    dispatch_scenarios,
    fewer_cores,
    sharding_constants,
    sharding_scenarios,
)
from sightline.cost.collectives.libraries import CollectiveConstants
from sightline.cost.families import PROCESSOR
from sightline.cost.processor_constants import from_mapping
from sightline.errors import InputError
from sightline.loading.clusters import read_cluster
from sightline.loading.clusters.hardware import DEVICE, device_to_mapping
from sightline.loading.clusters.this_machine import THIS_MACHINE, share_of
from sightline.prediction.training.constants import ANY, TrainingConstants
from sightline.progress import SILENT, Progress
from sightline.quantities import significant
from sightline.scenario import Device

TRAINING = "training"
COLLECTIVES = "collectives"
TABLES = ("elementwise", COLLECTIVES)
"""Parts that have formulas of their own on a processor too: single kernels, and processes that talk to each other."""

NEUTRAL: Mapping[str, float | str] = manifest("processor")["training"]
"""Constants of a training step that is the sum of its calls."""


def is_of_processor(rows: Sequence[Measurement]) -> bool:
    """Whether measurements are those of a processor's standard suite."""
    return any(row.implementation in WAYS for row in rows)


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
        raise InputError(
            f"{source} holds no standard suite of a processor; `sightline calibrate --measure` measures one"
        )
    figures = device_figures(results)
    device = DEVICE.build(figures)
    fit = fit_processor(rows, device, progress)
    for dtype, phases in (dispatch or {}).items():
        if dtype in fit.content["formats"]:
            _add_dispatch(fit, dtype, phases, device)
    tiny = [p for phases in (dispatch or {}).values() for p in phases[: len(DEPTHS)]]
    taken = [p[FRAMEWORK_BYTES] for p in tiny if FRAMEWORK_BYTES in p]
    if taken:
        fit = replace(fit, content={**fit.content, FRAMEWORK_BYTES: significant(np.median(taken))})
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
        replace(scenario, cluster=replace(scenario.cluster, device=device)) for scenario in dispatch_scenarios(dtype)
    ]
    constants = TrainingConstants.from_mapping(NEUTRAL)
    content["calls"] |= dispatch_calls(phases, scenarios, machine, constants)
    weights = call_weights(phases[0], scenarios[0], machine, constants)
    unrecorded, more = decode_calls(phases[len(DEPTHS) - 1 :], dtype, device, machine)
    content["calls"] |= unrecorded
    content |= {"call_weights": weights | more} if weights or more else {}
    if len(phases) > len(DEPTHS):
        shares = cold_shares(phases[-1], scenarios[-1], from_mapping(content, fit.content["cores"]), constants)
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
    device = DEVICE.build(share_of(figures, PROCESSES))
    scenarios = [replace(s, cluster=replace(s.cluster, device=device)) for s in sharding_scenarios(dtype)]
    content["fewer_cores"] = fewer_cores(steps[LARGE], scenarios[LARGE], machine, constants)
    collectives = CollectiveConstants.from_mapping({"evidence": "fitted", **library})
    content["sharding"] = sharding_constants(steps, scenarios, machine, collectives, constants)


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
    products = [r.workload for r in rows if r.implementation in ORDERS and r.workload["operator"] == "matmul"]
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

"""``sightline calibrate --measure`` and ``--from-run``: constants of this machine from its own measurements."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.catalog import VARIABLE
from sightline.cli import output
from sightline.errors import InputError

if TYPE_CHECKING:
    from sightline.calibration.from_tables import Calibration
    from sightline.runs import Store
    from sightline.scenario import GenerationScenario, Scenario

Steps = Mapping[str, Sequence[Mapping[str, float]]]
"""Seconds of measured steps, in the order of their scenarios, by number format."""


def default_folder() -> Path:
    """Return the catalog folder of the user: the first of ``SIGHTLINE_CATALOG``, else one beside the stored runs."""
    first = os.environ.get(VARIABLE, "").split(os.pathsep)[0]
    if first:
        return Path(first)
    data = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(data) / "sightline" / "catalog"


def measured_steps(store: str | None, dtype: str, *, rerun: bool) -> Mapping[str, Steps]:
    """Measure the small models that tell of calls, caches and sharding; by suite and number format.

    A suite that cannot be measured, for want of transformers or of a second core, is left out.
    """
    from sightline.loading.clusters.this_machine import processor
    from sightline.measurement.measure import measure_scenarios
    from sightline.measurement.processes.suite import Effort, Settings
    from sightline.runs import open_store

    opened = open_store(store)
    settings = Settings(effort=Effort(warm_up=5, steps=30), quick=True, force=True)
    found = {}
    for suite, scenarios, answers, cores in _suites(dtype):
        if processor().cores < cores:
            output.print_remark(f"not measured: {suite}: it takes {cores} processes, and there is one core")
            continue
        try:
            measured = measure_scenarios(scenarios, opened, settings, suite=suite, rerun=rerun)
        except InputError as error:
            output.print_remark(f"not measured: {suite}: {error}")
            continue
        failed = next((one.run.reason for one in measured if one.run.status != "ok"), None)
        if failed is not None:
            output.print_remark(f"not measured: {suite}: {failed}")
            continue
        generated = measure_scenarios(answers, opened, settings, suite=suite, rerun=rerun)
        found[suite] = {dtype: _seconds(opened, [one.run for one in measured], [one.run for one in generated])}
    return found


def _suites(dtype: str) -> "list[tuple[str, Sequence[Scenario], Sequence[GenerationScenario], int]]":
    """Names of the suites of small models, their steps, the answers of the last of them, and the cores that they need."""
    from sightline.calibration.processor import dispatch, sharding

    return [
        (dispatch.SUITE, dispatch.dispatch_scenarios(dtype), dispatch.dispatch_generations(dtype), 1),
        (sharding.SUITE, sharding.sharding_scenarios(dtype), (), sharding.PROCESSES),
    ]


def _seconds(store: "Store", runs: Sequence[Any], generated: Sequence[Any]) -> list[Mapping[str, float]]:
    """The undisturbed phases and the modules of the models that were measured, and the memory of their processes.

    The last of the models may also have generated: they hold the modules of their answers.
    """
    from sightline.calibration.processor.dispatch import module_times, process_memory, undisturbed_phases

    answers = [module_times(store.rows(run).to_dicts()) if run.status == "ok" else {} for run in generated]
    answers = [{} for _ in runs[len(answers) :]] + answers
    return [
        undisturbed_phases(store.samples(run).to_dicts(), bool(run.environment.get("contended")))
        | {"host": float(run.result["phases"]["host"])}
        | process_memory(run.result["memory_bytes"])
        | module_times(store.rows(run).to_dicts())
        | answered
        for run, answered in zip(runs, answers, strict=True)
    ]


def _stored_steps(store: "Store") -> Mapping[str, Steps]:
    """The same as far as it is stored."""
    found: dict[str, dict[str, list[Mapping[str, float]]]] = {}
    ended = [run for run in store.runs() if run.status == "ok"]
    for dtype in sorted({run.scenario["plan"]["dtype"] for run in ended if "plan" in run.scenario}):
        for suite, scenarios, answers, _ in _suites(dtype):
            runs = {run.name: run for run in ended if run.suite == suite and run.scenario["plan"]["dtype"] == dtype}
            names = [str(scenario.name) for scenario in scenarios]
            if all(name in runs for name in names):
                generated = [runs[n] for one in answers if (n := str(one.name)) in runs]
                whole = generated if len(generated) == len(answers) else []
                found.setdefault(suite, {})[dtype] = _seconds(store, [runs[name] for name in names], whole)
    return found


def calibrate_results(
    results: Sequence[Mapping[str, Any]],
    source: str,
    out: Path,
    *,
    overwrite: bool,
    steps: Mapping[str, Steps] | None = None,
) -> "tuple[list[Calibration], dict[str, Path]]":
    """Fit this machine's constants and write its device and calibrations into the catalog folder ``out``."""
    from sightline.calibration.processor import dispatch, sharding
    from sightline.calibration.processor.machine import calibrate_machine, keep_other_formats
    from sightline.calibration.writing import target_paths, write_calibrations, write_yaml
    from sightline.catalog.yaml12 import parse
    from sightline.cost.families import PROCESSOR
    from sightline.loading.clusters.this_machine import THIS_MACHINE

    told = steps or {}
    with output.progress(4, "fitting", least=1) as advance:
        calibrations, figures, missing = calibrate_machine(
            results, source, advance, told.get(dispatch.SUITE), told.get(sharding.SUITE)
        )
    for sentence in missing:
        output.print_remark(f"not fitted: {sentence}")
    paths = target_paths(out, THIS_MACHINE, [c.part for c in calibrations], overwrite=overwrite)
    device = out / "devices" / f"{THIS_MACHINE}.yaml"
    if device.exists() and not overwrite:
        raise InputError(f"'{device}' is already there; --overwrite replaces it")
    if paths[PROCESSOR].exists() and device.exists():
        before, then = (parse(path.read_text(encoding="utf-8")) for path in (paths[PROCESSOR], device))
        if all(then.get(name) == figures[name] for name in ("peak_flops", "memory_bandwidth", "l2_bandwidth")):
            keep_other_formats(calibrations, before)
    write_calibrations(calibrations, paths, this_month())
    write_yaml(device, {"date": this_month(), "evidence": "measured", **figures})
    return calibrations, {**paths, "device": device}


def calibrate_runs(
    asked: Sequence[str], store: str | None, out: Path, *, overwrite: bool
) -> "tuple[list[Calibration], dict[str, Path]]":
    """Fit what stored runs tell: operators of this machine's suite, or steps of training."""
    from sightline.calibration.processor.tables import operator_results
    from sightline.calibration.training import calibrate_training, measured_steps
    from sightline.calibration.writing import target_paths, write_calibrations
    from sightline.runs import open_store

    opened = open_store(store)
    runs = [run for name in asked for run in _named(opened, name)]
    source = f"sightline calibrate --from-run {' '.join(asked)}"
    steps = measured_steps(runs)
    operators = operator_results(runs)
    if not steps and not operators:
        raise InputError(f"--from-run {' '.join(asked)}: no operator and no training step was measured in it")
    calibrations: list[Calibration] = []
    paths: dict[str, Path] = {}
    if operators:
        small = _stored_steps(opened)
        calibrations, paths = calibrate_results(operators, source, out, overwrite=overwrite, steps=small)
    if steps:
        fitted = calibrate_training(steps, source)
        family = fitted.device
        targets = target_paths(out, family, [fitted.part], overwrite=overwrite or fitted.part in paths)
        write_calibrations([fitted], targets, this_month())
        calibrations = [c for c in calibrations if c.part != fitted.part] + [fitted]
        paths |= targets
    return calibrations, paths


def use(out: Path) -> str:
    """Return how predictions take what was written; nothing where they do already."""
    known = str(out) in os.environ.get(VARIABLE, "").split(os.pathsep)
    return "" if known else f"predictions for this-machine take it with\n  export {VARIABLE}={out}"


def this_month() -> str:
    """Return year and month, as catalog entries are dated."""
    from datetime import UTC, datetime

    return f"{datetime.now(UTC):%Y-%m}"


def _named(store: "Store", name: str) -> list[Any]:
    """The run of that id, or all of a suite that ended well."""
    suite = [run for run in store.runs() if run.suite == name and run.status == "ok"]
    newest = {run.key: run for run in suite}
    return list(newest.values()) or [store.find(name)]

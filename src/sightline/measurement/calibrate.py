"""Constants of this machine from its own measurements: those of its suites, made now or stored before."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightline.calibration.from_tables import Calibration
from sightline.calibration.processor import small_models as dispatch
from sightline.calibration.processor import small_models as sharding
from sightline.calibration.processor.operator_constants import calibrate_machine, keep_other_formats, operator_results
from sightline.calibration.training_constants import calibrate_training, measured_steps
from sightline.calibration.writing import target_paths, this_month, write_calibrations, write_yaml
from sightline.catalog.yaml12 import parse
from sightline.cost.families import PROCESSOR
from sightline.errors import InputError
from sightline.loading.clusters.this_machine import THIS_MACHINE, processor
from sightline.measurement.measure import measure_scenarios
from sightline.measurement.processes.cases import Effort, Settings
from sightline.progress import Progress
from sightline.runs import Run, Store
from sightline.scenario import GenerationScenario, Scenario

Steps = Mapping[str, Sequence[Mapping[str, float]]]
"""Seconds of measured steps, in the order of their scenarios, by number format."""
Made = tuple[list[Calibration], dict[str, Path]]
"""Constants, and the files that they were written to."""
SETTINGS = Settings(effort=Effort(warm_up=5, steps=30), quick=True, force=True)
"""How small models are measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallModels:
    """A suite of small models."""

    name: str
    steps: Sequence[Scenario]
    answers: Sequence[GenerationScenario] = ()
    """What the last of the models generate."""
    cores: int = 1
    """Those that it needs."""


def small_models(dtype: str) -> Iterator[SmallModels]:
    """Yield the suites that tell of calls, caches and sharding."""
    yield SmallModels(
        name=dispatch.DISPATCH_SUITE,
        steps=dispatch.dispatch_scenarios(dtype),
        answers=dispatch.dispatch_generations(dtype),
    )
    yield SmallModels(name=sharding.SHARDING_SUITE, steps=sharding.sharding_scenarios(dtype), cores=sharding.PROCESSES)


def measured_models(store: Store, dtype: str, remark: Callable[[str], None], *, rerun: bool) -> Mapping[str, Steps]:
    """Measure the small models; by suite and number format.

    A suite that cannot be measured, for want of transformers or of a second core, is left out with a ``remark``.
    """
    found = {}
    for suite in small_models(dtype):
        try:
            found[suite.name] = {dtype: _measured(suite, store, rerun=rerun)}
        except InputError as error:
            remark(f"not measured: {suite.name}: {error}")
    return found


def _measured(suite: SmallModels, store: Store, *, rerun: bool) -> list[Mapping[str, float]]:
    if processor().cores < suite.cores:
        raise InputError(f"it needs {suite.cores} processes, but there is one core")
    steps = [one.run for one in measure_scenarios(suite.steps, store, SETTINGS, suite=suite.name, rerun=rerun)]
    failed = next((run.reason for run in steps if run.status != "ok"), None)
    if failed is not None:
        raise InputError(failed)
    answers = measure_scenarios(suite.answers, store, SETTINGS, suite=suite.name, rerun=rerun)
    return _seconds(store, steps, [one.run for one in answers])


def stored_models(store: Store) -> Mapping[str, Steps]:
    """Return what was measured of the small models as far as it is stored."""
    found: dict[str, dict[str, list[Mapping[str, float]]]] = {}
    ended = [run for run in store.runs() if run.status == "ok"]
    for dtype in sorted({run.scenario["plan"]["dtype"] for run in ended if "plan" in run.scenario}):
        for suite in small_models(dtype):
            runs = {r.name: r for r in ended if r.suite == suite.name and r.scenario["plan"]["dtype"] == dtype}
            steps, answers = ([runs.get(s.name) for s in asked] for asked in (suite.steps, suite.answers))
            if all(steps):
                seconds = _seconds(store, steps, answers if all(answers) else [])
                found.setdefault(suite.name, {})[dtype] = seconds
    return found


def _seconds(store: Store, steps: Sequence[Any], answers: Sequence[Any]) -> list[Mapping[str, float]]:
    """The undisturbed phases and the modules of the models that were measured, and the memory of their processes.

    The last of the models may also have generated: they hold the modules of their answers.
    """
    generated = [dispatch.module_times(store.rows(run).to_dicts()) if run.status == "ok" else {} for run in answers]
    generated = [{} for _ in steps[len(generated) :]] + generated
    return [
        dispatch.undisturbed_phases(store.samples(run).to_dicts(), bool(run.environment.get("contended")))
        | {"host": float(run.result["phases"]["host"])}
        | dispatch.process_memory(run.result["memory_bytes"])
        | dispatch.module_times(store.rows(run).to_dicts())
        | of_answer
        for run, of_answer in zip(steps, generated, strict=True)
    ]


def calibrate_results(
    results: Sequence[Mapping[str, Any]],
    steps: Mapping[str, Steps],
    source: str,
    out: Path,
    remark: Callable[[str], None],
    progress: Progress,
    *,
    overwrite: bool,
) -> Made:
    """Fit this machine's constants and write its device and calibrations into the catalog folder ``out``."""
    calibrations, figures, missing = calibrate_machine(
        results, source, progress, steps.get(dispatch.DISPATCH_SUITE), steps.get(sharding.SHARDING_SUITE)
    )
    for sentence in missing:
        remark(f"not fitted: {sentence}")
    paths = target_paths(out, THIS_MACHINE, [c.part for c in calibrations], overwrite=overwrite)
    device = out / "devices" / f"{THIS_MACHINE}.yaml"
    if device.exists() and not overwrite:
        raise InputError(f"'{device}' already exists; use --overwrite to replace it")
    if paths[PROCESSOR].exists() and device.exists():
        before, then = (parse(path.read_text(encoding="utf-8")) for path in (paths[PROCESSOR], device))
        if all(then.get(name) == figures[name] for name in ("peak_flops", "memory_bandwidth", "l2_bandwidth")):
            keep_other_formats(calibrations, before)
    write_calibrations(calibrations, paths)
    write_yaml(device, {"date": this_month(), "evidence": "measured", **figures})
    return calibrations, {**paths, "device": device}


def calibrate_runs(
    asked: Sequence[str],
    store: Store,
    out: Path,
    remark: Callable[[str], None],
    progress: Progress,
    *,
    overwrite: bool,
) -> Made:
    """Fit what stored runs tell: operators of this machine's suite, or steps of training."""
    runs = [run for name in asked for run in _named(store, name)]
    source = f"sightline calibrate --from-run {' '.join(asked)}"
    steps, operators = measured_steps(runs), operator_results(runs)
    if not steps and not operators:
        raise InputError(f"--from-run {' '.join(asked)}: no measured operator or training step")
    calibrations: list[Calibration] = []
    paths: dict[str, Path] = {}
    if operators:
        models = stored_models(store)
        calibrations, paths = calibrate_results(operators, models, source, out, remark, progress, overwrite=overwrite)
    if steps:
        fitted = calibrate_training(steps, source)
        targets = target_paths(out, fitted.device, [fitted.part], overwrite=overwrite or fitted.part in paths)
        write_calibrations([fitted], targets)
        calibrations = [c for c in calibrations if c.part != fitted.part] + [fitted]
        paths |= targets
    return calibrations, paths


def _named(store: Store, name: str) -> list[Run]:
    """The run of that id, or all of a suite that ended well."""
    suite = [run for run in store.runs() if run.suite == name and run.status == "ok"]
    newest = {run.key: run for run in suite}
    return list(newest.values()) or [store.find(name)]

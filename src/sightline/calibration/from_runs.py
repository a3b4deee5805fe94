"""Stored runs as what constants are fitted to: measured operators, and measured steps of training."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from sightline.calibration.from_tables import Calibration
from sightline.calibration.parts.part import PartFit
from sightline.calibration.training import MeasuredStep, fit_training
from sightline.cost.device_model import device_model
from sightline.errors import InputError
from sightline.loading import operation_from_mapping, scenario_from_mapping, to_mapping
from sightline.prediction.training.framework import TrainingConstants, load_training, training_family
from sightline.scenario import Scenario

ON_PROCESSOR = ("matmul_slowdown", "attention_slowdown", "micro_batch_s", "step_s")
"""What steps on a processor tell beyond operators; their priors keep few steps from telling more than they know."""
ON_DEVICE = (*ON_PROCESSOR, "launch_forward_s", "launch_backward_s")
TRAINING_TASKS = ("pretrain", "finetune")


class StoredRun(Protocol):
    """A run of the store."""

    @property
    def id(self) -> str:
        """Name of its folder."""

    @property
    def name(self) -> str:
        """What was measured."""

    @property
    def status(self) -> str:
        """How it ended."""

    @property
    def scenario(self) -> Mapping[str, Any]:
        """What was asked."""

    @property
    def environment(self) -> Mapping[str, Any]:
        """What it ran on, and whether others disturbed it."""

    @property
    def result(self) -> Mapping[str, Any]:
        """The documented result keys."""


def operator_results(runs: Iterable[StoredRun]) -> list[Mapping[str, Any]]:
    """Return the measured operators in runs, each under the documented keys with its scenario."""
    found: list[Mapping[str, Any]] = []
    for run in runs:
        if "results" in run.result:
            whole = [resolved(r) for r in run.result["results"] if "time_s" in r and "scenario" in r]
            found += [{**r, "environment": run.environment} for r in whole]
        elif _task(run) == "operator" and "time_s" in run.result:
            found.append({**run.result, "scenario": run.scenario, "environment": run.environment})
    return found


def resolved(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a suite's result with its scenario written out as those of single operators are."""
    if not isinstance(result["scenario"].get("cluster"), str):
        return result
    return {**result, "scenario": to_mapping(operation_from_mapping(result["scenario"]))}


def measured_steps(runs: Iterable[StoredRun]) -> list[MeasuredStep]:
    """Return the training steps in runs that ended well; raises `InputError` where a scenario no longer loads."""
    return [
        MeasuredStep(scenario=scenario_from_mapping(run.scenario), seconds=float(run.result["step_time_s"]))
        for run in runs
        if run.status == "ok" and _task(run) in TRAINING_TASKS and "step_time_s" in run.result
    ]


def calibrate_training(steps: Sequence[MeasuredStep], source: str) -> Calibration:
    """Return the training constants of the one device and framework that ``steps`` were measured on.

    What few steps cannot tell stays as it is for the device; everything fitted has a prior.

    Raises:
        InputError: the steps are of several devices or frameworks.
    """
    first = steps[0].scenario
    for what, names in (
        ("devices", {s.scenario.cluster.device.name for s in steps}),
        ("frameworks", {s.scenario.plan.framework.name for s in steps}),
    ):
        if len(names) > 1:
            raise InputError(
                f"--from-run: the runs are of {len(names)} {what}, {', '.join(sorted(names))}; name those of one"
            )
    framework = first.plan.framework.name
    free = ON_DEVICE if device_model(first.cluster.device).asynchronous else ON_PROCESSOR
    result = fit_training(steps, free, _given(first))
    chosen = {"evidence": "calibrated", "source": source, **result.constants}
    content = {"frameworks": {framework: chosen, "reference": chosen}}
    fitted = {name: result.constants[name] for name in (*free, "spread")}
    fit = PartFit(
        content=content,
        constants={framework: fitted},
        rows={framework: result.rows},
        residuals={framework: result.residuals},
    )
    return Calibration(device=first.cluster.device.name, part="training", fit=fit, source=source, covered={})


def _given(scenario: Scenario) -> dict[str, Any]:
    device, framework = scenario.cluster.device, scenario.plan.framework
    constants, _ = load_training(training_family(device, framework.name), framework.name, framework.version)
    return {name: getattr(constants, name) for name in TrainingConstants.__dataclass_fields__}


def _task(run: StoredRun) -> str:
    return str((run.scenario.get("workload") or {}).get("task", ""))

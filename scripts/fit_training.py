"""Fit the training constants of the catalog to the fit splits of the published suites.

    python scripts/fit_training.py --data DIR --out DIR

writes OUT/<device family>/training.yaml for the sets that the manifest names (sightline/calibration/manifest/training.yaml);
a rerun on the same data reproduces the shipped files. The test splits are never looked at.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from sightline.calibration.manifest import manifest
from sightline.calibration.training import PRIORS, MeasuredStep, fit_training
from sightline.loading import scenario_from_mapping
from sightline.prediction.training.flops import model_flops
from sightline.prediction.training.set_names import set_of
from sightline.validation import suites
from sightline.validation.suite import Case, Suite

HOST = ("launch_forward_s", "launch_backward_s", "micro_batch_s", "step_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """One set of constants: a framework (or one of its versions) on a device family."""

    family: str
    framework: str
    suites: Sequence[str]
    free: Sequence[str]
    given: Mapping[str, Any] = field(default_factory=dict)
    host_of: str = ""
    """The set whose host times are taken over, where these cases can't show them; FAMILY/FRAMEWORK for another device's."""
    network_of: str = ""
    """Likewise the set whose slowdown of collectives is taken over."""
    rest_of: str = ""
    """The set that gives whatever is not free, where it was fitted."""
    least_spread: float = 0.0
    """What few cases of one or two models cannot show: half-width of the interval at least (estimate)."""
    devices: Sequence[str] = ()
    """Only cases on these devices (by the start of their name)."""
    versions: Sequence[str] = ()
    """Only cases whose release line and choices take these of the family's sets."""


def fits() -> list[Fit]:
    """The sets of the manifest; groups of constants stand for their members."""
    stated = manifest("training")
    return [
        Fit(**{**told, "free": [name for word in told["free"] for name in stated["groups"].get(word, [word])]})
        for told in stated["fits"]
    ]


REFERENCE = {
    "evidence": "estimated",
    "source": "the priors of sightline.calibration.training",
    "attention_kernel": "flash-2",
    "spread": 0.3,
}


def main() -> None:
    """Run every fit and write one file per device family."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public data sets")
    parser.add_argument("--out", type=Path, required=True, help="folder that receives one folder per device family")
    parser.add_argument(
        "--only", default="", help="fit only sets whose FAMILY/FRAMEWORK starts so (prints, writes nothing)"
    )
    options = parser.parse_args()
    known = {suite.name: suite for suite in suites(options.data)}
    done: dict[str, dict[str, dict[str, Any]]] = {}
    for fit in fits():
        if f"{fit.family}/{fit.framework}".startswith(options.only):
            entry = _fitted(fit, known, done)
            done.setdefault(fit.family, {})[fit.framework] = entry
            print(f"{fit.family}/{fit.framework}: {entry['residuals']}\n  {_numbers(entry)}", flush=True)
    if not options.only:
        _write(done, options.out)


def _fitted(
    fit: Fit, known: Mapping[str, Suite], done: Mapping[str, Mapping[str, Mapping[str, Any]]]
) -> dict[str, Any]:
    given, own = dict(fit.given), done.get(fit.family, {})
    if fit.rest_of in own:
        rest = (*PRIORS, "attention_kernel")
        given |= {name: value for name, value in own[fit.rest_of].items() if name in rest and name not in fit.free}
    for taken, names in ((fit.host_of, HOST), (fit.network_of, ("collective_slowdown",))):
        family, _, framework = taken.rpartition("/")
        other = done.get(family or fit.family, {}).get(framework)
        if other is not None:
            given |= {name: other[name] for name in names}
    steps = [step for name in fit.suites for step in _steps(known[name], fit)]
    result = fit_training(steps, fit.free, given)
    return {
        "evidence": "calibrated",
        "source": f"fit splits of {', '.join(fit.suites)}" + (f" on {', '.join(fit.devices)}" if fit.devices else ""),
        "free": list(fit.free),
        "rows": dict(result.rows),
        "residuals": {name: dict(values) for name, values in result.residuals.items()},
        **result.constants,
        "spread": max(result.constants["spread"], fit.least_spread),
    }


def _steps(suite: Suite, fit: Fit) -> list[MeasuredStep]:
    """The suite's fit cases of the set's framework and devices, weighing as much as one another suite's together."""
    framework = fit.framework.partition("@")[0]
    chosen = [
        case
        for case in suite.cases
        if case.split == "fit" and case.scenario["plan"]["framework"] == framework and _on(case, fit.devices)
        if not fit.versions or set_of(scenario_from_mapping(case.scenario), fit.family)[1] in fit.versions
    ]
    return [
        MeasuredStep(
            scenario=scenario_from_mapping(case.scenario),
            seconds=_seconds(case, suite.quantity),
            weight=1.0 / len(chosen),
            quantity="forward_pass_s" if suite.quantity == "forward_pass_s" else "step_time_s",
        )
        for case in chosen
    ]


def _on(case: Case, devices: Sequence[str]) -> bool:
    device = str(case.scenario["cluster"]["devices"]).split("x ", 1)[1]
    return not devices or any(device.startswith(name) for name in devices)


def _seconds(case: Case, quantity: str) -> float:
    """Seconds of the step, from the quantity that was measured."""
    if quantity in ("step_time_s", "forward_pass_s"):
        return case.measured
    if quantity == "model_flops_per_s_per_device":
        scenario = scenario_from_mapping(case.scenario)
        return float(model_flops(scenario) / (case.measured * scenario.cluster.devices))
    workload = case.scenario["workload"]
    devices = (
        int(str(case.scenario["cluster"]["devices"]).partition("x ")[0]) if quantity.endswith("_per_device") else 1
    )
    return float(workload["sequence_length"] * workload["global_batch"] / (devices * case.measured))


def _numbers(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: entry[name] for name in entry["free"]}


def _relatives(fitted: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        name: {"like": relative, "evidence": "extrapolated", **entry["differs"]}
        for relative, entry in manifest("training")["relatives"].items()
        if relative in fitted
        for name in entry["frameworks"]
        if name not in fitted
    }


def _write(done: Mapping[str, Mapping[str, Mapping[str, Any]]], out: Path) -> None:
    reference = REFERENCE | {name: prior.value for name, prior in PRIORS.items()}
    for family in (*done, "generic"):
        content = {
            "written_by": "python scripts/fit_training.py --data DIR --out DIR",
            "date": "2026-11",
            "frameworks": {"reference": reference, **done.get(family, {}), **_relatives(done.get(family, {}))},
        }
        path = out / family / "training.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=120), encoding="utf-8")


if __name__ == "__main__":
    main()

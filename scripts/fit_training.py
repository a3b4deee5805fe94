"""Fit the training constants of the catalog to the fit splits of the published suites.

    python scripts/fit_training.py --data DIR --out DIR

writes OUT/<device family>/training.yaml; a rerun on the same data reproduces the shipped files. The test splits are
never looked at.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from sightline.calibration.training import PRIORS, MeasuredStep, fit_training
from sightline.loading import scenario_from_mapping
from sightline.prediction.training.flops import model_flops
from sightline.validation import suites
from sightline.validation.suite import Case, Suite

KERNELS = ("matmul_slowdown", "memory_fraction")
HOST = ("launch_forward_s", "launch_backward_s", "micro_batch_s", "step_s")
LAUNCHES = ("launch_forward_s", "launch_backward_s")
NETWORK = ("collective_slowdown", "overlap_slowdown")
FORMATS = ("mxfp8_slowdown", "nvfp4_slowdown")
EAGER = ("vector_fraction", "meeting_s", "collective_slowdown")


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
    """Only cases of these versions of the framework."""


EAGER_KERNEL = {"attention_kernel": "flash-2"}
TRITON = {"attention_kernel": "triton"}
GRAPHS = {"attention_kernel": "flash-2", "launch_forward_s": 2e-06, "launch_backward_s": 2e-06}
"""CUDA graphs: launches cost the host next to nothing."""
MLPERF = ["mlperf-pretraining", "mlperf-llama-2-70b-lora"]
HOPPER_KERNEL = {"attention_kernel": "flash-3"}
"""NeMo's steps on B200 come closest to it; others of NeMo and Megatron-Bridge come closer to the second generation's share."""
CUDNN_KERNEL = {"attention_kernel": "cudnn"}
"""What MLPerf's submissions ask for (NVTE_FUSED_ATTN=1, NVTE_FLASH_ATTN=0)."""
SERIAL = "megatron@bridge-26.04"
LONG = "nemo-long-sequence"
NEMO_2025 = ["nemo-2025-pretraining", LONG]
FITS = (
    Fit(
        family="a100-sxm",
        framework="megatron-deepspeed",
        suites=["vtrain-single-node"],
        free=[*KERNELS, *HOST, "vector_fraction", "meeting_s", "unsharded_head_slowdown"],
        given=EAGER_KERNEL | {"collective_slowdown": 1.0},
    ),
    Fit(
        family="a100-sxm",
        framework="megatron-deepspeed@bigscience",
        suites=["bigscience-tr11"],
        free=[*KERNELS, *EAGER],
        given=EAGER_KERNEL,
        host_of="megatron-deepspeed",
    ),
    Fit(
        family="a100-sxm",
        framework="megatron",
        suites=["korthikanti-2022-table5", "narayanan-2021-table1"],
        free=[*KERNELS, *EAGER],
        given=EAGER_KERNEL,
        host_of="megatron-deepspeed",
    ),
    Fit(
        family="a100-sxm",
        framework="fsdp",
        suites=["mosaicml-mpt"],
        free=[*KERNELS, *HOST, *NETWORK, "attention_slowdown"],
        given=TRITON,
        devices=["a100"],
    ),
    Fit(
        family="a100-sxm",
        framework="galvatron",
        suites=["galvatron-forward"],
        free=[*KERNELS, "launch_forward_s", "micro_batch_s"],
        given=EAGER_KERNEL,
        least_spread=0.15,
    ),
    Fit(
        family="a100-sxm",
        framework="transformers@qwen",
        suites=["qwen-finetuning-time"],
        free=[*KERNELS, *HOST],
        given=EAGER_KERNEL,
    ),
    Fit(
        family="a100-sxm",
        framework="deepspeed@qwen",
        suites=["qwen-finetuning-time"],
        free=[*KERNELS, *NETWORK],
        given=EAGER_KERNEL,
        host_of="transformers@qwen",
    ),
    Fit(
        family="a100-sxm",
        framework="litgpt",
        suites=["litgpt-finetuning-time"],
        free=[*KERNELS, "launch_forward_s", "launch_backward_s"],
        # Its times are of passes, most of which end without an update; each pins a batch and waits for its loss.
        given=EAGER_KERNEL | {"step_s": 0.001, "micro_batch_s": 0.01},
        least_spread=0.12,
    ),
    Fit(
        family="h100-sxm",
        framework="fsdp",
        suites=["mosaicml-mpt"],
        free=[*KERNELS, *HOST, *NETWORK, "attention_slowdown"],
        given=TRITON,
        devices=["h100"],
    ),
    Fit(
        family="h100-sxm",
        framework="torchtitan",
        suites=["torchtitan"],
        # Four cases of one model cannot tell more apart.
        free=["matmul_slowdown", *NETWORK],
        # 1.1 to 1.2 between fast accumulation and none (pytorch/ao issue 2377), which torchao takes for gradients.
        given={"attention_kernel": "flash-2", "exact_gradients_slowdown": 1.15},
        host_of="fsdp",
        least_spread=0.1,
    ),
    Fit(
        family="h100-sxm",
        framework="megatron",
        suites=["megatron-core-h100"],
        free=[*KERNELS, *NETWORK],
        given={"attention_kernel": "flash-2"},
    ),
    Fit(
        family="b200-sxm",
        framework="megatron@core-serial",
        suites=["simumax-b200-time"],
        free=["matmul_slowdown", "expert_matmul_slowdown", "attention_slowdown", "collective_slowdown", "meeting_s"],
        given={"attention_kernel": "flash-3"},
        least_spread=0.08,
    ),
    Fit(
        family="h100-sxm",
        framework="llmq",
        suites=["llmq"],
        free=[*KERNELS, "attention_slowdown"],
        given=GRAPHS,
        least_spread=0.1,
        devices=["h100"],
    ),
    Fit(
        family="rtx-4090",
        framework="llmq",
        suites=["llmq"],
        free=[*KERNELS, "attention_slowdown", "collective_slowdown"],
        given=GRAPHS,
        least_spread=0.1,
        devices=["rtx-4090", "rtx-5090"],
    ),
    Fit(
        family="l40s",
        framework="llmq",
        suites=["llmq"],
        # A GeForce runs fp32 sums at half of the tensor cores' rate and above its datasheet's clock; this board does neither.
        free=["matmul_slowdown"],
        given=GRAPHS,
        least_spread=0.3,
        devices=["l40s"],
    ),
    Fit(
        family="rtx-pro-6000",
        framework="llmq",
        suites=["llmq"],
        free=[*KERNELS, "attention_slowdown", "collective_slowdown"],
        given=GRAPHS,
        least_spread=0.1,
        devices=["rtx-pro-6000"],
    ),
    Fit(
        family="h100-sxm",
        framework="megatron@nemo",
        suites=["nemo-2024-pretraining", LONG],
        free=[*KERNELS, *NETWORK],
        given={"attention_kernel": "flash-2"},
        devices=["h100"],
        least_spread=0.08,
    ),
    *(
        Fit(
            family=family,
            framework=framework,
            suites=suites_of,
            free=[*KERNELS, *NETWORK, *free],
            given=kernel,
            devices=[family.partition("-")[0]],
            versions=[framework.partition("@")[2], *also],
            least_spread=0.08,
        )
        for family, framework, suites_of, free, kernel, *also in (
            ("h100-sxm", "megatron@mlperf-3", MLPERF, [], CUDNN_KERNEL),
            ("h100-sxm", "megatron@mlperf", MLPERF, ["meeting_s"], CUDNN_KERNEL),
            ("gb200", "megatron@mlperf", MLPERF, ["meeting_s"], CUDNN_KERNEL),
            ("b200-sxm", "megatron@nemo-25.02", NEMO_2025, ["attention_slowdown"], HOPPER_KERNEL, "nemo-25.04"),
            ("b200-sxm", "megatron@bridge", ["megatron-bridge-dense"], ["mxfp8_slowdown"], EAGER_KERNEL),
            ("gb200", "megatron@nemo-25.04", NEMO_2025[:1], [], EAGER_KERNEL),
            ("gb200", "megatron@bridge", ["megatron-bridge-dense"], FORMATS, EAGER_KERNEL),
            ("gb300", "megatron@bridge", ["megatron-bridge-dense"], FORMATS, EAGER_KERNEL),
        )
    ),
    *(
        Fit(
            family=family,
            framework=f"megatron@{release}",
            suites=["megatron-bridge-moe"],
            free=["expert_matmul_slowdown", "memory_fraction", *free],
            given=EAGER_KERNEL,
            host_of=host_of,
            network_of=network_of,
            rest_of=rest_of,
            devices=devices,
            versions=[release],
            least_spread=0.3,
        )
        # Hosts of DGX H100 and B200 are of one kind; racks of GB200 and GB300 have one kind of host and of links.
        for family, release, rest_of, devices, free, host_of, network_of in (
            (
                "b200-sxm",
                "bridge-26.04",
                "megatron@bridge",
                ["b200", "b300"],
                [*LAUNCHES, "collective_slowdown"],
                "",
                "",
            ),
            ("h100-sxm", "bridge-26.04", "megatron@nemo", ["h100"], ["collective_slowdown"], f"b200-sxm/{SERIAL}", ""),
            ("gb200", "bridge-26.04", "megatron@bridge", ["gb200"], [*LAUNCHES, "collective_slowdown"], "", ""),
            ("gb200", "bridge-26.06", "megatron@bridge", ["gb200"], ["collective_slowdown"], "", ""),
            ("gb300", "bridge-26.04", "megatron@bridge", ["gb300"], (), f"gb200/{SERIAL}", f"gb200/{SERIAL}"),
            ("gb300", "bridge-26.06", "megatron@bridge", ["gb300"], ["collective_slowdown"], "", ""),
        )
    ),
)
RELATIVES: Mapping[str, Mapping[str, Any]] = {
    "fsdp": {
        "frameworks": ["deepspeed", "transformers", "torchtitan"],
        "differs": {"attention_kernel": "flash-2", "attention_slowdown": 1.0, "spread": 0.2},
    },
    "megatron@nemo": {
        "frameworks": ["megatron@bridge", "megatron@nemo-25.02", "megatron@nemo-25.04"],
        "differs": {"spread": 0.15},
    },
    "megatron@bridge": {
        "frameworks": ["megatron@nemo", "megatron@nemo-25.02", "megatron@nemo-25.04", "megatron@mlperf", "megatron"],
        "differs": {"spread": 0.15},
    },
    "megatron@nemo-25.02": {"frameworks": ["megatron@nemo", "megatron@nemo-25.04"], "differs": {"spread": 0.1}},
    "megatron@nemo-25.04": {"frameworks": ["megatron@nemo", "megatron@nemo-25.02"], "differs": {"spread": 0.1}},
    "megatron": {"frameworks": ["megatron-deepspeed"], "differs": {"spread": 0.2}},
    "megatron@bridge-26.04": {"frameworks": ["megatron@bridge-26.06"], "differs": {"spread": 0.3}},
    "megatron@core-serial": {
        "frameworks": ["megatron", "fsdp", "deepspeed", "transformers", "torchtitan"],
        "differs": {"spread": 0.2},
    },
}
"""Frameworks without measurements take the constants of a relative: the same kernels, interpreter and collectives.

Their spread is an estimate, wider than that of any measured set.
"""
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
    for fit in FITS:
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
        if not fit.versions or case.scenario["plan"].get("framework_version") in fit.versions
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
        for relative, entry in RELATIVES.items()
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

"""The loop on a plain processor: ``sightline calibrate --measure``, then ``python benchmarks/bench_cpu_loop.py``.

Tiny Llamas that no constant was fitted to are predicted with this machine's constants (``SIGHTLINE_CATALOG``), then
trained for real or generate; steps, phases and modules stand side by side. On a machine that others use too, everything is kept to
one core and CPU time: ``SIGHTLINE_CLOCK=cpu taskset -c 0 ...`` for both commands. With ``--rounds 3`` every case is
measured in three rounds through all, and the medians stand: a machine that is slow for a while is not slow for a case.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sightline.calibration.processor.small_models import module_times
from sightline.cost.device_model import device_model
from sightline.loading import generation_from_mapping, scenario_from_mapping
from sightline.measurement.measure import measure_scenarios
from sightline.measurement.processes.cases import Effort, Settings
from sightline.prediction import predict
from sightline.prediction.generation.batch_profile import predict_generation
from sightline.profile import Profile
from sightline.runs import open_store
from sightline.scenario import Device

GOAL = 0.10
LEAST_SHARE = 0.02
"""Modules that take less of a step are not counted."""
Shape = tuple[int, int, int, int, int, int]
MODELS: Mapping[str, Shape] = {
    "1M": (64, 4, 4, 4, 192, 4096),
    "4M": (160, 5, 5, 5, 432, 6000),
    "10M": (256, 6, 8, 8, 688, 8192),
    "25M": (448, 7, 7, 7, 1200, 10000),
    "50M": (640, 8, 10, 5, 1728, 12000),
    "100M": (768, 9, 12, 12, 2048, 16000),
}
"""Values of ``KEYS``."""
KEYS = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "intermediate_size",
    "vocab_size",
)
TOKENS: Mapping[str, tuple[int, int]] = {
    "1M": (128, 1),
    "4M": (256, 2),
    "10M": (128, 2),
    "25M": (256, 1),
    "50M": (128, 2),
    "100M": (192, 1),
}
"""Sequence length and micro-batch."""
OUTPUT_TOKENS = 32
LORA = {"adapter": {"kind": "lora", "rank": 8}}
SHARDED = {"framework": "fsdp", "data_parallel": 2}
KINDS: Mapping[str, tuple[Sequence[str], str, str, Mapping[str, Any]]] = {
    "training": (tuple(MODELS), "this-machine", "pretrain", {}),
    "lora": (("10M", "25M"), "this-machine", "finetune", LORA),
    "zero-2": (("4M", "10M"), "2x this-machine", "pretrain", {**SHARDED, "zero_stage": 2}),
    "zero-3": (("4M", "10M"), "2x this-machine", "pretrain", {**SHARDED, "zero_stage": 3}),
    "generation": (("4M", "10M", "25M", "50M"), "this-machine", "generate", {}),
}
"""Which models, on what, doing what, under which plan."""


def main() -> int:
    """Print every comparison; the exit status is 1 where the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--kinds", default="training,lora", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--models", default="", help="only these")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=1, help="times that each case is measured")
    arguments = parser.parse_args()
    cases: dict[str, dict[str, Any]] = {}
    for kind in arguments.kinds.split(","):
        names, cluster, task, plan = KINDS[kind]
        chosen = [n for n in names if not arguments.models or n in arguments.models.split(",")]
        cases |= {f"{name} {kind}": _scenario(name, cluster, task, plan) for name in chosen}
    rounds = [
        {name: _compare(name, mapping, arguments.steps) for name, mapping in cases.items()}
        for _ in range(arguments.rounds)
    ]
    found = [_middle([compared[name] for compared in rounds]) for name in cases]
    if not arguments.json:
        for compared in found:
            _print(compared)
    steps = [abs(f["step"]["error"]) for f in found if "step" in f]
    modules = [abs(m["error"]) for f in found for m in f.get("modules", {}).values()]
    means = {"step": float(np.mean(steps)), "modules": float(np.mean(modules)) if modules else None}
    if arguments.json:
        print(json.dumps({"cases": found, "mean": means}, indent=1))
    else:
        print(f"mean absolute error: steps {means['step']:.1%}, modules {means['modules'] or float('nan'):.1%}")
    return int(max(x for x in means.values() if x is not None) > GOAL)


def _scenario(name: str, cluster: str, task: str, plan: Mapping[str, Any]) -> dict[str, Any]:
    length, batch = TOKENS[name]
    replicas = int(plan.get("data_parallel", 1))
    workload: dict[str, Any] = {"sequence_length": length, "global_batch": batch * replicas}
    common: dict[str, Any] = {"framework": "transformers", "dtype": "fp32", "micro_batch": batch}
    if task == "generate":
        workload = {"batch": batch, "prompt_tokens": length, "output_tokens": OUTPUT_TOKENS}
        common = {"framework": "transformers", "dtype": "fp32"}
    return {
        "name": name,
        "model": {"model_type": "llama", **dict(zip(KEYS, MODELS[name], strict=True)), "max_position_embeddings": 2048},
        "cluster": cluster,
        "workload": {"task": task, **workload},
        "plan": {**common, **plan},
    }


def _compare(name: str, mapping: Mapping[str, Any], steps: int) -> dict[str, Any]:
    """Predicted beside measured."""
    if mapping["workload"]["task"] == "generate":
        return _compare_generation(name, mapping)
    scenario = scenario_from_mapping(mapping)
    _need_constants(scenario.cluster.device)
    predicted = predict(scenario)
    settings = Settings(effort=Effort(warm_up=3, steps=steps, repeats=1), force=True)
    with tempfile.TemporaryDirectory() as folder:
        (measured,) = measure_scenarios([scenario], open_store(folder), settings)
        if measured.profile is None:
            return {"name": name, "reason": measured.run.reason}
    actual = measured.profile
    return {
        "name": name,
        "step": _pair(predicted.step_time_s, actual.step_time_s),
        "interval": [x / float(actual.step_time_s) - 1 for x in actual.interval["step_time_s"] if x is not None],
        "phases": {
            phase: _pair(predicted.phases[phase], seconds)
            for phase, seconds in actual.phases.items()
            if seconds > LEAST_SHARE * float(actual.step_time_s)
        },
        "modules": _modules(predicted, actual),
    }


def _compare_generation(name: str, mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Predicted beside measured: the whole answer as the step, its first token and each of the others as phases."""
    scenario = generation_from_mapping(mapping)
    _need_constants(scenario.cluster.device)
    predicted = predict_generation(scenario)
    with tempfile.TemporaryDirectory() as folder:
        (measured,) = measure_scenarios([scenario], open_store(folder), Settings(force=True))
    if measured.profile is None:
        return {"name": name, "reason": measured.run.reason}
    actual = measured.profile
    ends = actual.interval.get("latency_s", (float(actual.latency_s),) * 2)
    return {
        "name": name,
        "step": _pair(predicted.latency_s, actual.latency_s),
        "interval": [x / float(actual.latency_s) - 1 for x in ends if x is not None],
        "phases": {
            "first token": _pair(predicted.ttft_s, actual.ttft_s),
            "every other token": _pair(predicted.tpot_s, actual.tpot_s),
        },
        "modules": _modules(predicted, actual),
    }


def _need_constants(device: Device) -> None:
    if device_model(device).asynchronous:
        raise SystemExit("this machine has no constants: run `sightline calibrate --measure` first")


def _middle(compared: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The rounds of one case as one, every measured time the median of those rounds that have it."""
    whole = [c for c in compared if "step" in c]
    if not whole:
        return dict(compared[0])
    step = _median([c["step"] for c in whole])
    ends = [(1 + end) * c["step"]["measured_s"] / step["measured_s"] - 1 for c in whole for end in c["interval"]]

    def each(kind: str) -> dict[str, Any]:
        names = dict.fromkeys(name for c in whole for name in c[kind])
        return {name: _median([c[kind][name] for c in whole if name in c[kind]]) for name in names}

    return {
        "name": whole[0]["name"],
        "step": step,
        "interval": [min(ends), max(ends)],
        "phases": each("phases"),
        "modules": each("modules"),
    }


def _median(pairs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return _pair(pairs[0]["predicted_s"], np.median([pair["measured_s"] for pair in pairs]))


def _modules(predicted: Profile, actual: Profile) -> dict[str, dict[str, float]]:
    """By phase, block and module, those that take their share of the step."""
    ours, theirs = _by_module(predicted), _by_module(actual)
    total = sum(theirs.values())
    return {key: _pair(ours.get(key, 0.0), s) for key, s in theirs.items() if s > LEAST_SHARE * total and key in ours}


def _by_module(profile: Profile) -> dict[str, float]:
    return module_times(profile.table.to_dicts())


def _pair(predicted: Any, measured: Any) -> dict[str, float]:
    return {
        "predicted_s": float(predicted),
        "measured_s": float(measured),
        "error": float(predicted) / float(measured) - 1,
    }


def _print(compared: Mapping[str, Any]) -> None:
    if "reason" in compared:
        print(f"{compared['name']}: not measured: {compared['reason']}")
        return
    low, high = compared["interval"]
    rows = {f"step (measured {low:+.0%} {high:+.0%})": compared["step"], **compared["phases"], **compared["modules"]}
    print(compared["name"])
    for label, pair in rows.items():
        print(
            f"  {label:44} {1e3 * pair['predicted_s']:9.2f} ms predicted {1e3 * pair['measured_s']:9.2f} ms measured "
            f"{pair['error']:+7.1%}"
        )
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())

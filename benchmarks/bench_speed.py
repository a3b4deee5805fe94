"""How fast Sightline is on this machine: ``python benchmarks/bench_speed.py [--json]``.

Cold start of the command, one prediction of a training step and of a generation in process - new ones, and with one field
changed - and of a step that does not fit, and points per CPU-second of a mesh of generations. What counts are the ratios
within the run, in which a machine's speed cancels out.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

EXAMPLE = Path(__file__).parents[1] / "examples" / "llama-2-7b-zero2-8xa800.yaml"
FORBIDDEN = ("torch", "scipy", "altair", "polars", "pandas")
IMPORTS = "import numpy, typer, yaml, rich.console, rich.table; from pydantic import TypeAdapter"
"""The packages of the command line, with those of their modules that load late: Typer takes pydantic for some options."""
ROOM = 5.0
"""Factor by which a target may be missed before a benchmark fails: less may be the machine, on which ratios depend too."""

GENERATION: dict[str, Any] = {
    "model": "llama-2-70b",
    "cluster": "8x h100-sxm-80gb",
    "workload": {"task": "generate", "batch": 8, "prompt_tokens": 1024, "output_tokens": 128},
    "plan": {"tensor_parallel": 8},
}
LARGE: dict[str, Any] = {
    "model": "deepseek-v3",
    "cluster": "256x h800-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 4096, "global_batch": 2048},
    "plan": {"framework": "megatron", "micro_batch": 1, "pipeline_parallel": 8, "expert_parallel": 32, "zero_stage": 1},
}
"""A training step of DeepSeek-V3 that does not fit."""
QUANTIZATIONS = ((), ("fp8",), ("w4a16",), ("w8a8", "kv-int8"), ("fp8", "kv-fp8"))


TARGETS = {
    "prediction": 1.3,
    "generation": 0.9,
    "prediction, one field changed": 0.5,
    "generation, one field changed": 0.5,
    "cold start": 1.35,
    "does not fit": 1.2,
}
"""Most of the fixed work's seconds that a prediction takes; most over imports, and over a prediction that fits."""


def main() -> None:
    """Measure, print, and fail where something is far too slow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    as_json = parser.parse_args().json
    figures = {"pace_s": pace()} | cold_start() | predictions()
    figures |= {"pace_s": min(figures["pace_s"], pace())} | many_generations()
    figures["pace_s"] = min(figures["pace_s"], pace())
    ratios = ratios_of(figures)
    if as_json:
        print(json.dumps(figures | {"ratios": ratios}, indent=2))
    else:
        for name, value in figures.items():
            print(f"{name:<24} {value:.6g}")
        print(f"\n{'ratio within this run':<32} {'now':>7} {'target':>7}")
        for name, value in ratios.items():
            print(f"{name:<32} {value:7.3f} {TARGETS[name]:7.3f}")
    judge({name: (value, TARGETS[name]) for name, value in ratios.items()})


def judge(ratios: dict[str, tuple[float, float]]) -> None:
    """Say on stderr which targets are missed, and end with status 1 where one is missed so far that the code is slow."""
    missed = {name: value / target for name, (value, target) in ratios.items() if value > target}
    for name, times in missed.items():
        print(f"missed: {name}, {times:.2f} times its target", file=sys.stderr)
    if any(times > ROOM for times in missed.values()):
        sys.exit(f"more than {ROOM:g} times a target is the code, not the machine")


def ratios_of(figures: dict[str, float]) -> dict[str, float]:
    """Return what a machine's speed cancels out of."""
    pace_s = figures["pace_s"]
    return {
        "prediction": figures["prediction_s"] / pace_s,
        "generation": figures["generation_s"] / pace_s,
        "prediction, one field changed": figures["prediction_changed_s"] / pace_s,
        "generation, one field changed": figures["generation_changed_s"] / pace_s,
        "cold start": figures["cold_start_ratio"],
        "does not fit": figures["does_not_fit_s"] / figures["fits_s"],
    }


def pace() -> float:
    """Return the median seconds of fixed work such as predictions are made of: small arrays among plain objects.

    Predictions are the least of many runs, so this is the least of several medians: a busy moment would flatter them.
    """

    def work() -> dict[int, Any]:
        held: dict[int, Any] = {}
        for i in range(1000):
            held[i % 7] = np.maximum(np.asarray(float(i)), 3.0) * 2.0 + held.get((i + 1) % 7, 0.0)
        return held

    return float(np.median(durations(work, repeats=200)))


def cold_start() -> dict[str, float]:
    """Return the least CPU-seconds of ``sightline predict``, and over those of a process that only imports.

    The command must not import what is heavy.
    """
    code = "import sys; from sightline.cli.main import run; run(sys.argv[1:]); print(*sys.modules)"
    command = [sys.executable, "-c", code, "predict", str(EXAMPLE), "--json"]
    modules = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1].split()
    assert not set(FORBIDDEN) & set(modules), f"imported: {set(FORBIDDEN) & set(modules)}"
    # An installed package has its bytecode, whatever this environment says about writing it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    commands = {"cold_start_s": ["-m", "sightline", "predict", str(EXAMPLE)], "imports_s": ["-c", IMPORTS]}
    seconds = dict.fromkeys(commands, float("inf"))
    for _ in range(10):  # by turns, so that a busy machine slows both
        for name, arguments in commands.items():
            command = [sys.executable, *arguments]
            before = children_s()
            subprocess.run(command, check=True, capture_output=True, env=environment)
            seconds[name] = min(seconds[name], children_s() - before)
    return seconds | {"cold_start_ratio": seconds["cold_start_s"] / seconds["imports_s"]}


def children_s() -> float:
    """Return the CPU-seconds of all processes that were started and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def predictions() -> dict[str, float]:
    """Return the least seconds of single predictions in process, each of a scenario that was not asked before.

    Sequence and prompt are new with no block written or priced before; with one field changed blocks are there, as the
    batch of training and the memory that generation may take leave them as they are.
    """
    from dataclasses import replace

    from sightline import load

    training: Any
    generation: Any
    large: Any
    training, generation, large = load(EXAMPLE), load(GENERATION), load(LARGE)

    def sequences(i: int) -> Any:
        return replace(training, workload=replace(training.workload, sequence_length=350 + i))

    def batches(i: int) -> Any:
        return replace(training, workload=replace(training.workload, global_batch=16 * (2 + i)))

    def prompts(i: int) -> Any:
        return replace(generation, workload=replace(generation.workload, prompt_tokens=1024 + i))

    def memory(i: int) -> Any:
        return replace(generation, plan=replace(generation.plan, memory_fraction=0.9 - 1e-4 * i))

    def on_devices(memory_bytes: float) -> Callable[[int], Any]:
        device = replace(large.cluster.device, memory_bytes=memory_bytes)
        cluster = replace(large.cluster, device=device)
        work = large.workload
        return lambda i: replace(large, cluster=cluster, workload=replace(work, sequence_length=4096 + i))

    return {
        "prediction_s": one_prediction(sequences, forgetting=True),
        "generation_s": one_prediction(prompts, forgetting=True),
        "prediction_changed_s": one_prediction(batches),
        "generation_changed_s": one_prediction(memory),
        "fits_s": one_prediction(on_devices(1e15), forgetting=True),
        "does_not_fit_s": one_prediction(on_devices(8e10), forgetting=True),
    }


def one_prediction(scenario: Callable[[int], Any], *, forgetting: bool = False, repeats: int = 100) -> float:
    """Return the least seconds of a prediction of new scenarios, with or without the blocks of those before."""
    from sightline import predict
    from sightline.content import forget

    predict(scenario(repeats))
    times = []
    for i in range(repeats):
        asked = scenario(i)
        if forgetting:
            forget("blocks")
        times += durations(lambda asked=asked: predict(asked).fits, repeats=1)  # type: ignore[misc]
    return min(times)


def many_generations() -> dict[str, float]:
    """Return points per CPU-second of a mesh of batches, prompts and tensor-parallel degrees, by quantization."""
    from dataclasses import replace

    from sightline.loading import generation_from_mapping
    from sightline.prediction.generation.batch_profile import predict_generation

    one = generation_from_mapping(GENERATION)
    batches = np.unique(np.geomspace(1, 512, 70).round()).reshape(-1, 1, 1)
    prompts = np.unique(np.geomspace(16, 32768, 100).round()).reshape(1, -1, 1)
    degrees = np.array([1, 2, 4, 8])
    work = replace(one.workload, batch=batches, prompt_tokens=prompts)
    plan = replace(one.plan, tensor_parallel=degrees, replicas=8 / degrees)

    def mesh() -> list[Any]:
        plans = (replace(plan, quantization=q) for q in QUANTIZATIONS)
        return [predict_generation(replace(one, workload=work, plan=p)).tpot_s for p in plans]

    points = sum(int(np.size(tpot)) for tpot in mesh())
    return {"points": points, "points_per_cpu_s": points / least_cpu(mesh)}


def least_cpu(work: Callable[[], object], repeats: int = 4) -> float:
    """Return the least CPU-seconds of several runs."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return float(np.min(times))


def least(work: Callable[[], object], repeats: int) -> float:
    """Return the least wall-clock seconds of several runs."""
    return min(durations(work, repeats))


def durations(work: Callable[[], object], repeats: int) -> list[float]:
    """Return the wall-clock seconds of several runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return times


if __name__ == "__main__":
    main()

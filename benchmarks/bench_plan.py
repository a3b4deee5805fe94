"""How fast Sightline searches plans on this machine: ``python benchmarks/bench_plan.py [--json] [--billion]``.

CPU-seconds in process and of whole commands, the least of a few runs, beside bare NumPy's and a fixed work's in the same
run: what counts are ratios, in which a machine's speed cancels out.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from bench_speed import children_s, least_cpu, pace

GPT_3: dict[str, Any] = {
    "model": "gpt-3-175b",
    "cluster": "1024x a100-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": 1024},
    "plan": {"framework": "megatron"},
}
"""All fields free."""
DEGREES = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 96]
BARE_BATCH = 6144
BARE_AXES = {
    "tensor_parallel": DEGREES,
    "pipeline_parallel": DEGREES,
    "zero_stage": [0, 1, 2, 3],
    "sequence_parallel": [0, 1],
    "virtual_stages": DEGREES,
    "micro_batch": [b for b in range(1, BARE_BATCH + 1) if BARE_BATCH % b == 0],
}
RECOMPUTE = ("none", "selective", "full")
BARE_PLANS = 995_328
"""Plans of `bare_mesh`, for each kind of recomputation a third."""
TURING: dict[str, Any] = {
    "model": "turing-530b",
    "cluster": "5128x a100-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": {"at_most": 2520}},
    "plan": {"framework": "megatron"},
}
CALCULON: dict[str, Any] = {
    "dtype": "fp16",
    "attention": "eager",
    "context_parallel": 1,
    "zero_stage": {"any": [0, 2]},
    "recompute": {"any": ["none", "selective", "full"]},
    "schedule": {"any": ["1f1b", "interleaved"]},
    "tensor_overlap": {"any": ["none", "backward", "all"]},
    "overlap_gradient_reduce": {"any": [False, True]},
}
"""The fields of Calculon's executions that a plan has keys for (calculon-ai/calculon@caa4b11, optimal_execution.py). Its
sharding of the optimizer shards gradients too. Left out: which network each degree uses, gathering again for weight
gradients, and its third kind of tensor parallelism."""
CALCULON_BEST: dict[str, Any] = {
    "tensor_parallel": 8,
    "pipeline_parallel": 4,
    "virtual_stages": 12,
    "micro_batch": 2,
    "recompute": "none",
    "zero_stage": 1,
    "sequence_parallel": True,
    "tensor_overlap": "all",
    "overlap_gradient_reduce": True,
}
"""What it finds to be the fastest without offloading, of all 152,218 executions whose degrees use the fastest networks
that they fill: GPT-3 175B, 1,024 A100s, batch 1,024, systems/a100_80g.json. It takes 266 CPU-seconds, without its
debugging records. By the memory predicted here it does not fit, with ZeRO-1 or ZeRO-2."""
CALCULON_BEST_OF_TURING: dict[str, Any] = {
    "tensor_parallel": 8,
    "pipeline_parallel": 1,
    "micro_batch": 3,
    "recompute": "selective",
    "sequence_parallel": True,
    "offload": {"any": [["parameters", "activations", "optimizer"]]},
}
"""What it finds for `TURING`, all of its 10,944 executions in 10 CPU-seconds. Here offloaded weights need ZeRO-3."""
MIXTURE: dict[str, Any] = {
    "model": "deepseek-v3",
    "cluster": "2048x h800-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 4096, "global_batch": 15360},
    "plan": {"framework": "megatron"},
}
FINE_TUNE: dict[str, Any] = {
    "model": "llama-3.1-8b",
    "cluster": {"any": [f"{count}x rtx-4090" for count in (1, 2, 4, 8)]},
    "workload": {"task": "finetune", "sequence_length": 2048, "global_batch": 16},
    "plan": {"framework": "transformers", "adapter": {"any": ["none", "lora", "qlora"]}},
}
BILLION: dict[str, Any] = {
    "model": "gpt-3-175b",
    "cluster": {"any": [f"{8 * nodes}x a100-sxm-80gb" for nodes in range(90, 541, 15)]},
    "workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": 720_720},
    "plan": {"framework": "megatron"},
}
"""Clusters and a batch whose sizes have many divisors: 705 million valid plans, towards a billion."""
SPLIT: dict[str, Any] = {**BILLION, "cluster": {"any": [f"{8 * nodes}x a100-sxm-80gb" for nodes in (180, 240, 360)]}}
"""Three of them, which two workers share."""


SERVING: dict[str, Any] = {
    "model": "qwen3-32b-fp8",
    "cluster": "32x h200-sxm-141gb",
    "workload": {
        "task": "generate",
        "batch": {"from": 1, "to": 512},
        "prompt_tokens": 4000,
        "output_tokens": 500,
        "continuous": True,
    },
    "plan": {
        "framework": "tensorrt-llm",
        "quantization": "fp8-block",
        "max_batched_tokens": 8192,
        "chunked_prefill": False,
    },
}
"""One engine and the checkpoint's formats; layouts, disaggregated ones too, batches and prefill batches are free."""
SERVING_FREE: dict[str, Any] = {**SERVING, "plan": {}}
"""Engines, formats and chunk sizes are free too."""
SERVING_POINTS = 25_000
"""Points that others are known to take 9 CPU-seconds for."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--billion", action="store_true", help="search 705 million plans too, which takes minutes")
    asked = parser.parse_args()
    figures = {"pace_s": pace()} | training() | beside_calculon() | commands() | serving()
    figures["pace_s"] = min(figures["pace_s"], pace())
    figures["serving_ratio"] = figures["serving_25k_cpu_s"] / figures["pace_s"]
    figures |= split()
    if asked.billion:
        figures |= billion()
    if asked.json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{name:<28} {value:.6g}")


def training() -> dict[str, float]:
    """Return plans per CPU-second of a search that evaluates all of them, and over bare NumPy's of a mesh."""
    from sightline.loading.spaces import load_spaces
    from sightline.planning.training.training_search import Request, search_space

    def searched(question: dict[str, Any]) -> int:
        spaces = [replace(space, launchable=False) for space in load_spaces(question)]
        return sum(search_space(space, Request())[0].evaluated for space in spaces)

    plans, seconds = searched(GPT_3), least_cpu(partial(searched, GPT_3))
    bare_s = least_cpu(lambda: [bare_mesh() for _ in RECOMPUTE])
    turing_plans, turing_s = searched(TURING), least_cpu(partial(searched, TURING))
    return {
        "gpt_3_plans": plans,
        "gpt_3_cpu_s": seconds,
        "gpt_3_plans_per_cpu_s": plans / seconds,
        "gpt_3_over_bare": plans / seconds / (BARE_PLANS / bare_s),
        "turing_plans": turing_plans,
        "turing_cpu_s": turing_s,
    }


def beside_calculon() -> dict[str, float]:
    """Return plans and CPU-seconds of the part of Calculon's space that plans express, and both bests as priced here.

    Bests are in seconds per step of GPT-3, and per sequence of Turing, whose batches may differ.
    """
    from sightline.loading import load
    from sightline.planning.search import plan
    from sightline.prediction import predict

    space = {**GPT_3, "plan": {**GPT_3["plan"], **CALCULON}}
    stated_best: Any = load({**space, "plan": {**space["plan"], **CALCULON_BEST, "schedule": "interleaved"}})
    theirs = predict(stated_best)
    searched = partial(plan, space, top=1, launchable=False)
    ours, seconds = searched(), least_cpu(searched)
    stated = {**GPT_3["plan"], "dtype": "fp16", "attention": "eager", "context_parallel": 1}
    turing = plan({**TURING, "plan": {**stated, **CALCULON_BEST_OF_TURING}}, top=1, launchable=False)
    return {
        "calculon_plans": ours.evaluated,
        "calculon_cpu_s": seconds,
        "calculon_ours_s": ours.plans[0].profile.step_time_s,
        "calculon_theirs_s": theirs.step_time_s,
        "calculon_theirs_memory_gb": theirs.memory_bytes["total"] / 1e9,
        "turing_ours_s": _per_sequence(plan({**TURING, "plan": stated}, top=1, launchable=False)),
        "turing_theirs_s": _per_sequence(turing),
    }


def _per_sequence(answer: Any) -> float:
    profile = answer.plans[0].profile
    return float(profile.step_time_s / profile.scenario.workload.global_batch)


def bare_mesh() -> Any:
    """The mesh's main terms without a framework around them: compute, bubble, tensor and data traffic, memory."""
    shapes = [[-1 if i == j else 1 for j in range(len(BARE_AXES))] for i in range(len(BARE_AXES))]
    t, p, z, r, v, b = (np.array(a, dtype=float).reshape(s) for a, s in zip(BARE_AXES.values(), shapes, strict=True))
    d = 1024 / (t * p)
    m = BARE_BATCH / (d * b)
    layer_s = b * 2048 * 1.8e9 * 6 / t / 2e14 + (t > 1) * 4 * b * 2048 * 12288 * 2 / 2e11
    stage_s = 96 / p * layer_s
    states = 175e9 / (t * p)
    time_s = (m + (p - 1) / v) * stage_s + states * np.where(z > 0, 6, 8) / 2e10
    memory = states * (4 + 12 / np.where(z > 0, d, 1)) + b * 2048 * 12288 * 34 * 96 / np.where(r > 0, t, 1) * (
        1 + (p - 1) / (p * v)
    )
    return time_s, memory


def commands() -> dict[str, float]:
    """Return the CPU-seconds of whole commands."""
    asked = {"gpt_3": GPT_3, "mixture": MIXTURE, "fine_tune": FINE_TUNE}
    return {f"{name}_command_cpu_s": command_s(question) for name, question in asked.items()}


def command_s(question: dict[str, Any], runs: int = 2) -> float:
    """Return the least CPU-seconds of ``sightline plan`` with a question."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "question.json"
        file.write_text(json.dumps(question), encoding="utf-8")
        seconds = []
        for _ in range(runs):
            before = children_s()
            subprocess.run([sys.executable, "-m", "sightline", "plan", str(file)], check=True, capture_output=True)
            seconds.append(children_s() - before)
    return min(seconds)


def split() -> dict[str, float]:
    """Return plans, and how many times as fast as one process two workers search them, their start included."""
    import time

    from sightline.planning.search import plan

    start = time.perf_counter()
    alone = plan(SPLIT, launchable=False)
    between = time.perf_counter()
    parts = plan(SPLIT, launchable=False, workers="local:2")
    end = time.perf_counter()
    if (alone.evaluated, dict(alone.rejected)) != (parts.evaluated, dict(parts.rejected)):
        raise SystemExit("the search in parts counts other plans than the search in one process")
    return {
        "split_plans": alone.evaluated + sum(alone.rejected.get(reason, 0) for reason in ("slower", "micro_batch")),
        "split_alone_s": between - start,
        "split_speedup": (between - start) / (end - between),
    }


def billion() -> dict[str, float]:
    """Return plans, wall-clock seconds and the largest memory of a search on two workers."""
    import time

    from sightline.planning.search import plan

    start = time.perf_counter()
    answer = plan(BILLION, workers="local:2", launchable=False)
    wall_s = time.perf_counter() - start
    left_out = sum(answer.rejected.get(reason, 0) for reason in ("slower", "micro_batch"))
    kilobytes = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {
        "billion_plans": answer.evaluated + left_out,
        "billion_evaluated": answer.evaluated,
        "billion_wall_s": wall_s,
        "billion_memory_mb": kilobytes / 1e3,
    }


def serving() -> dict[str, float]:
    """Return distinct valid points and CPU-seconds of the search of a serving plan, with and without an engine named.

    ``serving_25k_cpu_s`` is for as many points as `SERVING_POINTS`, all of the first search where it has fewer.
    """
    from sightline.planning.search import plan

    found: dict[str, float] = {}
    for name, asked in (("serving", SERVING), ("serving_free", SERVING_FREE)):
        searched = partial(plan, asked, ttft="300 ms", tpot="10 ms")
        points, seconds = searched().evaluated, least_cpu(searched)
        found |= {f"{name}_points": points, f"{name}_cpu_s": seconds, f"{name}_points_per_cpu_s": points / seconds}
    found["serving_25k_cpu_s"] = found["serving_cpu_s"] * min(1.0, SERVING_POINTS / found["serving_points"])
    return found


if __name__ == "__main__":
    main()

"""Answers of a search put together from real predictions, so that what shows them can be tried on its own."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sightline.loading import load
from sightline.planning.plan_answer import HardwareChange, NearestPlan, Neighbour, PlanAnswer, RankedPlan
from sightline.prediction import predict
from sightline.profile import Profile

TRAINED: Mapping[str, Any] = {
    "model": "llama-3-8b",
    "cluster": "16x h100-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 4096, "global_batch": 128, "total_tokens": 1e11},
    "plan": {"framework": "megatron"},
}
LAID_OUT: Sequence[Mapping[str, Any]] = (
    {"tensor_parallel": 2, "pipeline_parallel": 1, "micro_batch": 1, "zero_stage": 1, "recompute": "none"},
    {"tensor_parallel": 4, "pipeline_parallel": 1, "micro_batch": 2, "zero_stage": 1, "recompute": "none"},
    {"tensor_parallel": 2, "pipeline_parallel": 2, "micro_batch": 1, "zero_stage": 0, "recompute": "none"},
    {"tensor_parallel": 1, "pipeline_parallel": 4, "micro_batch": 1, "zero_stage": 0, "recompute": "selective"},
)
GENERATED: Mapping[str, Any] = {
    "model": "llama-3-8b",
    "cluster": "8x h100-sxm-80gb",
    "workload": {"task": "generate", "batch": 64, "prompt_tokens": 1024, "output_tokens": 256},
    "plan": {"framework": "vllm"},
}


@cache
def predicted(position: int) -> Profile:
    """Return the prediction of one of `LAID_OUT`."""
    return predict(load({**TRAINED, "plan": {**TRAINED["plan"], **LAID_OUT[position]}}))


@cache
def generated(tensor_parallel: int, batch: int) -> Profile:
    """Return the prediction of generation with some layout."""
    work = {**GENERATED["workload"], "batch": batch}
    plan = {**GENERATED["plan"], "tensor_parallel": tensor_parallel, "replicas": 8 // tensor_parallel}
    return predict(load({**GENERATED, "workload": work, "plan": plan}))


def ranked(profiles: Sequence[Profile], key: str, **fields: Mapping[int, Any]) -> list[RankedPlan]:
    """Return profiles as ranked plans; ``fields`` are further ones by position."""
    ordered = sorted(profiles, key=lambda p: float(getattr(p, key)))
    return [
        RankedPlan(
            rank=position + 1,
            profile=profile,
            value=float(getattr(profile, key)),
            **{name: values[position] for name, values in fields.items() if position in values},
        )
        for position, profile in enumerate(ordered)
    ]


def trained(**changes: Any) -> PlanAnswer:
    """Return a search of training: four plans, of which two are tied and one has no framework."""
    plans = ranked(
        [predicted(position) for position in range(len(LAID_OUT))],
        "step_time_s",
        tied={1: True},
        better={1: 0.43, 2: 0.11, 3: 0.02},
        obstacles={3: ("megatron does not offer it",)},
    )
    fields: dict[str, Any] = {
        "objective": "time",
        "evaluated": 1_204_331,
        "feasible": 81_203,
        "rejected": {"memory": 812_001, "tensor_heads": 120_000, "stage_layers": 310},
        "seconds": 0.42,
        "plans": plans,
        "free": ["tensor_parallel", "pipeline_parallel", "micro_batch", "zero_stage", "recompute"],
        "neighbours": [
            Neighbour(set={"plan.recompute": "full"}, loss=0.183, sentence="runs every layer forward once more"),
            Neighbour(set={"plan.zero_stage": 0}, loss=None, sentence="does not fit: 92.1 GiB of 79.1 GiB"),
        ],
        "hardware": [
            HardwareChange(part="network.bandwidth_per_node", factor=2.0, gain=0.031, sentence="less exposed time"),
            HardwareChange(part="device.memory_bandwidth", factor=2.0, gain=0.094, sentence="faster kernels"),
        ],
        "assumptions": {"time lost to failures": "5 % of the run"},
    }
    return PlanAnswer(**(fields | changes))


def generating(**changes: Any) -> PlanAnswer:
    """Return a search of generation over layouts and batches, with a Pareto front."""
    profiles = [generated(degree, batch) for degree in (1, 2, 4) for batch in (8, 64)]
    plans = ranked(profiles, "tpot_s")
    fields: dict[str, Any] = {
        "objective": "throughput",
        "evaluated": 25_000,
        "feasible": 18_000,
        "rejected": {"ttft_s": 7_000},
        "seconds": 0.21,
        "plans": plans,
        "pareto_axes": ("throughput", "latency"),
        "pareto": [0, 2, 5],
        "free": ["tensor_parallel", "replicas"],
    }
    return PlanAnswer(**(fields | changes))


def empty(**changes: Any) -> PlanAnswer:
    """Return a search in which nothing fits, with the nearest plan that would."""
    near = RankedPlan(rank=1, profile=predicted(1), value=float(predicted(1).step_time_s))
    nearest = NearestPlan(
        set={"plan.adapter": "qlora"},
        sentence="needs 11.2 GiB of 23.6 GiB and takes 1.21 s a step",
        plan=near,
        command="sightline plan scenario.yaml --set plan.adapter=qlora",
    )
    fields: dict[str, Any] = {
        "objective": "time",
        "evaluated": 3_120,
        "feasible": 0,
        "rejected": {"memory": 3_120, "global_batch": 44},
        "seconds": 0.03,
        "plans": [],
        "nearest": [nearest],
    }
    return PlanAnswer(**(fields | changes))

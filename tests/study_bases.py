"""Base scenarios of studies, small enough that every point can be held to a scenario of its own."""

from typing import Any

from sightline.loading.checks import with_value

TRAINING: dict[str, Any] = {
    "model": "llama-2-7b",
    "cluster": "32x h100-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": 96},
    "plan": {"framework": "megatron", "tensor_parallel": 2, "pipeline_parallel": 2, "micro_batch": 1, "zero_stage": 1},
}
GENERATION: dict[str, Any] = {
    "model": "llama-2-7b",
    "cluster": "2x h100-sxm-80gb",
    "workload": {"task": "generate", "batch": 4, "prompt_tokens": 512, "output_tokens": 64},
    "plan": {"framework": "vllm", "tensor_parallel": 2},
}
OPERATOR: dict[str, Any] = {
    "cluster": "1x h100-sxm-80gb",
    "workload": {"task": "operator", "operator": "matmul", "m": 512, "n": 4096, "k": 4096},
}
SERVING: dict[str, Any] = {
    "model": "llama-2-7b",
    "cluster": "1x h100-sxm-80gb",
    "workload": {
        "task": "serve",
        "requests": {"count": 10, "prompt_tokens": 64, "output_tokens": 8},
        "arrival": {"process": "constant", "rate": 4},
    },
    "plan": {"framework": "vllm"},
}
TECHNOLOGY = "cluster.device.technology"


def at_point(base: dict[str, Any], row: dict[str, Any], keys: Any) -> dict[str, Any]:
    """Return the base with a row's values of the axes."""
    for key in keys:
        base = with_value(base, key, row[key])
    return base

"""Jobs for tests of watches: scenarios that a loop can play, and steps as a loop reports them."""

from collections.abc import Sequence

from sightline.loading import load
from sightline.watching.expected import Expected, expected_of
from sightline.watching.readings import Step

TINY = {
    "name": "tiny Llama",
    "model": {
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "vocab_size": 256,
    },
    "cluster": "this-machine",
    "workload": {"task": "pretrain", "sequence_length": 64, "global_batch": 4},
    "plan": {"framework": "transformers", "micro_batch": 1, "dtype": "fp32", "attention": "flash"},
}
"""A scenario whose micro-batch is not the best."""
LARGE = {
    "name": "Llama on four",
    "model": "llama-3-8b",
    "cluster": "4x h100-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 4096, "global_batch": 16},
    "plan": {
        "framework": "fsdp",
        "data_parallel": 4,
        "zero_stage": 3,
        "micro_batch": 1,
        "recompute": "full",
        "attention": "flash",
    },
}
"""A scenario of several GPUs that a test predicts and plans, and nobody runs."""


def expected(mapping) -> Expected:
    return expected_of(load(mapping))


def steps(times: Sequence[float], first: int = 1, **figures) -> list[Step]:
    """Return steps of these seconds; figures are the same for all."""
    return [Step(number=first + at, time_s=time, **figures) for at, time in enumerate(times)]

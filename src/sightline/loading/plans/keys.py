"""The keys of ``plan``, and of what they may say that which this version does not predict yet.

A version that learns a technique deletes its line in ``PREDICTED``.
"""

from collections.abc import Iterator, Mapping

from sightline.errors import nearest
from sightline.loading.input.kinds import Keys, anything, choice, each, flag, fraction, quantity, text, whole
from sightline.quantities import COUNT, show
from sightline.scenario.low_precision import FP8_RECIPES
from sightline.scenario.plan import OPTIMIZERS

DEGREE = whole(1, 10**7)
_NUMBER = quantity(COUNT, zero=True)

PLAN: Keys = {
    **each(text, "framework framework_version"),
    **each(DEGREE, "tensor_parallel pipeline_parallel data_parallel context_parallel"),
    "context_exchange": choice("ring", "all-gather", "all-to-all", "mixed"),
    **each(DEGREE, "data_parallel_shard expert_parallel expert_tensor_parallel"),
    "sequence_parallel": flag,
    "tensor_overlap": choice("none", "backward", "all"),
    "virtual_stages": DEGREE,
    "schedule": choice("gpipe", "1f1b", "interleaved", "zero-bubble", "dualpipe"),
    "micro_batch": whole(),
    "zero_stage": choice(0, 1, 2, 3),
    **each(anything, "offload recompute"),
    "attention": choice("flash", "eager"),
    "dtype": text,
    "fp8_recipe": choice(*FP8_RECIPES),
    "bf16_layers": whole(0, 10**5),
    "narrow_head": flag,
    **each(anything, "quantization adapter"),
    "optimizer": text,
    "compile": flag,
    "replicas": DEGREE,
    **each(whole(), "max_batched_tokens max_sequences"),
    **each(flag, "chunked_prefill prefix_cache"),
    "kv_block_tokens": whole(),
    "memory_fraction": fraction,
    "cuda_graphs": flag,
    **each(_NUMBER, "expert_skew expert_capacity"),
    "expert_dispatch": choice("all-to-all", "deduplicated"),
    "expert_overlap": flag,
    "prediction_layers": whole(0),
    **each(anything, "speculative disaggregate"),
}
"""``plan`` of every task."""

SPECULATION: Keys = {"tokens": whole(1, 1000), "acceptance": fraction}
POOL: Keys = {
    **each(DEGREE, "tensor_parallel pipeline_parallel data_parallel expert_parallel replicas"),
    "batch": whole(),
}
"""The workers of one kind in ``plan.disaggregate``."""

TASKS = ("pretrain", "finetune", "generate", "serve", "operator")
"""Every task of the interface."""

DTYPES = ("fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4", "int8")
"""Every compute dtype of the interface."""

PREDICTED_TASKS = ("pretrain", "finetune", "generate", "operator")

PREDICTED: Mapping[str, tuple[object, ...]] = {
    "schedule": ("gpipe", "1f1b", "interleaved", "zero-bubble", "dualpipe"),
    "dtype": ("fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4"),
    "optimizer": OPTIMIZERS,
    "replicas": (1,),
    "max_batched_tokens": (),
    "max_sequences": (),
    "chunked_prefill": (),
    "prefix_cache": (),
    "kv_block_tokens": (),
    "memory_fraction": (),
    "cuda_graphs": (),
    "speculative": (),
    "disaggregate": (),
}
"""Plan key to the values predicted so far; no values: the key belongs to generation and serving."""

_SPELLINGS: Mapping[str, tuple[str, ...]] = {"dtype": DTYPES, "optimizer": OPTIMIZERS}


def unpredicted(plan: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield the plan keys whose value this version does not predict, each with the sentence that says so."""
    for key, values in PREDICTED.items():
        value = plan.get(key)
        if value is None or any(type(value) is type(v) and value == v for v in values):
            continue
        spellings = _SPELLINGS.get(key)
        if spellings and value not in spellings:
            near = nearest(value, spellings)
            yield key, f"plan.{key} is {show(value)}; allowed: {', '.join(spellings)}{near}"
        elif not values:
            listed = ", ".join(PREDICTED_TASKS)
            yield (
                key,
                f"plan.{key} is for the tasks generate and serve; this version predicts only {listed}",
            )
        else:
            only = ", ".join(show(v).strip("'") for v in values if not isinstance(v, list | dict))
            yield key, f"plan.{key} is {show(value)}; this version predicts only {only}"

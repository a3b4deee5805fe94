"""What the interface names but this version does not predict: only the neutral values pass, anything else is refused.

A version that learns a technique deletes its line here.
"""

from collections.abc import Iterator, Mapping

from sightline.errors import nearest
from sightline.quantities import show
from sightline.scenario.plan import OPTIMIZERS

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

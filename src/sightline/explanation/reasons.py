"""Why a change of a plan helps, in a sentence with its numbers: what binds, what the change does, what it brings."""

from collections.abc import Iterable, Mapping
from typing import Any

from sightline.explanation.candidates import Settings, is_numerical
from sightline.explanation.differences import memory_needed, slower_because
from sightline.profile import SERVING, Profile
from sightline.quantities import GIB, SECONDS, format_quantity, significant

WHOLE_NAMES: Mapping[str, str] = {
    "step_time_s": "the step",
    "latency_s": "the batch",
    "latency_s.mean": "a request",
    "time_s": "the operator",
}
"""What takes the time that is explained."""
LIMIT_NAMES: Mapping[str, str] = {
    "compute": "compute",
    "memory": "memory bandwidth",
    "network": "exposed communication",
    "host": "waiting for the host",
    "bubble": "the pipeline bubble",
}
"""What limits are called in a sentence."""
_UP: Mapping[str, str] = {
    "zero_stage": "more of the weights' states is sharded, which frees memory and moves more bytes",
    "micro_batch": "kernels are larger and fewer, so that they fill the device better and are launched less often",
    "tensor_parallel": "more devices share every layer, its weights and its reads of the cache",
    "pipeline_parallel": "more devices share the layers, with less to exchange than within a layer",
    "context_parallel": "more devices share every sequence",
    "data_parallel": "attention keeps whole sequences on each device, without exchanges inside of a layer",
    "expert_parallel": "experts are spread over more devices, each of them whole",
    "virtual_stages": "stages of smaller chunks fill and drain the pipeline sooner",
    "max_batched_tokens": "an iteration takes more tokens of prompts, so that requests wait for fewer of them",
    "max_sequences": "more requests run at once",
}
_DOWN: Mapping[str, str] = {
    "zero_stage": "each device keeps more of the states, so that fewer bytes move for them",
    "micro_batch": "there are more micro-batches, which shrinks the bubble and the saved activations",
    "tensor_parallel": "fewer devices share a layer: its all-reduces are smaller or gone, and its matmuls larger",
    "pipeline_parallel": "fewer stages leave a smaller bubble",
    "context_parallel": "fewer devices exchange keys and values of a sequence",
    "data_parallel": "fewer devices exchange tokens between attention and experts",
    "expert_parallel": "tokens travel to experts among fewer devices",
    "virtual_stages": "chunks are larger, so that stages exchange activations less often",
    "max_batched_tokens": "iterations are shorter, so that tokens wait less for prompts of others",
    "max_sequences": "fewer requests share an iteration, so that each token comes sooner",
}
_VALUES: Mapping[tuple[str, str], str] = {
    ("recompute", "none"): "activations are saved, so that nothing of the forward pass runs again",
    ("recompute", "selective"): "only the attention's large activations are computed again",
    ("recompute", "full"): "layers save their input alone, which frees memory, and run forward again",
    ("attention", "flash"): "fused attention does not write the scores to device memory",
    ("attention", "eager"): "attention is matmuls and a softmax of its own",
    ("schedule", "zero-bubble"): "weight gradients fill the pipeline's bubble",
    ("schedule", "1f1b"): "stages exchange less often than in an interleaved schedule",
    ("sequence_parallel", "true"): "norms and dropout are split over the tensor-parallel ranks instead of repeated",
    ("sequence_parallel", "false"): "all-reduces take the place of gathers and scatters",
    ("compile", "true"): "fused element-wise kernels read memory once and are launched once",
    ("fused_loss", "true"): "the loss makes no 32-bit copy of the logits",
    ("overlap_gradient_reduce", "true"): "gradients are reduced while the backward pass goes on",
    ("overlap_parameter_gather", "true"): "weights are gathered while the forward pass goes on",
    ("expert_overlap", "true"): "tokens of one micro-batch travel while another is computed",
    ("tensor_overlap", "all"): "collectives of tensor parallelism run behind matmuls",
    ("offload", "none"): "states stay on the device instead of crossing the host's link",
    ("cuda_graphs", "true"): "a decode iteration is launched as one graph instead of kernel by kernel",
    ("chunked_prefill", "true"): "prompts are cut into pieces that share iterations with decodes",
    ("chunked_prefill", "false"): "prompts are prefilled in whole iterations of their own",
    ("prefix_cache", "true"): "prompts that begin alike are prefilled once",
    ("router", "least-load"): "requests go to the replica with the least to do",
    ("dtype", "fp8"): "matmuls run at the rate of 8-bit formats",
    ("dtype", "bf16"): "matmuls run at the rate of 16-bit formats",
    ("optimizer", "adamw-8bit"): "the optimizer's moments take a quarter of the bytes",
    ("gradient_reduce_dtype", "bf16"): "gradients travel with half of the bytes",
    ("quantization", "fp8"): "weights take half of the bytes and matmuls run at the 8-bit rate",
    ("quantization", "w8a8"): "weights take half of the bytes and matmuls run at the 8-bit rate",
    ("quantization", "w4a16"): "weights take a quarter of the bytes that each token reads",
    ("quantization", "kv-fp8"): "keys and values take half of the bytes that each token reads",
}


def seconds(value: float) -> str:
    """Return a time with its unit, in three digits."""
    return format_quantity(significant(value, 3), SECONDS)


def said(change: Settings) -> str:
    """Return a change as a scenario file says it, without the degrees that follow from others."""
    words = [f"{key.removeprefix('plan.')}: {_word(value)}" for key, value in change.items()]
    follows = ("data_parallel:", "replicas:", "framework:")
    shown = [word for place, word in enumerate(words) if place == 0 or not word.startswith(follows)]
    return ", ".join(shown)


def named(changes: Iterable[Settings]) -> str:
    """Return changes that go together as a scenario file says them."""
    return " and ".join(map(said, changes))


def _word(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " + ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def reason(change: Settings, before: Mapping[str, Any]) -> str:
    """Return what a change does physically; empty where nothing general can be said."""
    key, value = next(iter(change.items()))
    name = key.removeprefix("plan.")
    words = value if isinstance(value, list) else [value]
    for word in reversed(words):
        if found := _VALUES.get((name, _word(word))):
            return found
    old = before.get(name)
    if isinstance(value, int) and isinstance(old, int | float) and not isinstance(value, bool):
        return (_UP if value > old else _DOWN).get(name, "")
    return ""


def sentence(
    changes: list[Settings], own: Profile, other: Profile, gains: tuple[float, float] | None, before: Mapping[str, Any]
) -> str:
    """Return what changes bring, with the physical reason of each.

    Args:
        changes: One change, or the two that help together.
        own: The prediction as it is.
        other: That with the changes.
        gains: Ends of the 80 % interval of the gain; None where it is not known.
        before: The plan as it is, by field.
    """
    whole, now = float(own.whole_s or 0.0), float(other.whole_s or 0.0)
    why = "; ".join(filter(None, (reason(change, before) for change in changes)))
    parts = [_binding(own, other), f"With {named(changes)}, {why}:" if why else f"With {named(changes)},"]
    span = "" if gains is None else f" (80 %: {100 * gains[0]:.0f} to {100 * gains[1]:.0f} %)"
    percent = abs(now / whole - 1.0) * 100 if whole else 0.0
    verb = "less" if now <= whole else "more"
    name = WHOLE_NAMES.get(own.task.whole, "it")
    relative = f", {percent:.0f} % {verb}{span}" if whole else ""
    parts.append(f"{name} would take {seconds(now)}{relative}")
    because = slower_because(own, other) if whole and own.phases and other.phases else ""
    if because and because != "takes as long":
        parts[-1] += f", with {because}"
    if other.memory_bytes and not (other.task is SERVING and own.fits):
        parts[-1] += f", and it {memory_needed(other)}" + (", tight" if other.tight else "")
    parts[-1] += "."
    if any(map(is_numerical, changes)):
        parts.append("This changes the numerics: check the model's quality.")
    return " ".join(filter(None, parts))


def _binding(own: Profile, other: Profile) -> str:
    """What a change works on: the limit that it takes most from; or that the plan does not fit."""
    if own.fits is False:
        needed, usable = float(own.memory_bytes["total"]) / GIB, float(own.usable_bytes) / GIB
        return f"It does not fit: {needed:.1f} GiB of {usable:.1f} GiB."
    limits = {name: float(value) for name, value in own.limits.items()}
    if not limits:
        return ""
    name = max(limits, key=lambda one: limits[one] - float(other.limits.get(one, 0.0)))
    spoken = LIMIT_NAMES[name]
    return f"{spoken[:1].upper()}{spoken[1:]} takes {seconds(limits[name])} of {seconds(float(own.whole_s))}."

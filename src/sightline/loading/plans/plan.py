"""``plan`` of training and of generation: what is stated, else the framework's or engine's defaults, else our own."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, Generic, TypeVar

from sightline.errors import InputError, nearest
from sightline.frameworks import read_engine, read_framework
from sightline.loading.input.complaints import Checked, Complaints, check, require
from sightline.loading.input.kinds import Keys, anything, choice, each, flag, fraction, quantity, text, whole
from sightline.loading.plans.techniques import read_quantization, read_techniques
from sightline.quantities import COUNT, show
from sightline.scenario import Engine, Framework, GenerationPlan, Plan, Speculation
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

DEFAULT_FRAMEWORK = "reference"
"""Of training and of generation."""

_TECHNIQUES = ("offload", "recompute", "quantization", "adapter")
"""Keys of training whose values are words, lists or mappings."""

_TRAINING_ONLY: Mapping[str, object] = {
    "sequence_parallel": False,
    "virtual_stages": 1,
    "context_parallel": 1,
    "context_exchange": None,
    "micro_batch": None,
    "zero_stage": 0,
    "recompute": "none",
    "schedule": None,
    "offload": "none",
    "adapter": "none",
    "optimizer": None,
    "compile": False,
    "attention": "flash",
}
"""Plan keys that generation has no use for, with the value that says so."""

F = TypeVar("F", Framework, Engine)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan(Generic[F]):
    """A plan as far as it could be read."""

    framework: F | None
    values: Mapping[str, Any]
    """Fields with a good value, the framework aside."""
    stated: Mapping[str, Any]
    """Good values of the keys that the scenario states, as it states them."""


def read_training_plan(mapping: object, complaints: Complaints) -> ReadPlan[Framework]:
    """Return what of a training plan is right, its mistakes noted; ``data_parallel`` only where it is stated."""
    checked = check(PLAN, mapping, "plan", complaints)
    wrong = dict(unpredicted(checked.values))
    complaints.add(*wrong.values())
    stated = {key: value for key, value in checked.values.items() if key not in wrong}
    framework = _framework(read_framework, checked, complaints)
    behavior = {} if framework is None else {"tensor_overlap": framework.overlap.tensor, **framework.defaults}
    techniques = {key: stated[key] for key in _TECHNIQUES if key in stated}
    read = read_techniques(techniques, complaints)
    bad = checked.wrong | wrong.keys() | (techniques.keys() - read.keys())
    values = _settled(Plan, {**behavior, **stated, **read}, bad)
    if "data_parallel" not in stated:
        values.pop("data_parallel", None)
    return ReadPlan(framework=framework, values=values, stated=stated)


def read_generation_plan(mapping: object, complaints: Complaints) -> ReadPlan[Engine]:
    """Return what of a plan of generation is right, its mistakes noted."""
    checked = check(PLAN, mapping, "plan", complaints)
    stated = checked.values
    for key, nothing in _TRAINING_ONLY.items():
        if key in stated and not _says_nothing(stated[key], nothing):
            complaints.add(f"plan.{key} is {show(stated[key])}; it is for training, generation has no use for it")
    engine = _framework(read_engine, checked, complaints)
    behavior = {} if engine is None else {"memory_fraction": engine.memory.memory_fraction, **engine.defaults}
    values = {**behavior, **stated}
    before = len(complaints.problems)
    values["quantization"] = read_quantization(values.get("quantization"), "plan.quantization", complaints)
    values["speculative"] = _speculation(values.get("speculative"), complaints)
    wrong = {"quantization", "speculative"} if len(complaints.problems) > before else set()
    settled = _settled(GenerationPlan, values, checked.wrong | wrong | {"disaggregate"})
    return ReadPlan(framework=engine, values=settled, stated=stated)


def _framework(read: Callable[[str, str], F], checked: Checked, complaints: Complaints) -> F | None:
    """The framework or engine that a plan names, or None with the reason noted."""
    if {"framework", "framework_version"} & checked.wrong:
        return None
    stated = checked.values
    try:
        return read(stated.get("framework", DEFAULT_FRAMEWORK), stated.get("framework_version", ""))
    except InputError as error:
        complaints.add(*error.problems)
        return None


def _settled(description: type, values: Mapping[str, Any], wrong: frozenset[str] | set[str]) -> dict[str, Any]:
    """The fields of a plan's description: values, else the description's defaults; those that are wrong left out."""
    return {
        f.name: values.get(f.name, f.default)
        for f in fields(description)
        if f.default is not MISSING and f.name not in wrong
    }


def _says_nothing(value: object, nothing: object) -> bool:
    """Whether a value is the one that asks for nothing, of its very type: ``true`` is not 1."""
    return value in ([], ["none"], {"kind": "none"}) or (type(value) is type(nothing) and value == nothing)


def _speculation(mapping: object, complaints: Complaints) -> Speculation | None:
    if mapping is None:
        return None
    key = "plan.speculative"
    checked = check(SPECULATION, mapping, key, complaints)
    require(checked, {"tokens": "tokens drafted per pass", "acceptance": "a number from 0 to below 1"}, key, complaints)
    return Speculation(**checked.values) if {"tokens", "acceptance"} <= checked.values.keys() else None


def read_pools(mapping: object, complaints: Complaints) -> dict[str, dict[str, Any]]:
    """Return what ``plan.disaggregate`` states of prefill and of decode workers, mistakes noted."""
    if mapping is None:
        return {}
    if not isinstance(mapping, Mapping) or set(mapping) != {"prefill", "decode"}:
        complaints.add(f"plan.disaggregate is {show(mapping)}; allowed: a mapping with prefill and decode")
        return {}
    return {
        pool: check(POOL, mapping[pool], f"plan.disaggregate.{pool}", complaints).values
        for pool in ("prefill", "decode")
    }


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

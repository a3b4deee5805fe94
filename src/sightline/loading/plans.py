"""Read ``plan`` of training and of generation: what is stated, else defaults of the framework or engine, else ours.

A plan that names no framework is one of the typical framework that offers what the plan asks for; where none does, of
one like the framework that lacks least of it.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from sightline import catalog
from sightline.content import record
from sightline.errors import InputError
from sightline.frameworks import date_remark, read_engine, read_framework
from sightline.frameworks.choices import CHOICES
from sightline.frameworks.framework import IDEAL
from sightline.loading.checks import Checked, Complaints, built, check, each, meant, words_of
from sightline.quantities import show
from sightline.scenario import Device, Framework, Plan
from sightline.scenario.plan import DEGREE, OFFLOADABLE, TRAINING_QUANTIZATIONS
from sightline.scenario.precision import CACHE_BYTES, QUANTIZATIONS, ROUTER_DTYPES
from sightline.scenario.rules import techniques
from sightline.scenario.rules.rulebook import Broken, broken_rules
from sightline.scenario.techniques import ALL_LINEAR, JOINED, MODULE_NAMES, MODULES, PROJECTIONS, Adapter, Recomputation
from sightline.validators import Keys, keys_of, text, whole

if TYPE_CHECKING:
    from sightline.scenario import Engine, Speculation

TYPICAL_FRAMEWORKS: Final[Mapping[str, Sequence[str]]] = {
    "pretrain": ("megatron", "torchtitan", "deepspeed"),
    "finetune": ("transformers", "fsdp", "deepspeed", "megatron"),
}
"""By task of training, the likeliest first; the catalog's others come after them."""
ON_TPU: Final = "maxtext"
"""What runs where no kernels of GPUs do."""
IN_HOST_MEMORY: Final = frozenset({"activations"})
"""What its recipes for TPUs offload where layers are recomputed: their inputs (``decoder_layer_input: offload``)."""
TYPICAL_ENGINE: Final = "vllm"
"""Of generation."""
NOT_NAMED: Final = "plan.framework is not set"
"""How the remark begins that says which framework answers instead."""

_SPLITS: Final = ("tensor_parallel", "pipeline_parallel", "context_parallel", "zero_stage")

OFFERED = (
    techniques.framework_options,
    techniques.framework_choices,
    techniques.interleaving_needs,
    techniques.offloading,
)


def candidate_frameworks(task: str, preference: str = "none", architecture: str = "") -> Sequence[str]:
    """Return the frameworks that may answer a plan that names none, the likeliest first."""
    if architecture.startswith("tpu"):
        return (ON_TPU,)
    if preference != "none":
        return tuple(name for name in techniques.TRAINERS_OF_PREFERENCES if name != IDEAL)
    typical = TYPICAL_FRAMEWORKS.get(task, TYPICAL_FRAMEWORKS["pretrain"])
    return (*typical, *(name for name in catalog.names("frameworks") if name not in {*typical, IDEAL}))


def typical_framework(candidates: Sequence[str], plan: Mapping[str, Any]) -> str:
    """Return the first of some frameworks that offers the values of a plan, or else the one that lacks least."""

    def lacks(name: str) -> int:
        framework = read_framework(name)
        said = _lacking(framework, {"zero_stage": 0, "recompute": "none", **framework.defaults, **plan})
        # How a framework without a degree would split a step says least of how another splits it.
        return sum(1 + (sentence.field in _SPLITS) for sentence in said)

    return next((name for name in candidates if not lacks(name)), None) or min(candidates, key=lacks)


def not_named(name: str, version: str, *, is_like: bool = False) -> str:
    """Return the remark on a scenario that names no framework, and was answered as this one, or as one like it."""
    using = f"{'one like ' * is_like}{name} {version}".strip()
    return f"{NOT_NAMED}; using {using}; use plan.framework {IDEAL} for the ideal bound"


def not_on_tpu(framework: Framework, device: Device) -> str:
    """Return why a framework of the catalog does not run on a device; empty where it does, or is only like another."""
    is_free = framework.name == ON_TPU or framework.is_bound or framework.is_like
    if is_free or not device.architecture.startswith("tpu"):
        return ""
    return f"plan.framework {framework.name} does not run on {device.name}; allowed: {ON_TPU}"


def _lacking(framework: Framework, plan: Mapping[str, Any]) -> list[Broken]:
    """A sentence for everything that a plan has and the framework does not offer."""
    return list(broken_rules(OFFERED, {"framework": framework, "plan": plan, **plan}))


def _like(framework: Framework, plan: Mapping[str, Any], *, is_own: bool) -> tuple[Framework, list[str]]:
    """A framework like this one that has all that the plan has, and what its like lacks; where that is nothing, itself.

    ``is_own``: the plan says that it is somebody's own.
    """
    lacking = [f"like {framework.name}, but {techniques.briefly(said)}" for said in _lacking(framework, plan)]
    if not lacking:
        return replace(framework, is_like=is_own), []
    taken = {field: techniques.chosen(plan[field]) for field in {*framework.offers, *CHOICES} & plan.keys()}
    taken |= {"schedule": ["interleaved"]} if plan.get("virtual_stages", 1) > 1 else {}
    offers = {**framework.offers, **{field: (*framework.offers.get(field, ()), *of) for field, of in taken.items()}}
    unbound = replace(framework.interleaving, fewest_stages=2, whole_groups=False)
    return replace(framework, is_like=True, offers=offers, offload_needs={}, interleaving=unbound), lacking


SAME_QUANTIZATION: Mapping[str, str] = {"w8a16": "int8", "llm-int8": "int8", "w4a16": "int4"}
"""Words of generation for what training calls by the other."""

QLORA_FORMAT = "nf4"
"""Format of the frozen weights that ``qlora`` implies (arXiv 2305.14314)."""

TARGETS = (*PROJECTIONS, JOINED)
ALSO_TRAINED = ("embedding", "head")


_WHOLE_RECOMPUTE = ("selective", "full")
"""Words of ``recompute`` that stand alone."""


def read_techniques(stated: Mapping[str, Any], complaints: Complaints) -> dict[str, Any]:
    """Return the fields of `Plan` that the stated offload, recomputation, quantization and adapter mean.

    Mistakes are noted.

    A technique with a mistake is left out of what is returned.
    """
    read: dict[str, Any] = {}
    before = len(complaints.problems)
    if "offload" in stated:
        read["offload"] = frozenset(words_of(stated["offload"], "plan.offload", OFFLOADABLE, {}, complaints))
    if "quantization" in stated:
        words = words_of(
            stated["quantization"], "plan.quantization", TRAINING_QUANTIZATIONS, SAME_QUANTIZATION, complaints
        )
        if len(words) > 1:
            complaints.add(f"plan.quantization is {show(list(words))}; allowed for training: one weight format")
        read["quantization"] = words[0] if words else "none"
    if "recompute" in stated:
        read["recompute"] = read_recompute(stated["recompute"], complaints)
    if "adapter" in stated:
        read |= _adapter(stated["adapter"], read.get("quantization"), complaints)
    return read if len(complaints.problems) == before else {}


def _adapter(value: object, quantization: str | None, complaints: Complaints) -> dict[str, Any]:
    if value == "none":
        return {"adapter": None}
    before = len(complaints.problems)
    checked = check(keys_of(Adapter), {"kind": value} if isinstance(value, str) else value, "plan.adapter", complaints)
    values = dict(checked.values)
    if values.get("kind") == "none":
        return {"adapter": None}
    if "targets" in values and values["targets"] != ALL_LINEAR:
        targets = words_of(values["targets"], "plan.adapter.targets", (ALL_LINEAR, *TARGETS), MODULE_NAMES, complaints)
        values["targets"] = ALL_LINEAR if ALL_LINEAR in targets else targets
        if not targets:
            complaints.add(f"plan.adapter.targets is none; allowed: {', '.join((ALL_LINEAR, *TARGETS))}")
    if "also_trained" in values:
        key = "plan.adapter.also_trained"
        values["also_trained"] = words_of(values["also_trained"], key, ALSO_TRAINED, {}, complaints)
    if len(complaints.problems) > before:
        return {}
    adapter = {"adapter": Adapter(**values)}
    return adapter if values["kind"] == "lora" else adapter | {"quantization": quantization or QLORA_FORMAT}


def read_recompute(value: object, complaints: Complaints) -> str | Recomputation | None:
    """Return what ``value`` asks for; None after a mistake, which is noted."""
    before = len(complaints.problems)
    checked = check(keys_of(Recomputation), value, "plan.recompute", complaints) if isinstance(value, Mapping) else None
    stated: dict[str, Any] = {} if checked is None else dict(checked.values)
    modules = stated.pop("modules", "full" if checked is not None else value)
    key = "plan.recompute.modules" if checked is not None else "plan.recompute"
    words = words_of(modules, key, (*_WHOLE_RECOMPUTE, *MODULES), {}, complaints)
    if len(complaints.problems) > before:
        return None
    return _recomputation(words, stated, key, complaints)


def _recomputation(
    words: tuple[str, ...], stated: Mapping[str, Any], key: str, complaints: Complaints
) -> str | Recomputation | None:
    """Recomputation from its words and the further keys of its mapping."""
    if not words:
        return "none"
    scalars = [word for word in words if word in _WHOLE_RECOMPUTE]
    if scalars and len(words) == 1 and not stated:
        return scalars[0]
    if scalars and len(words) > 1:
        complaints.add(f"{key} combines {scalars[0]} with modules; allowed: {scalars[0]}, or modules")
    elif scalars == ["selective"]:
        complaints.add(f"{key} is selective with {', '.join(stated)}; allowed: full, or a list of modules")
    elif not scalars and stated.get("together", 1) > 1:
        complaints.add(f"plan.recompute.together is {stated['together']} with modules; allowed: 1, or modules full")
    else:
        return Recomputation(modules=frozenset(() if scalars else words), **stated)
    return None


def read_quantization(value: object, key: str, complaints: Complaints) -> tuple[str, ...] | None:
    """Return the formats that a plan lists: none stated is None, ``none`` is the empty tuple; mistakes are noted."""
    if value is None:
        return None
    known = words_of(value, key, QUANTIZATIONS, {}, complaints)
    listed = [w for w in value if w in known] if isinstance(value, list | tuple) else known
    cache = [w for w in listed if w in CACHE_BYTES]
    router = [w for w in listed if w in ROUTER_DTYPES]
    if len(cache) > 1 or len(router) > 1 or len(listed) - len(cache) - len(router) > 1:
        allowed = "one weight format, one cache format and one router format"
        complaints.add(f"{key} lists {', '.join(listed)}; allowed: {allowed}")
    return known


def framework_name(value: Any) -> Any:
    """A framework by name, or ``{like: NAME}``: one of somebody's own that behaves much like it."""
    if not isinstance(value, Mapping):
        return text(value)
    if value.keys() != {LIKE}:
        raise InputError(f"is {show(dict(value))}; allowed: a name, or {{like: NAME}} for a framework of your own")
    return {LIKE: text(value[LIKE])}


LIKE: Final = "like"
_NAMED: Keys = {"framework": framework_name, "framework_version": text}


@cache
def plan_keys() -> Keys:
    """Return the keys of ``plan`` of every task."""
    # Imported when a key asks for it, so that a command for another task starts without generation.
    from sightline.scenario.generation import GenerationPlan

    return {**_training_keys(), **keys_of(GenerationPlan)}


@cache
def _training_keys() -> Keys:
    return {**_NAMED, **keys_of(Plan)}


def read_keys(plan: object, complaints: Complaints) -> Checked:
    """Return the good values of a plan of any task, mistakes noted."""
    trains = isinstance(plan, Mapping) and plan.keys() <= _training_keys().keys()
    return check(_training_keys() if trains else plan_keys(), plan, "plan", complaints)


POOL: Keys = {
    **each(DEGREE, "tensor_parallel pipeline_parallel data_parallel expert_parallel replicas"),
    "batch": whole(),
    "device": text,
}
"""The workers of one kind in ``plan.disaggregate``."""

NO_POOLS = ("none", None, False)
"""What ``plan.disaggregate`` says of workers that do both."""
OTHER_NAMES: Mapping[str, str] = {
    **dict.fromkeys(("hf", "huggingface", "hugging-face"), "transformers"),
    **dict.fromkeys(("megatron-lm", "megatron-core"), "megatron"),
    **dict.fromkeys(("trt-llm", "trtllm", "tensorrt_llm"), "tensorrt-llm"),
}
"""What else frameworks and engines are called."""
_ON_TRANSFORMERS = ("axolotl", "llama-factory", "llamafactory", "trl", "unsloth")
"""Front ends of another framework."""
TASKS = ("pretrain", "finetune", "generate", "serve", "operator")
"""Every task."""
OTHER_TASKS = TASKS[2:]
"""Those that train nothing."""

DTYPES = ("fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4", "int8")
"""Every compute dtype of the interface."""
TRAINED_DTYPES = DTYPES[:-1]

_TECHNIQUES = ("offload", "recompute", "quantization", "adapter")
"""Keys of training whose values are words, lists or mappings."""


def _only(description: type, other: type, *shared: str) -> frozenset[str]:
    """The fields of a description that the other lacks."""
    others = {"framework", "engine", *(f.name for f in fields(other)), *shared}
    return frozenset(f.name for f in fields(description) if f.name not in others)


F = TypeVar("F", Framework, "Engine")


@record
class ReadPlan(Generic[F]):
    """A plan as far as it could be read."""

    framework: F | None
    values: Mapping[str, Any]
    """Fields with a good value, the framework aside."""
    stated: Mapping[str, Any]
    """Good values of the keys that the scenario states, as it states them."""
    remarks: tuple[str, ...] = ()
    """What is answered although it was not said."""


def read_training_plan(
    mapping: object, candidates: Sequence[str], complaints: Complaints, *, free: Container[str] = ()
) -> ReadPlan[Framework]:
    """Return what of a training plan is right, its mistakes noted; ``data_parallel`` only where it is stated.

    A plan that names no framework is read as one of the typical of the ``candidates`` (`typical_framework`); a search
    tries all values of fields that are ``free``.
    """
    checked = read_keys(mapping, complaints)
    stated = checked.values
    note_generation_only(stated, "training", complaints)
    untrained = {"dtype"} if stated.get("dtype", "bf16") not in TRAINED_DTYPES else set()
    complaints.add(*(f"plan.dtype is {dtype_problem(stated[key], TRAINED_DTYPES)}" for key in untrained))
    techniques = {key: stated[key] for key in _TECHNIQUES if key in stated}
    read = read_techniques(techniques, complaints)
    named = "framework" in stated or "framework" in checked.wrong
    is_own = isinstance(stated.get("framework"), Mapping)
    good = {**{key: value for key, value in stated.items() if key not in techniques}, **read}
    typical = "" if named else typical_framework(candidates, good)
    framework = _framework(read_framework, checked, typical, complaints)
    behavior = {} if framework is None else _defaults(framework, stated, free)
    recomputes = {**behavior, **read}.get("recompute") == "full"
    is_open = "offload" not in checked.wrong | stated.keys() and "offload" not in free
    offloads = typical == ON_TPU and recomputes and is_open
    behavior |= {"offload": IN_HOST_MEMORY} if offloads else {}
    bad = checked.wrong | untrained | (techniques.keys() - read.keys())
    values = _settled(Plan, {**behavior, **stated, **read}, bad)
    if "data_parallel" not in stated:
        values.pop("data_parallel", None)
    remarks: tuple[str, ...] = ()
    if framework is not None:
        framework, lacking = _like(framework, values, is_own=is_own) if is_own or not named else (framework, [])
        remarks = (*_remarks(framework, stated, named=named), *lacking)
    remarks += ("assumed: plan.offload activations, as MaxText's recipes for TPUs have it",) if offloads else ()
    return ReadPlan(framework=framework, values=values, stated=stated, remarks=remarks)


def _defaults(framework: Framework, stated: Mapping[str, Any], free: Container[str]) -> dict[str, object]:
    """A framework's values of what a plan leaves out: attention is fused where a plan states what only that can do.

    Sequence parallelism goes with tensor parallelism, and chunked overlap of the collectives with sequence parallelism.
    """
    needs_flash = "attention_kernel" in stated or stated.get("context_parallel", 1) != 1
    without = {"attention"} if needs_flash else set()
    without |= {"sequence_parallel"} if stated.get("tensor_parallel", 1) == 1 else set()
    splits = "sequence_parallel" in free or {**framework.defaults, **stated}.get("sequence_parallel", False)
    behavior = {"tensor_overlap": framework.tensor_overlap(splits), **framework.defaults}
    return {key: value for key, value in behavior.items() if key not in without}


def _remarks(framework: Framework, stated: Mapping[str, Any], *, named: bool) -> tuple[str, ...]:
    """What is answered although a plan did not say it, or said more than the catalog knows."""
    typical = "" if named else not_named(framework.name, framework.version, is_like=framework.is_like)
    return tuple(filter(None, (typical, date_remark(framework.name, stated.get("framework_version", "")))))


def read_generation_plan(mapping: object, complaints: Complaints, task: str) -> "ReadPlan[Engine]":
    """Return what of a plan of generation or serving is right, its mistakes noted."""
    from sightline.loading.serving_plan import in_attention_groups, read_serving_options
    from sightline.scenario.generation import SERVING_ONLY, GenerationPlan

    checked = read_keys(mapping, complaints)
    stated, groups = in_attention_groups(checked.values, complaints)
    training_only = _only(Plan, GenerationPlan, "expert_tensor_parallel")
    _note_useless(stated, training_only, "training, not to generation", complaints)
    if task != "serve":
        _note_useless(stated, SERVING_ONLY, f"serving, not to {task}", complaints)
    named = "framework" in stated or "framework" in checked.wrong
    engine = _framework(read_engine, checked, TYPICAL_ENGINE, complaints)
    values = {**_usual(engine, task), **stated}
    before = len(complaints.problems)
    values["quantization"] = read_quantization(values.get("quantization"), "plan.quantization", complaints)
    values["speculative"] = _speculation(values.get("speculative"), complaints)
    values |= read_serving_options(stated, complaints)
    wrong = {"quantization", "speculative"} if len(complaints.problems) > before else set()
    settled = _settled(GenerationPlan, values, checked.wrong | wrong | {"disaggregate"})
    remarks = groups if engine is None else (*_engine_remarks(engine, stated, named=named), *groups)
    return ReadPlan(framework=engine, values=settled, stated=stated, remarks=remarks)


def _usual(engine: "Engine | None", task: str) -> dict[str, Any]:
    """What an engine does unless told otherwise; under a load its token budget is a matter of the device's memory."""
    if engine is None:
        return {}
    usual = {"memory_fraction": engine.memory.memory_fraction, **engine.defaults}
    return usual if task != "serve" else {**usual, "max_batched_tokens": None, **engine.serving.defaults}


def _engine_remarks(engine: "Engine", stated: Mapping[str, Any], *, named: bool) -> tuple[str, ...]:
    """The same of an engine."""
    typical = "" if named else not_named(engine.name, engine.version)
    return tuple(filter(None, (typical, date_remark(engine.name, stated.get("framework_version", ""), "engines"))))


def _framework(read: Callable[[str, str], F], checked: Checked, typical: str, complaints: Complaints) -> F | None:
    """The framework or engine that a plan names, else the typical one, or None with the reason noted."""
    if {"framework", "framework_version"} & checked.wrong:
        return None
    stated = checked.values
    name, version = stated.get("framework", typical), stated.get("framework_version", "")
    if isinstance(name, Mapping):
        name = name[LIKE]
        is_engine = typical == TYPICAL_ENGINE
        if is_engine or OTHER_NAMES.get(name.lower(), name) == IDEAL:
            allowed = "the name of an engine for generation" if is_engine else "a framework that trains"
            complaints.add(f"plan.framework is {{like: {name}}}; allowed: {allowed}")
            return None
    name = OTHER_NAMES.get(name.lower(), name)
    if name.lower() in _ON_TRANSFORMERS:
        complaints.add(
            f"plan.framework is {show(name)}, which trains with transformers; use plan.framework transformers"
        )
        return None
    return complaints.note(read, name, version)


def _settled(description: type, values: Mapping[str, Any], wrong: frozenset[str] | set[str]) -> dict[str, Any]:
    """The fields of a plan's description: values, else the description's defaults; those that are wrong left out."""
    return {
        f.name: values.get(f.name, f.default)
        for f in fields(description)
        if f.default is not MISSING and f.name not in wrong
    }


def note_generation_only(plan: Mapping[str, Any], task: str, complaints: Complaints) -> None:
    """Note the keys of a plan that are for generation alone, where another ``task`` is asked."""
    if plan.keys() <= _training_keys().keys():
        return
    from sightline.scenario.generation import GenerationPlan

    _note_useless(plan, _only(GenerationPlan, Plan), f"generation, not to {task}", complaints)


def _note_useless(plan: Mapping[str, Any], useless: Container[str], why: str, complaints: Complaints) -> None:
    """Note the keys of a plan that its task has no use for, unless they say that nothing is used.

    ``why`` names the task that they are for and the one that is asked.
    """
    for key in filter(useless.__contains__, plan):
        if not _asks_for_nothing(key, plan[key]):
            stated = "" if isinstance(plan[key], Mapping) else f"is {show(plan[key])}; it "
            complaints.add(f"plan.{key} {stated}applies to {why}")


def _asks_for_nothing(key: str, value: object) -> bool:
    """Whether a value says that its key is not used: none, an empty list, false, 0 or a degree of 1.

    So does flash attention, the only one that generation has.
    """
    return (
        value in ("none", [], ["none"], {"kind": "none"}, 0)
        or (plan_keys()[key] is DEGREE and value == 1)
        or (key, value) == ("attention", "flash")
    )


def dtype_problem(dtype: str, predicted: Sequence[str]) -> str:
    """Return what to say about a dtype that is not among those ``predicted``."""
    if dtype in DTYPES:
        return f"{show(dtype)}; this version predicts only {', '.join(predicted)}"
    return f"{show(dtype)}; allowed: {', '.join(predicted)}{meant(dtype, list(predicted))}"


def _speculation(mapping: object, complaints: Complaints) -> "Speculation | None":
    from sightline.scenario.generation import Speculation

    if mapping is None or mapping == "none":
        return None
    return built(Speculation, mapping, "plan.speculative", complaints)


def read_pools(mapping: object, complaints: Complaints) -> dict[str, dict[str, Any]]:
    """Return what ``plan.disaggregate`` states of prefill and of decode workers, mistakes noted."""
    if mapping in NO_POOLS:
        return {}
    if not isinstance(mapping, Mapping) or set(mapping) != {"prefill", "decode"}:
        keys = isinstance(mapping, Mapping) and ", ".join(map(str, mapping))
        stated = f"has the keys {keys}" if keys else f"is {show(mapping)}"
        complaints.add(f"plan.disaggregate {stated}; allowed: a mapping with both prefill and decode")
        return {}
    return {
        pool: check(POOL, mapping[pool], f"plan.disaggregate.{pool}", complaints).values
        for pool in ("prefill", "decode")
    }

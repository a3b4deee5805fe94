"""Candidate changes of a plan: which there are, what each does and risks, and the sentences that say so."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

from sightline.profile import GENERATION, SERVING, Profile
from sightline.quantities import GIB, SECONDS, format_quantity, significant
from sightline.scenario import Plan, Scenario
from sightline.scenario.plan import ContextExchange
from sightline.scenario.rules import breaks_no_rule

if TYPE_CHECKING:
    from sightline.scenario import GenerationPlan, GenerationScenario

SMALLER_WEIGHTS = ("fp8", "w4a16")
"""Formats of a served model's weights that are tried."""
NO_SINGLE_CHANGE = "no single change of"
"""How the sentence begins that says so."""
TRIED = {
    "training": "micro_batch, recompute, zero_stage, attention, offload or parallel degrees",
    "generation": "batch, quantization or tensor_parallel",
}


def does_not_fit(profile: Profile) -> str:
    """Return what a plan needs of what a device has, and its largest part."""
    parts = {name: size for name, size in profile.memory_bytes.items() if name != "total"}
    largest = max(parts, key=parts.__getitem__)
    needed, usable = profile.memory_bytes["total"] / GIB, profile.usable_bytes / GIB
    if needed <= usable:
        return "does not fit: what it offloads is more than the memory of its hosts"
    return f"does not fit: {needed:.1f} GiB of {usable:.1f} GiB, of which {largest} {parts[largest] / GIB:.1f} GiB"


def what_would_fit(profile: Profile, predict: Callable[[Any], Profile]) -> Sequence[str]:
    """Return sentences: the memory needed and available, and single changes under which it fits; none if it does."""
    if profile.fits:
        return ()
    sentences = [does_not_fit(profile)]
    key, time = ("tpot_s", "time per token") if profile.task is GENERATION else ("step_time_s", "step time")
    own_s = getattr(profile, key)

    def fitting(changes: Iterable[tuple[str, Any]]) -> Iterator[str]:
        for change, scenario in changes:
            other = predict(scenario)
            if other.fits:
                slower = getattr(other, key) / own_s if own_s else 1.0
                total = other.memory_bytes["total"] / GIB
                yield f"{change} would fit with {total:.1f} GiB, at {slower:.2f} x the {time}"

    single = [*islice(fitting(_smaller_micro_batches(profile)), 1), *fitting(_changes(profile))]
    if single:
        return [*sentences, *single]
    return [*sentences, f"{NO_SINGLE_CHANGE} {TRIED[profile.task.name]} fits"]


def needs_several(profile: Profile) -> bool:
    """Return whether a plan does not fit and none of its single changes does."""
    return any(sentence.startswith(NO_SINGLE_CHANGE) for sentence in profile.advice)


def _changes(profile: Profile) -> Iterator[tuple[str, Any]]:
    """Single changes that save memory, in words and as scenarios."""
    scenario = profile.scenario
    if profile.task is GENERATION:
        yield from _generation_changes(scenario)
    else:
        yield from ((_in_words(change), _with(scenario, change)) for change in _saving(scenario))


def _smaller_micro_batches(profile: Profile) -> Iterator[tuple[str, Any]]:
    """Micro-batches below a training plan's that divide a replica's share of the batch, the largest first."""
    scenario = profile.scenario
    if profile.task is GENERATION:
        return
    share = scenario.workload.global_batch // int(scenario.plan.data_parallel)
    for sequences in range(int(scenario.plan.sequences) - 1, 0, -1):
        if share % sequences == 0:
            yield f"micro_batch: {sequences}", _with(scenario, {"micro_batch": sequences})


Change = Mapping[str, Any]
"""Fields of a plan with other values."""


def _with(scenario: Scenario, change: Change) -> Scenario:
    return replace(scenario, plan=replace(scenario.plan, **change))


def _in_words(change: Change) -> str:
    """A change as a scenario file would say it: ``recompute: full``. Replicas follow from the other degrees."""
    return ", ".join(f"{field}: {_said(value)}" for field, value in change.items() if field != "data_parallel")


def _said(value: object) -> str:
    if isinstance(value, frozenset):
        return ", ".join(sorted(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def plans_beside(scenario: Scenario) -> Iterator[tuple[str, Plan]]:
    """Yield single changes of a training plan that break no rule, and the plans they lead to.

    Choices take each other value, the micro-batch doubles and halves, tensor, pipeline and context parallelism double
    and halve at the expense of replicas.
    """
    for change in changes_beside(scenario):
        other = _with(scenario, change)
        if breaks_no_rule(other):
            yield _in_words(change), other.plan


def changes_beside(scenario: Scenario) -> Iterator[Change]:
    """Yield the same single changes as fields of the plan, whether or not they break a rule."""
    yield from _choices(scenario.plan)
    yield from _micro_batches(scenario)
    yield from _splits(scenario, (2.0, 0.5))


def _saving(scenario: Scenario) -> Iterator[Change]:
    """Single changes that save memory and that the framework offers."""
    plan = scenario.plan
    offered = plan.framework.allows
    if plan.attention == "eager" and offered("attention", "flash"):
        yield {"attention": "flash"}
    for kind in ("selective", "full"):
        if plan.recompute not in (kind, "full") and offered("recompute", kind):
            yield {"recompute": kind}
    for stage in range(int(plan.zero_stage) + 1, 4):
        if plan.data_parallel > 1 and offered("zero_stage", stage):
            yield {"zero_stage": stage}
    needs = plan.framework.offload_needs.get("optimizer", {})
    possible = all(getattr(plan, field) in allowed for field, allowed in needs.items())
    if "optimizer" not in plan.offload and "optimizer" in plan.framework.offers.get("offload", ()) and possible:
        yield {"offload": frozenset(plan.offload) | {"optimizer"}}
    yield from (change for change in _splits(scenario, (2.0,)) if breaks_no_rule(_with(scenario, change)))


def _choices(plan: Plan) -> Iterator[Change]:
    kinds: dict[str, tuple[Any, ...]] = {"recompute": ("none", "selective", "full"), "attention": ("flash", "eager")}
    if plan.data_parallel > 1:
        kinds["zero_stage"] = (0, 1, 2, 3)
    if plan.tensor_parallel > 1:
        kinds["sequence_parallel"] = (False, True)
    if plan.pipeline_parallel > 1 and plan.virtual_stages == 1:
        kinds["schedule"] = ("1f1b", "zero-bubble")
    if plan.context_parallel > 1:
        kinds["context_exchange"] = get_args(ContextExchange)
    for field, values in kinds.items():
        yield from ({field: value} for value in values if value != getattr(plan, field))


def _micro_batches(scenario: Scenario) -> Iterator[Change]:
    plan, batch = scenario.plan, scenario.workload.global_batch
    for sequences in (plan.sequences * 2, plan.sequences // 2):
        if sequences >= 1 and batch % (plan.data_parallel * sequences) == 0:
            yield {"micro_batch": sequences}


def _splits(scenario: Scenario, factors: Sequence[float]) -> Iterator[Change]:
    """Multiples of a degree of tensor, pipeline or context parallelism, at the expense of replicas."""
    plan, model, batch = scenario.plan, scenario.model, scenario.workload.global_batch
    limits = {
        "tensor_parallel": model.heads,
        "pipeline_parallel": model.layers // plan.virtual_stages,
        "context_parallel": scenario.workload.sequence_length // 2,
    }
    for (field, limit), factor in product(limits.items(), factors):
        degree, replicas = getattr(plan, field) * factor, plan.data_parallel / factor
        whole = degree == int(degree) and replicas == int(replicas)
        if not whole or limit % degree or batch % (replicas * plan.sequences):
            continue
        change: dict[str, Any] = {field: int(degree), "data_parallel": int(replicas)}
        if field == "tensor_parallel" and degree == 1:
            change["sequence_parallel"] = False
        if field == "pipeline_parallel" and degree == 1 and plan.virtual_stages > 1:
            continue
        yield change


def _generation_changes(scenario: "GenerationScenario") -> "Iterator[tuple[str, GenerationScenario]]":
    """Single changes that save memory: low-precision weights or cache, more ranks per replica, a smaller batch."""
    plan = scenario.plan
    for change, other in _generation_plans(plan):
        yield change, replace(scenario, plan=other)
    batch = int(scenario.workload.batch) // 2
    while batch >= plan.data_parallel * plan.replicas:
        work = replace(scenario.workload, batch=batch)
        yield f"workload.batch: {batch}", replace(scenario, workload=work)
        batch //= 4


def _generation_plans(plan: "GenerationPlan") -> "Iterator[tuple[str, GenerationPlan]]":
    cache = tuple(word for word in plan.quantization or () if word.startswith("kv-"))
    offered = plan.engine.offers.get("quantization")
    for word in SMALLER_WEIGHTS:
        if word not in (plan.quantization or ()) and (offered is None or word in offered):
            yield f"quantization: {word}", replace(plan, quantization=(word, *cache))
    if not cache and (offered is None or "kv-fp8" in offered):
        yield "quantization: kv-fp8", replace(plan, quantization=(*(plan.quantization or ()), "kv-fp8"))
    degrees = plan.engine.offers.get("tensor_parallel")
    twice = int(plan.tensor_parallel) * 2
    if plan.replicas % 2 == 0 and (degrees is None or twice in degrees):
        yield f"tensor_parallel: {twice}", replace(plan, tensor_parallel=twice, replicas=plan.replicas // 2)


Settings: TypeAlias = Mapping[str, Any]
"""Dotted keys with their new values; the first is the lever, the others follow from it."""
_NUMERICAL = ("plan.dtype", "plan.quantization", "plan.optimizer", "plan.gradient_reduce_dtype")
"""Keys that change what is computed, not only how."""
NUMERICS = "numerics"
"""The decision that all of them are about."""
_FOLLOW = ("plan.data_parallel", "plan.replicas", "plan.framework")
"""Keys that follow from others in the same change."""
_SAME = {"plan.virtual_stages": "plan.schedule"}
_DEGREES = ("tensor_parallel", "pipeline_parallel", "data_parallel")


def candidates(scenario: Any, asked: Any) -> list[Settings]:
    """Return single changes of a resolved scenario; ``asked`` is the one that may leave the micro-batch open."""
    match scenario.workload.task:
        case "pretrain" | "finetune":
            found = list(_of_training(scenario))
            is_open = asked.plan.micro_batch is None
            return [one for one in found if not (is_open and "plan.micro_batch" in one)]
        case "generate":
            return list(_of_engine(scenario))
        case "serve":
            return [*_of_engine(scenario), *_of_load(scenario)]
    return []


def is_numerical(settings: Settings) -> bool:
    """Return whether a change alters the numbers that are computed."""
    return any(key in _NUMERICAL for key in settings)


def levers(settings: Settings) -> frozenset[str]:
    """Return the decisions that a change is about; values of one decision are no further levers."""
    if is_numerical(settings):
        return frozenset({NUMERICS})
    first, *others = settings
    return frozenset(_SAME.get(key, key) for key in (first, *others) if key == first or key not in _FOLLOW)


def _of_training(scenario: Scenario) -> Iterator[Settings]:
    plan = scenario.plan
    for change in changes_beside(scenario):
        yield {f"plan.{name}": _written(value) for name, value in change.items()}
    for factor in (4, 0.25):
        sequences = float(plan.sequences) * factor
        if sequences >= 1 and sequences == int(sequences):
            yield {"plan.micro_batch": int(sequences)}
    if plan.offload:
        yield {"plan.offload": "none"}
    if scenario.model.experts is not None:
        yield from _multiples("expert_parallel", float(plan.expert_parallel))
    yield from _chunks(scenario)
    yield from _switches(scenario)
    yield from _numerical(scenario)


def _chunks(scenario: Scenario) -> Iterator[Settings]:
    """Twice and half as many chunks of layers per stage."""
    plan = scenario.plan
    if float(plan.pipeline_parallel) == 1:
        return
    for chunks in (float(plan.virtual_stages) * 2, float(plan.virtual_stages) / 2):
        if chunks >= 1 and chunks == int(chunks):
            yield {"plan.virtual_stages": int(chunks), "plan.schedule": "interleaved" if chunks > 1 else "1f1b"}


def _switches(scenario: Scenario) -> Iterator[Settings]:
    """What is off and might be on."""
    stated = scenario.plan.to_dict()
    names = ["overlap_gradient_reduce", "overlap_parameter_gather", "compile", "fused_loss"]
    names += ["expert_overlap"] if scenario.model.experts is not None else []
    yield from ({f"plan.{name}": True} for name in names if stated.get(name) is False)
    if float(scenario.plan.tensor_parallel) > 1 and stated.get("tensor_overlap") == "none":
        yield {"plan.tensor_overlap": "all"}


def _numerical(scenario: Scenario) -> Iterator[Settings]:
    plan = scenario.plan
    if plan.dtype in ("bf16", "fp16") and "fp8" in scenario.cluster.device.peak_flops:
        yield {"plan.dtype": "fp8"}
    if plan.dtype in ("fp32", "tf32"):
        yield {"plan.dtype": "bf16"}
    if plan.optimizer == "adamw":
        yield {"plan.optimizer": "adamw-8bit"}
    if plan.to_dict().get("gradient_reduce_dtype") == "fp32":
        yield {"plan.gradient_reduce_dtype": "bf16"}


def _of_engine(scenario: Any) -> Iterator[Settings]:
    """Changes of a served model's plan: layout at the expense of replicas, iterations, formats."""
    plan = scenario.plan
    if plan.disaggregate is not None:
        return
    for name in _DEGREES:
        for factor in (2.0, 0.5):
            degree, replicas = float(getattr(plan, name)) * factor, float(plan.replicas) / factor
            if min(degree, replicas) >= 1 and degree == int(degree) and replicas == int(replicas):
                yield {f"plan.{name}": int(degree), "plan.replicas": int(replicas)}
    for one, other in (("tensor_parallel", "pipeline_parallel"), ("pipeline_parallel", "tensor_parallel")):
        degree, left = float(getattr(plan, one)) * 2, float(getattr(plan, other)) / 2
        if left >= 1 and left == int(left):
            yield {f"plan.{one}": int(degree), f"plan.{other}": int(left)}
    if scenario.model.experts is not None:
        yield from _multiples("expert_parallel", float(plan.expert_parallel))
    if plan.max_batched_tokens:
        yield from _multiples("max_batched_tokens", float(plan.max_batched_tokens))
    for name in ("cuda_graphs", "chunked_prefill"):
        yield {f"plan.{name}": not getattr(plan, name)}
    yield from _formats(plan)


def _formats(plan: Any) -> Iterator[Settings]:
    words = tuple(plan.quantization or ())
    cache = tuple(word for word in words if word.startswith("kv-"))
    if len(words) == len(cache):
        for word in ("fp8", "w8a8", "w4a16"):
            yield {"plan.quantization": [word, *cache] if cache else word}
    if not cache:
        yield {"plan.quantization": [*words, "kv-fp8"] if words else "kv-fp8"}


def _of_load(scenario: Any) -> Iterator[Settings]:
    """Changes of a plan that matter under a load of many requests."""
    plan = scenario.plan
    if plan.max_sequences:
        yield from _multiples("max_sequences", float(plan.max_sequences))
    if not plan.prefix_cache:
        yield {"plan.prefix_cache": True}
    if float(plan.replicas) > 1 and plan.router == "round-robin":
        yield {"plan.router": "least-load"}


def _multiples(name: str, value: float) -> Iterator[Settings]:
    for factor in (2.0, 0.5):
        other = value * factor
        if other >= 1 and other == int(other):
            yield {f"plan.{name}": int(other)}


def _written(value: Any) -> Any:
    """A value of a plan as a scenario file says it."""
    if isinstance(value, frozenset):
        return sorted(value) or "none"
    return int(value) if isinstance(value, float) and value.is_integer() else value


WORDS: Mapping[str, str] = {
    "communication_exposed": "exposed communication",
    "pipeline_bubble": "pipeline bubble",
    "forward": "time in forward passes",
    "backward": "time in backward passes",
    "recompute": "recomputation",
    "optimizer": "time in the optimizer",
    "host": "waiting for the host",
    "prefill": "prefill",
    "decode": "decoding",
    "communication": "communication",
    "transfer": "transfer of the cache",
    "queue": "waiting in the queue",
    "decode_queue": "waiting to decode",
}
"""Phases as a sentence names an amount of them."""
TELLING = 0.25
"""Share of the whole difference from which on a phase is named."""


def slower_because(best: Profile, other: Profile) -> str:
    """Return which phases the other's time is longer or shorter by: "0.31 s more exposed communication".

    The largest phases that make up the difference, and what is gained elsewhere against it.
    """
    keys = dict.fromkeys((*best.phases, *other.phases))
    changes = {key: float(other.phases.get(key, 0.0)) - float(best.phases.get(key, 0.0)) for key in keys}
    whole = sum(changes.values())
    against = {key: change for key, change in changes.items() if change * whole > 0}
    unmet = sorted(against, key=lambda key: -abs(against[key]))[:2]
    named = [key for key in unmet if abs(against[key]) >= TELLING * abs(whole)] or unmet[:1]
    if not named:
        return "takes as long"
    said = " and ".join(_amount(key, against[key]) for key in named)
    gained = max((key for key in changes if key not in against), key=lambda key: abs(changes[key]), default=None)
    if gained is not None and abs(changes[gained]) >= TELLING * abs(whole):
        said += f", for {_amount(gained, changes[gained])}"
    return said


def _amount(phase: str, seconds: float) -> str:
    amount = format_quantity(significant(abs(seconds), 2), SECONDS, digits=2)
    return f"{amount} {'more' if seconds > 0 else 'less'} {WORDS.get(phase, phase.replace('_', ' '))}"


def more_memory_because(best: Profile, other: Profile) -> str:
    """Return the part of memory by which the other plan needs more or less: "12.3 GiB more activations"."""
    sizes = {name: size for name, size in best.memory_bytes.items() if name != "total"}
    parts = {name: float(other.memory_bytes[name] - size) for name, size in sizes.items()}
    largest = max(parts, key=lambda name: abs(parts[name]))
    return f"{abs(parts[largest]) / GIB:.1f} GiB {'more' if parts[largest] > 0 else 'less'} {largest}"


def memory_needed(profile: Profile) -> str:
    """Return what a plan needs of a device's memory."""
    return f"needs {profile.memory_bytes['total'] / GIB:.1f} GiB of {profile.usable_bytes / GIB:.1f} GiB"


def needs_and_step(profile: Profile) -> str:
    """Return what a training plan needs of a device's memory, and how long a step takes."""
    return f"{memory_needed(profile)} and {format_quantity(float(profile.step_time_s), SECONDS)} a step"


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


_SEARCHED_CHOICES: Mapping[str, tuple[Any, ...]] = {
    "recompute": ("none", "selective", "full"),
    "zero_stage": (0, 1, 2, 3),
    "schedule": ("1f1b", "gpipe", "zero-bubble"),
    "sequence_parallel": (False, True),
}
"""Choices whose other values are neighbours."""
_SEARCHED_DEGREES = ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel")


def searched_changes(scenario: Scenario) -> Iterator[Change]:
    """Yield single changes of a plan, whether they break a rule or not.

    Degrees double and halve at the expense of replicas, or of stages where there are none left; the micro-batch and
    the virtual stages double and halve; recomputation, ZeRO and the schedule take their other values.
    """
    plan = scenario.plan
    for field in _SEARCHED_DEGREES:
        for factor in (2.0, 0.5):
            yield from _degree(scenario, field, factor)
    for factor in (2.0, 0.5):
        sequences = (plan.micro_batch or 1) * factor
        if sequences >= 1 and sequences == int(sequences):
            yield {"micro_batch": int(sequences)}
        virtual = plan.virtual_stages * factor
        if plan.schedule == "interleaved" and virtual > 1 and virtual == int(virtual):
            yield {"virtual_stages": int(virtual)}
    yield from _searched_choices(plan)


def _searched_choices(plan: Plan) -> Iterator[Change]:
    needs = {
        "zero_stage": plan.data_parallel,
        "schedule": plan.pipeline_parallel,
        "sequence_parallel": plan.tensor_parallel,
    }
    for field, values in _SEARCHED_CHOICES.items():
        if needs.get(field, 2) > 1:
            for value in values:
                if value != getattr(plan, field):
                    yield {field: value} | ({"virtual_stages": 1} if field == "schedule" else {})
    if plan.offload:
        yield {"offload": frozenset()}


def _degree(scenario: Scenario, field: str, factor: float) -> Iterator[Change]:
    """A multiple of a degree of parallelism, where it is a whole number and something else can give way."""
    plan = scenario.plan
    degree = getattr(plan, field) * factor
    if degree < 1 or degree != int(degree) or (field == "expert_parallel" and scenario.model.experts is None):
        return
    if field == "context_parallel" and plan.context_parallel == 1:
        return
    change: dict[str, Any] = {field: int(degree)}
    if field != "expert_parallel":
        gives = "data_parallel" if plan.data_parallel % factor == 0 else "pipeline_parallel"
        left = getattr(plan, gives) / factor
        if gives == field or left < 1 or left != int(left):
            return
        change[gives] = int(left)
    if field == "pipeline_parallel" and plan.schedule == "interleaved":
        # As many layers in a chunk as before.
        change["virtual_stages"] = max(1, int(plan.virtual_stages // factor))
    if change.get("virtual_stages") == 1:
        change["schedule"] = "1f1b"
    if change.get("tensor_parallel") == 1:
        change["sequence_parallel"] = False
    if change.get("pipeline_parallel") == 1:
        change |= {"schedule": "1f1b", "virtual_stages": 1}
    yield change


def generation_changes(scenario: "GenerationScenario") -> "Iterator[tuple[dict[str, Any], GenerationScenario]]":
    """Yield single changes of a plan by dotted key, and the scenarios that they lead to.

    Degrees double and halve at the expense of replicas, expert parallelism, the token budget and the batch by
    themselves. Plans with workers of their own for prefill have none.
    """
    plan, work = scenario.plan, scenario.workload
    if plan.disaggregate is not None:
        return
    for factor in (2.0, 0.5):
        for name in _DEGREES:
            degree, replicas = getattr(plan, name) * factor, plan.replicas / factor
            if min(degree, replicas) >= 1 and degree == int(degree) and replicas == int(replicas):
                change: dict[str, Any] = {name: int(degree), "replicas": int(replicas)}
                yield {f"plan.{name}": int(degree)}, replace(scenario, plan=replace(plan, **change))
        for name in ("expert_parallel", "max_batched_tokens"):
            value = (getattr(plan, name) or 0) * factor
            if value >= 1 and value == int(value) and (name != "expert_parallel" or scenario.model.experts):
                change = {name: int(value)}
                yield {f"plan.{name}": int(value)}, replace(scenario, plan=replace(plan, **change))
        batch = work.batch * factor
        if batch == int(batch) and batch >= plan.replicas * plan.data_parallel:
            yield {"workload.batch": int(batch)}, replace(scenario, workload=replace(work, batch=int(batch)))

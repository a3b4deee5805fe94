"""Candidate changes of a plan: which there are, what each does and risks, and the sentences that say so.

A candidate change differs from the plan in one decision. All that ask for such changes - what would fit, sensitivity,
advice, and the rationale of a search - try this list, less what their question leaves out.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, get_args

from sightline.frameworks.choices import FUSIONS
from sightline.profile import GENERATION, LONGEST_SAMPLE, SERVING, Profile, seconds_by_limit
from sightline.profile.metrics import metric_of
from sightline.quantities import GIB, SECONDS, format_quantity, significant
from sightline.scenario import Plan, Scenario
from sightline.scenario.plan import ContextExchange
from sightline.scenario.rules import verdict

if TYPE_CHECKING:
    from sightline.scenario import GenerationScenario

Change: TypeAlias = Mapping[str, Any]
"""Fields of a plan with their new values: the first is the decision, the others follow from it. ``batch`` is the
workload's."""
Settings: TypeAlias = Mapping[str, Any]
"""A change as dotted keys of a scenario, with values as a file states them."""
NUMERICS = "numerics"
"""The decision that all changes of what is computed are about."""
NO_SINGLE_CHANGE = "no single change fits; `sightline plan` searches for several"
"""What is said where no candidate change of a plan that does not fit makes it fit."""
RUNS_OUT_LATER = (
    "A run that starts may still run out of memory later: fragments grow over many steps, an evaluation may keep its "
    "logits, and a checkpoint may gather weights."
)
"""Said of training whose memory is tight."""
_NUMERICAL = ("dtype", "quantization", "optimizer", "gradient_reduce_dtype")
"""Fields that change what is computed, not only how."""
_FOLLOW = ("data_parallel", "replicas", "framework")
"""Fields that follow from others in the same change."""
_TRAINING_DEGREES = ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel")
_ENGINE_DEGREES = ("tensor_parallel", "pipeline_parallel", "data_parallel")
_CHOICES: Mapping[str, tuple[Any, ...]] = {
    "recompute": ("none", "selective", "full"),
    "attention": ("flash", "eager"),
    "zero_stage": (0, 1, 2, 3),
    "sequence_parallel": (False, True),
    "schedule": ("1f1b", "gpipe", "zero-bubble"),
    "context_exchange": get_args(ContextExchange),
}
"""Choices of a training plan whose other values are tried."""
_NEEDS = {
    "zero_stage": "data_parallel",
    "sequence_parallel": "tensor_parallel",
    "schedule": "pipeline_parallel",
    "context_exchange": "context_parallel",
}
"""The degree without which a choice has no effect."""
_SWITCHES = ("overlap_gradient_reduce", "overlap_parameter_gather", "compile", "fused_loss")
_WEIGHT_FORMATS = ("fp8", "w8a8", "w4a16")
_MORE_FREES = frozenset((*_TRAINING_DEGREES, "data_parallel", "zero_stage"))
_LESS_FREES = frozenset(("micro_batch", "virtual_stages", "max_batched_tokens", "max_sequences", "batch"))
_FREES = frozenset(
    (
        *(("attention", "flash"), ("sequence_parallel", "true"), ("schedule", "1f1b"), ("fused_loss", "true")),
        *(("dtype", "bf16"), ("optimizer", "adamw-8bit"), ("gradient_reduce_dtype", "bf16"), ("cuda_graphs", "false")),
    )
)
"""Choices that free memory."""


def candidate_changes(scenario: Any) -> Iterator[Change]:
    """Yield the candidate changes of a resolved scenario's plan, whether or not they break a rule."""
    match scenario.workload.task:
        case "pretrain" | "finetune":
            yield from _training_changes(scenario)
        case "generate":
            yield from _engine_changes(scenario)
            yield from _multiples("batch", float(scenario.workload.batch))
        case "serve":
            yield from _engine_changes(scenario)
            yield from _load_changes(scenario.plan)


def changed(scenario: Any, change: Change) -> Any:
    """Return the scenario with a change."""
    fields = {name: value for name, value in change.items() if name != "batch"}
    other = replace(scenario, plan=replace(scenario.plan, **fields)) if fields else scenario
    return replace(other, workload=replace(other.workload, batch=change["batch"])) if "batch" in change else other


def allowed_changes(
    scenario: Any, is_wanted: Callable[[Change], bool] = lambda _: True
) -> Iterator[tuple[Change, Any]]:
    """Yield the wanted changes that break no rule which the plan keeps, and the scenarios that they lead to."""
    own = verdict(scenario).rejected.keys()
    for change in filter(is_wanted, candidate_changes(scenario)):
        other = changed(scenario, change)
        if verdict(other).rejected.keys() <= own:
            yield change, other


def settings_of(change: Change) -> dict[str, Any]:
    """Return a change as dotted keys with values as a scenario file states them."""
    return {f"{'workload' if name == 'batch' else 'plan'}.{name}": _as_stated(value) for name, value in change.items()}


def _as_stated(value: Any) -> Any:
    if isinstance(value, frozenset):
        return sorted(value) or "none"
    if isinstance(value, tuple):
        return list(value) if len(value) > 1 else next(iter(value), "none")
    if value is None:
        return "none"
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _training_changes(scenario: Scenario) -> Iterator[Change]:
    plan = scenario.plan
    for field in _TRAINING_DEGREES:
        for factor in (2.0, 0.5):
            yield from _degree(scenario, field, factor)
    yield from _multiples("micro_batch", float(plan.sequences), (2.0, 0.5, 4.0, 0.25))
    if plan.pipeline_parallel > 1:
        for chunks in _multiples("virtual_stages", float(plan.virtual_stages)):
            if chunks["virtual_stages"] > 1:
                yield _without_same(plan, {**chunks, "schedule": "interleaved"})
    for field, values in _CHOICES.items():
        if field not in _NEEDS or getattr(plan, _NEEDS[field]) > 1:
            follows = {"virtual_stages": 1} if field == "schedule" else {}
            yield from (
                _without_same(plan, {field: value, **follows}) for value in values if value != getattr(plan, field)
            )
    yield from (
        {"offload": parts}
        for parts in (frozenset[str](), frozenset({*plan.offload, "optimizer"}))
        if parts != plan.offload
    )
    yield from _switches(scenario)
    yield from _numerical_changes(scenario)


def _switches(scenario: Scenario) -> Iterator[Change]:
    """Yield what is off and might be on, or the other way round."""
    plan, stated = scenario.plan, scenario.plan.to_dict()
    switches = (*_SWITCHES, *(("expert_overlap",) if scenario.model.experts is not None else ()))
    yield from ({name: True} for name in switches if stated.get(name) is False)
    if not plan.compile and (fusions := {name: True for name in FUSIONS if stated.get(name) is False}):
        yield fusions
    if plan.launch_blocking:
        yield {"launch_blocking": False}
    if plan.tensor_parallel > 1 and stated.get("tensor_overlap") == "none":
        yield {"tensor_overlap": "all"}


def _numerical_changes(scenario: Scenario) -> Iterator[Change]:
    plan = scenario.plan
    if plan.dtype in ("bf16", "fp16") and "fp8" in scenario.cluster.device.peak_flops:
        yield {"dtype": "fp8"}
    if plan.dtype in ("fp32", "tf32"):
        yield {"dtype": "bf16"}
    if plan.optimizer == "adamw":
        yield {"optimizer": "adamw-8bit"}
    if plan.to_dict().get("gradient_reduce_dtype") == "fp32":
        yield {"gradient_reduce_dtype": "bf16"}


def _degree(scenario: Scenario, field: str, factor: float) -> Iterator[Change]:
    """Yield a multiple of a degree of parallelism at the expense of replicas, or of stages where too few are left."""
    plan = scenario.plan
    degree = getattr(plan, field) * factor
    if degree < 1 or degree != int(degree) or (field == "expert_parallel" and scenario.model.experts is None):
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
    yield _without_same(plan, change)


def _without_same(plan: Plan, change: Change) -> Change:
    """A change without the fields that stay as they are."""
    return {field: value for field, value in change.items() if value != getattr(plan, field)}


def _engine_changes(scenario: Any) -> Iterator[Change]:
    """Yield changes of a served model's plan; workers that only prefill have none."""
    plan = scenario.plan
    if plan.disaggregate is not None:
        return
    for one, other in (
        *((name, "replicas") for name in _ENGINE_DEGREES),
        *(("tensor_parallel", "pipeline_parallel"), ("pipeline_parallel", "tensor_parallel")),
    ):
        for factor in (2.0, 0.5) if other == "replicas" else (2.0,):
            degree, left = float(getattr(plan, one)) * factor, float(getattr(plan, other)) / factor
            if min(degree, left) >= 1 and degree == int(degree) and left == int(left):
                yield {one: int(degree), other: int(left)}
    if scenario.model.experts is not None:
        yield from _multiples("expert_parallel", float(plan.expert_parallel))
    yield from _multiples("max_batched_tokens", float(plan.max_batched_tokens or 0))
    yield from ({name: not getattr(plan, name)} for name in ("cuda_graphs", "chunked_prefill"))
    published = scenario.model.published
    words = tuple(published if plan.quantization is None else plan.quantization)
    cache = tuple(word for word in words if word.startswith("kv-"))
    yield from ({"quantization": (word, *cache)} for word in _WEIGHT_FORMATS if word not in words)
    if not cache:
        yield {"quantization": (*words, "kv-fp8")}
    if plan.quantization:
        yield {"quantization": () if published else None}


def _load_changes(plan: Any) -> Iterator[Change]:
    """Yield changes of a plan that matter under a load of many requests."""
    yield from _multiples("max_sequences", float(plan.max_sequences or 0))
    if not plan.prefix_cache:
        yield {"prefix_cache": True}
    if float(plan.replicas) > 1 and plan.router == "round-robin":
        yield {"router": "least-load"}


def _multiples(name: str, value: float, factors: Iterable[float] = (2.0, 0.5)) -> Iterator[Change]:
    for factor in factors:
        other = value * factor
        if other >= 1 and other == int(other):
            yield {name: int(other)}


class Risk(NamedTuple):
    """What a change entails beside its time."""

    changes_numerics: bool
    """Whether other numbers are computed, so that the model's quality has to be checked."""
    needs_restart: bool
    """Whether the job or the server has to start again."""
    frees_memory: bool


def risk_of(change: Change | Settings, plan: Any) -> Risk:
    """Return what a change of a plan entails, given by field or as settings."""
    key, value = next(iter(change.items()))
    field = key.rpartition(".")[2]
    own = getattr(plan, field, None)
    if field in _MORE_FREES:
        frees = value > own
    elif field in _LESS_FREES:
        frees = own is None or value < own
    elif field == "recompute":
        frees = value != "none" and own != "full"
    else:
        is_used = bool(value) and value != "none"
        frees = (field, _word(value)) in _FREES or (field in ("offload", "quantization") and is_used)
    return Risk(
        changes_numerics=field in _NUMERICAL, needs_restart=field not in ("router", "batch"), frees_memory=bool(frees)
    )


def decisions(settings: Settings) -> frozenset[str]:
    """Return the decisions that a change is about: all that changes the numerics is about one."""
    names = [key.removeprefix("plan.") for key in settings]
    if any(name in _NUMERICAL for name in names):
        return frozenset({NUMERICS})
    about = (name for name in names if name == names[0] or name not in _FOLLOW)
    return frozenset("schedule" if name == "virtual_stages" else name for name in about)


def largest_part(profile: Profile) -> tuple[str, float]:
    """Return the largest part of the fullest device's memory, and its bytes."""
    largest = max((name for name in profile.memory_bytes if name != "total"), key=profile.memory_bytes.__getitem__)
    return largest, float(profile.memory_bytes[largest])


def does_not_fit(profile: Profile) -> str:
    """Return what a plan needs of what a device has, and its largest part."""
    largest, part_bytes = largest_part(profile)
    needed, usable = profile.memory_bytes["total"] / GIB, profile.usable_bytes / GIB
    if needed <= usable:
        return "does not fit: the offloaded state exceeds host memory"
    return f"does not fit: {needed:.1f} GiB of {usable:.1f} GiB, including {largest} {part_bytes / GIB:.1f} GiB"


class WouldFit(str):
    """The sentence for a change under which a plan fits, which knows the change."""

    __slots__ = ("change",)

    change: Change


def what_would_fit(profile: Profile, predict: Callable[[Any], Profile]) -> Sequence[str]:
    """Return sentences: the memory needed and available, and candidate changes under which it fits; none if it does.

    Of smaller batches the largest that fits is named. Formats of a trained model are left to `explain`, which states
    them in the scenario, where further fields follow from them.
    """
    if profile.fits:
        return ()
    scenario, is_served = profile.scenario, profile.task is GENERATION
    key = ("tpot_s" if profile.tpot_s else "ttft_s") if is_served else "step_time_s"
    own_s, time = getattr(profile, key), metric_of(key).spoken

    def fitting(changes: Iterable[tuple[Change, Any]]) -> Iterator[str]:
        for change, other in changes:
            answer = predict(other)
            if answer.fits:
                slower = getattr(answer, key) / own_s
                total = answer.memory_bytes["total"] / GIB
                said = WouldFit(f"{_in_words(change)} would fit with {total:.1f} GiB, at {slower:.2f} x the {time}")
                said.change = change
                yield said

    smaller = list(_smaller_batches(scenario) if is_served else _smaller_micro_batches(scenario))
    sized = {name for change in smaller for name in change}

    def frees_memory(change: Change) -> bool:
        risk = risk_of(change, scenario.plan)
        return not sized & change.keys() and risk.frees_memory and (is_served or not risk.changes_numerics)

    freeing = sorted(allowed_changes(scenario, frees_memory), key=lambda each: NUMERICS in decisions(each[0]))
    single = [*islice(fitting((change, changed(scenario, change)) for change in smaller), 1), *fitting(freeing)]
    return [does_not_fit(profile), *(single or [NO_SINGLE_CHANGE])]


def needs_several(profile: Profile) -> bool:
    """Return whether a plan does not fit and none of its single changes does."""
    return NO_SINGLE_CHANGE in profile.advice


def _smaller_micro_batches(scenario: Scenario) -> Iterator[Change]:
    """Yield micro-batches that divide a replica's share of the batch, the largest first."""
    share = scenario.workload.global_batch // int(scenario.plan.data_parallel)
    yield from ({"micro_batch": n} for n in range(int(scenario.plan.sequences) - 1, 0, -1) if share % n == 0)


def _smaller_batches(scenario: "GenerationScenario") -> Iterator[Change]:
    """Yield halves of a batch that leave a sequence for every rank."""
    batch = int(scenario.workload.batch) // 2
    while batch >= scenario.plan.data_parallel * scenario.plan.replicas:
        yield {"batch": batch}
        batch //= 2


def plans_beside(scenario: Scenario) -> Iterator[tuple[str, Plan]]:
    """Yield the candidate changes of a training plan that keep the rules and the numerics, and the plans they lead to.

    A change is said as a scenario file says it: ``recompute: full``.
    """
    for change, other in allowed_changes(scenario):
        if not risk_of(change, scenario.plan).changes_numerics:
            yield _in_words(change), other.plan


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
    LONGEST_SAMPLE: "waiting for the longest sample",
}
"""What limits are called in a sentence."""
_UP: Mapping[str, str] = {
    "zero_stage": "more of the model state is sharded, which frees memory and moves more bytes",
    "micro_batch": "kernels are larger and fewer, so they use the device better and need fewer launches",
    "tensor_parallel": "more devices share every layer, its weights and its cache reads",
    "pipeline_parallel": "more devices share the layers, with less communication than within a layer",
    "context_parallel": "more devices share every sequence",
    "data_parallel": "attention keeps whole sequences on each device, without communication within a layer",
    "expert_parallel": "whole experts are spread over more devices",
    "virtual_stages": "smaller stage chunks fill and drain the pipeline faster",
    "max_batched_tokens": "iterations process more prompt tokens, so requests wait for fewer iterations",
    "max_sequences": "more requests run at once",
}
_DOWN: Mapping[str, str] = {
    "zero_stage": "each device holds more of the model state, so less is communicated",
    "micro_batch": "there are more micro-batches, which shrinks the bubble and the saved activations",
    "tensor_parallel": "fewer devices share a layer, so all-reduces are smaller or gone and matmuls larger",
    "pipeline_parallel": "fewer stages shrink the bubble",
    "context_parallel": "fewer devices exchange the keys and values of a sequence",
    "data_parallel": "fewer devices exchange tokens between attention and experts",
    "expert_parallel": "tokens are exchanged between fewer devices",
    "virtual_stages": "chunks are larger, so stages exchange activations less often",
    "max_batched_tokens": "iterations are shorter, so tokens wait less for other prompts",
    "max_sequences": "fewer requests share an iteration, so each token comes sooner",
}
_VALUES: Mapping[tuple[str, str], str] = {
    ("recompute", "none"): "activations are saved, so nothing of the forward pass is recomputed",
    ("recompute", "selective"): "only the large attention activations are recomputed",
    ("recompute", "full"): "layers save only their input, which frees memory but reruns the forward pass",
    ("attention", "flash"): "fused attention does not write the scores to device memory",
    ("attention", "eager"): "attention runs as matmuls and a separate softmax",
    ("schedule", "zero-bubble"): "weight gradients fill the pipeline bubble",
    ("schedule", "1f1b"): "stages communicate less often than with an interleaved schedule",
    ("schedule", "interleaved"): "smaller stage chunks fill and drain the pipeline faster",
    ("sequence_parallel", "true"): "norms and dropout are split over the tensor-parallel ranks instead of repeated",
    ("sequence_parallel", "false"): "all-reduces replace gathers and scatters",
    ("compile", "true"): "fused element-wise kernels read memory once and are launched once",
    **dict.fromkeys(((name, "true") for name in FUSIONS), "fused kernels read and write memory once"),
    ("fused_loss", "true"): "the loss makes no 32-bit copy of the logits",
    ("overlap_gradient_reduce", "true"): "gradients are reduced during the backward pass",
    ("overlap_parameter_gather", "true"): "weights are gathered during the forward pass",
    ("launch_blocking", "false"): "the host launches kernels ahead and communication can overlap them",
    ("expert_overlap", "true"): "tokens of one micro-batch are exchanged while another is computed",
    ("tensor_overlap", "all"): "tensor-parallel collectives are overlapped with matmuls",
    ("offload", "none"): "state stays on the device instead of crossing the host link",
    ("cuda_graphs", "true"): "a decode iteration is launched as one graph instead of kernel by kernel",
    ("chunked_prefill", "true"): "prompts are split into chunks that share iterations with decoding",
    ("chunked_prefill", "false"): "prompts are prefilled in separate iterations",
    ("prefix_cache", "true"): "shared prompt prefixes are prefilled once",
    ("router", "least-load"): "requests go to the least loaded replica",
    ("dtype", "fp8"): "matmuls run at the rate of 8-bit formats",
    ("dtype", "bf16"): "matmuls run at the rate of 16-bit formats",
    ("optimizer", "adamw-8bit"): "optimizer moments take a quarter of the bytes",
    ("gradient_reduce_dtype", "bf16"): "gradient communication takes half of the bytes",
    ("quantization", "fp8"): "weights take half of the bytes and matmuls run at the 8-bit rate",
    ("quantization", "w8a8"): "weights take half of the bytes and matmuls run at the 8-bit rate",
    ("quantization", "w4a16"): "weights take a quarter of the bytes that each token reads",
    ("quantization", "kv-fp8"): "keys and values take half of the bytes that each token reads",
}


def seconds(value: float) -> str:
    """Return a time with its unit, in three digits."""
    return format_quantity(significant(value, 3), SECONDS)


def _in_words(change: Change) -> str:
    return said(settings_of(change))


def said(change: Settings) -> str:
    """Return a change as a scenario file says it, without the degrees that follow from others."""
    first = next(iter(change))
    shown = (
        (key.removeprefix("plan."), value)
        for key, value in change.items()
        if key == first or key.removeprefix("plan.") not in _FOLLOW
    )
    return ", ".join(f"{name}: {_word(value)}" for name, value in shown)


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
        if sentence := _VALUES.get((name, _word(word))):
            return sentence
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
    if because and because != "takes the same time":
        parts[-1] += f", with {because}"
    if other.memory_bytes and not (other.task is SERVING and own.fits):
        parts[-1] += f", and it {memory_needed(other)}" + (", tight" if other.tight else "")
    parts[-1] += "."
    if any(NUMERICS in decisions(change) for change in changes):
        parts.append("This changes the numerics: check the model's quality.")
    return " ".join(filter(None, parts))


def _binding(own: Profile, other: Profile) -> str:
    """What a change works on: the limit that it takes most from; or that the plan does not fit."""
    if own.fits is False:
        needed, usable = float(own.memory_bytes["total"]) / GIB, float(own.usable_bytes) / GIB
        return f"It does not fit: {needed:.1f} GiB of {usable:.1f} GiB."
    limits, others = ({k: float(v) for k, v in seconds_by_limit(one).items()} for one in (own, other))
    if not limits:
        return ""
    name = max(limits, key=lambda limit: limits[limit] - others.get(limit, 0.0))
    spoken = LIMIT_NAMES[name]
    return f"{spoken[:1].upper()}{spoken[1:]} takes {seconds(limits[name])} of {seconds(float(own.whole_s))}."


WORDS: Mapping[str, str] = {
    "communication_exposed": "exposed communication",
    "pipeline_bubble": "pipeline bubble",
    "forward": "time in forward passes",
    "reference": "time in the reference model's passes",
    "backward": "time in backward passes",
    "recompute": "recomputation",
    "optimizer": "time in the optimizer",
    "host": "waiting for the host",
    "prefill": "prefill",
    "decode": "decoding",
    "communication": "communication",
    "transfer": "KV cache transfer",
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
        return "takes the same time"
    sentence = " and ".join(_amount(key, against[key]) for key in named)
    gained = max((key for key in changes if key not in against), key=lambda key: abs(changes[key]), default=None)
    if gained is not None and abs(changes[gained]) >= TELLING * abs(whole):
        sentence += f", for {_amount(gained, changes[gained])}"
    return sentence


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
    return f"{memory_needed(profile)}, step time {format_quantity(float(profile.step_time_s), SECONDS)}"

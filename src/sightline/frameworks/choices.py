"""What a plan may change of a framework's behavior: overlap, formats, fused kernels, under the words of its users.

A framework offers such a choice where its entry lists the values in ``offers``; its behavior is then the default.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from sightline.content import remembered
from sightline.frameworks.framework import LOSS, Framework, FusedKernel, StateBytes

REDUCE_BYTES: Final[Mapping[str, float]] = {"fp32": 4, "fp16": 2, "bf16": 2}
"""Bytes of a gradient element on its way, by ``plan.gradient_reduce_dtype``."""
STATES: Final[Mapping[str, StateBytes]] = {
    "fp32": StateBytes(weights=4.0, gradients=4.0, optimizer=8.0),
    "bf16": StateBytes(weights=2.0, gradients=2.0, optimizer=4.0),
}
"""Model states that are all held in one format, by ``plan.state_dtype``."""
CHANGED_FRAMEWORKS: Final = 256


def choices_of(framework: Framework, dtype: str) -> dict[str, Any]:
    """Return the values of the choices that a framework offers, as it behaves in a compute dtype."""
    behavior = {name: choice.value(framework, dtype) for name, choice in _CHOICES.items() if framework.offers.get(name)}
    return {name: value for name, value in behavior.items() if value is not None}


def with_choices(framework: Framework, stated: Mapping[str, Any], dtype: str) -> Framework:
    """Return a framework as it behaves with what a plan states of its choices; None states nothing."""
    plain = framework.plain or framework
    own = {name: choice.value(plain, dtype) for name, choice in _CHOICES.items()}
    wanted = {name: own[name] if stated[name] is None else stated[name] for name in _CHOICES}
    if all(choice.value(framework, dtype) == wanted[name] for name, choice in _CHOICES.items()):
        return framework
    other = {name: value for name, value in wanted.items() if value != own[name]}
    return _changed(plain, tuple(other.items())) if other else plain


@remembered(CHANGED_FRAMEWORKS)
def _changed(plain: Framework, stated: tuple[tuple[str, Any], ...]) -> Framework:
    framework = plain
    for name, value in stated:
        framework = _CHOICES[name].apply(framework, value)
    return replace(framework, plain=plain)


def _reduced_in(framework: Framework, dtype: str) -> str:
    by_dtype = framework.sharding.gradient_reduce_bytes
    # Below 16 bits, gradients are those of bf16.
    moved = by_dtype.get(dtype, by_dtype.get("bf16", REDUCE_BYTES["fp32"]))
    return "fp32" if moved == REDUCE_BYTES["fp32"] else "fp16" if dtype == "fp16" else "bf16"


def _reduces_in(framework: Framework, dtype: str) -> Framework:
    moved = dict.fromkeys(framework.sharding.gradient_reduce_bytes, REDUCE_BYTES[dtype])
    memory = framework.memory
    if framework.sharding.reduces_in_place:
        memory = replace(memory, gradients=dict.fromkeys(moved, REDUCE_BYTES[dtype]))
    return replace(framework, sharding=replace(framework.sharding, gradient_reduce_bytes=moved), memory=memory)


def _overlaps_gradients(framework: Framework, on: bool) -> Framework:
    return replace(framework, overlap=replace(framework.overlap, gradients=on))


def _overlaps_parameters(framework: Framework, on: bool) -> Framework:
    return replace(framework, overlap=replace(framework.overlap, parameters=on, update=on))


def _launches_experts(framework: Framework, how: str) -> Framework:
    # Only a kernel for all experts reads their sizes on the device.
    each = how == "each"
    engine = replace(framework.transformer_engine, launches_each_expert=each, waits_for_counts=each)
    return replace(framework, transformer_engine=engine)


def _keeps_fp8_parameters(framework: Framework, on: bool) -> Framework:
    kept = framework.low_precision.weight_bytes if on else {}
    return replace(framework, low_precision=replace(framework.low_precision, weight_bytes=kept))


def _keeps_transposed(framework: Framework, on: bool) -> Framework:
    return replace(framework, low_precision=replace(framework.low_precision, keeps_transposed=on))


def _exchanges_adapters(framework: Framework, how: str) -> Framework:
    engine = replace(framework.transformer_engine, exchanges_adapter_outputs=how == "all-to-all")
    return replace(framework, transformer_engine=engine)


def _holds_states_in(framework: Framework, dtype: str) -> Framework:
    """Weights, gradients and moments in one format; an update moves bytes in proportion to them."""
    share = STATES[dtype].optimizer / framework.memory.states.optimizer
    return replace(
        framework,
        memory=replace(framework.memory, states=STATES[dtype]),
        kernels=replace(framework.kernels, optimizer_traffic=framework.kernels.optimizer_traffic * share),
    )


def _splits_vocabulary(framework: Framework, on: bool) -> Framework:
    return replace(framework, allocation=replace(framework.allocation, whole_vocabulary=not on))


class _Choice(NamedTuple):
    """A choice that a plan has."""

    value: Callable[[Framework, str], Any]
    """What a framework does in a compute dtype."""
    apply: Callable[[Framework, Any], Framework]
    """The framework with another value."""


def _fusing(kernel: FusedKernel, *others: FusedKernel) -> _Choice:
    """Return the choice to fuse a kernel; ``others`` are never fused without it."""

    def apply(framework: Framework, on: bool) -> Framework:
        fused = framework.fusion.fused | {kernel} if on else framework.fusion.fused - {kernel, *others}
        return replace(framework, fusion=replace(framework.fusion, fused=fused))

    return _Choice(lambda framework, _: kernel in framework.fusion.fused, apply)


def _experts(framework: Framework, _: str) -> str:
    return "each" if framework.transformer_engine.launches_each_expert else "grouped"


def _adapters(framework: Framework, _: str) -> str:
    return "all-to-all" if framework.transformer_engine.exchanges_adapter_outputs else "all-gather"


def _states(framework: Framework, _: str) -> str | None:
    return next((name for name, states in STATES.items() if states == framework.memory.states), None)


_FUSED: Final[Mapping[str, tuple[FusedKernel, ...]]] = {
    "fused_norm": ("norm",),
    "fused_rope": ("rope", "latent-rope"),
    "fused_activation": ("activation",),
}
FUSIONS: Final = tuple(_FUSED)
"""Fields of kernels that libraries such as Liger fuse together."""
_CHOICES: Final[Mapping[str, _Choice]] = {
    "gradient_reduce_dtype": _Choice(_reduced_in, _reduces_in),
    "overlap_gradient_reduce": _Choice(lambda f, _: f.overlap.gradients, _overlaps_gradients),
    "overlap_parameter_gather": _Choice(lambda f, _: f.overlap.parameters, _overlaps_parameters),
    "fused_loss": _fusing(LOSS),
    **{field: _fusing(*kernels) for field, kernels in _FUSED.items()},
    "expert_launches": _Choice(_experts, _launches_experts),
    "fp8_parameter_gather": _Choice(lambda f, _: bool(f.low_precision.weight_bytes), _keeps_fp8_parameters),
    "fp8_transpose_cache": _Choice(lambda f, _: f.low_precision.keeps_transposed, _keeps_transposed),
    "adapter_exchange": _Choice(_adapters, _exchanges_adapters),
    "state_dtype": _Choice(_states, _holds_states_in),
    "vocabulary_parallel": _Choice(lambda f, _: not f.allocation.whole_vocabulary, _splits_vocabulary),
}
"""By the plan's field."""
CHOICES: Final = (*_CHOICES, "attention_kernel")
"""Fields of a plan that a framework has to offer before they may be stated."""

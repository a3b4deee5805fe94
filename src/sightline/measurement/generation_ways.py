"""How transformers may generate, and which scenarios it can be asked to."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from sightline.errors import InputError, nearest
from sightline.measurement.outcome import UnsupportedCaseError
from sightline.scenario import GenerationScenario

FRAMEWORKS = ("transformers", "reference")
"""Frameworks that a scenario may name: transformers itself, or none in particular."""
WEIGHTS = {"nf4": "nf4", "int8": "int8"}
"""Formats of weights that bitsandbytes has, by the plan's word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way of generating."""

    attention: Literal["flash", "eager"]
    cache: Literal["dynamic", "static"]
    """Keys and values grow with every token, or lie in room taken beforehand."""
    compiled: bool = False
    """Decode steps go through PyTorch's compiler; on a GPU as one captured graph."""


WAYS = {
    "dynamic": Way(attention="flash", cache="dynamic"),
    "static": Way(attention="flash", cache="static"),
    "compiled": Way(attention="flash", cache="static", compiled=True),
    "eager": Way(attention="eager", cache="dynamic"),
}
"""By the name that ``--implementation`` gives them; the first is what transformers does by default."""


def way_of(scenario: GenerationScenario, implementation: str | None) -> str:
    """Return the way's name: the one asked for, else compiled where the plan captures graphs.

    Raises:
        InputError: There is no such way.
        UnsupportedCaseError: The scenario asks for something that transformers is not measured with.
    """
    if implementation is not None and implementation not in WAYS:
        raise InputError(
            f"--implementation is '{implementation}'; of generation there are: {', '.join(WAYS)}"
            f"{nearest(implementation, list(WAYS))}"
        )
    reasons = list(_unsupported(scenario))
    if reasons:
        raise UnsupportedCaseError("; ".join(reasons))
    captures = scenario.plan.cuda_graphs and scenario.plan.engine.name == "transformers"
    return implementation or ("compiled" if captures else "dynamic")


def weight_format(scenario: GenerationScenario) -> str:
    """Return what the weights of matmuls are kept in: none (the plan's dtype), nf4 or int8."""
    return next((WEIGHTS[word] for word in scenario.plan.quantization or () if word in WEIGHTS), "none")


def _unsupported(scenario: GenerationScenario) -> Iterator[str]:
    plan, work = scenario.plan, scenario.workload
    if plan.engine.name not in FRAMEWORKS:
        yield f"plan.framework is '{plan.engine.name}'; generation is measured with: {', '.join(FRAMEWORKS)}"
    for degree in ("tensor_parallel", "pipeline_parallel", "data_parallel", "replicas"):
        if getattr(plan, degree) != 1:
            yield f"plan.{degree} is {getattr(plan, degree)}; generation is measured on one device: 1"
    for word in plan.quantization or ():
        if word not in WEIGHTS:
            yield f"plan.quantization is '{word}'; generation is measured with: none, {', '.join(WEIGHTS)}"
    if scenario.model.weights not in ("bf16", "fp16", "fp32") and plan.quantization is None:
        yield f"the model's weights are in {scenario.model.weights}; measured are: none, {', '.join(WEIGHTS)}"
    for name, is_asked in (
        ("workload.continuous", work.continuous),
        ("workload.prefix_tokens", bool(work.prefix_tokens)),
        ("workload.repeated_token", work.repeated_token),
        ("plan.speculative", plan.speculative is not None),
        ("plan.disaggregate", plan.disaggregate is not None),
        ("plan.chunked_prefill", plan.chunked_prefill),
    ):
        if is_asked:
            yield f"{name} is asked for; a static batch of whole prompts is what is measured"

"""Which framework answers where none is named: the typical one of the task that offers what the plan asks for."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sightline.frameworks import Framework, read_framework
from sightline.scenario.rules import techniques
from sightline.scenario.rules.rulebook import broken_rules

TYPICAL_FRAMEWORKS: Final[Mapping[str, Sequence[str]]] = {
    "pretrain": ("megatron", "torchtitan", "deepspeed", "reference"),
    "finetune": ("transformers", "fsdp", "deepspeed", "megatron", "reference"),
}
"""By task of training; the first that offers everything that the plan states answers."""
TYPICAL_ENGINE: Final = "vllm"
"""Of generation."""
NOT_NAMED: Final = "plan.framework is not named"
"""How the remark begins that says which framework answers instead."""

OFFERED = (
    techniques.framework_options,
    techniques.framework_choices,
    techniques.interleaving_needs,
    techniques.offloading,
)


def typical_framework(task: str, plan: Mapping[str, Any]) -> Framework:
    """Return the typical framework of a task that offers the values of a plan, or else the task's first."""
    candidates = [read_framework(name) for name in TYPICAL_FRAMEWORKS.get(task, TYPICAL_FRAMEWORKS["pretrain"])]
    return next((framework for framework in candidates if _offers(framework, plan)), candidates[0])


def not_named(name: str, version: str) -> str:
    """Return the remark on a scenario that names no framework, and was answered as this one."""
    return f"{NOT_NAMED}: answered as {f'{name} {version}'.strip()}; plan.framework reference is the ideal bound"


def _offers(framework: Framework, plan: Mapping[str, Any]) -> bool:
    taken = {"zero_stage": 0, "recompute": "none", **framework.defaults, **plan}
    return not any(broken_rules(OFFERED, {"framework": framework, "plan": taken, **taken}))

"""One thing that a plan may have, a technique of training or a feature of an engine, and which plans have it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sightline.scenario.generation import DEGREES
from sightline.validation.coverage.cell import Question

_DEGREES = (
    *DEGREES,
    *("context_parallel", "expert_tensor_parallel", "data_parallel_shard", "attention_data_parallel", "replicas"),
)
_USED = ("speculative", "disaggregate", "kv_tiers", "lora_adapters", "autoscale")
"""Fields with figures of their own, of which any value is the feature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a plan states to have it."""

    name: str
    plan: Mapping[str, Any]
    """What tells plans with it from others."""
    needs: Mapping[str, Any] = field(default_factory=dict)
    """What else it takes."""
    prefix_tokens: int = 0
    """Of each prompt, that all have in common: without any a cache of prefixes does nothing."""
    model: str
    task: str
    devices: int

    def question(self, named: str, device: str, workload: Question) -> Question:
        """Return the scenario that asks for it under a framework or an engine of some name."""
        shared = {"prefix_tokens": self.prefix_tokens} if self.prefix_tokens else {}
        return {
            "model": self.model,
            "cluster": f"{self.devices}x {device}",
            "workload": {"task": self.task, **workload, **shared},
            "plan": {"framework": named, **self.needs, **self.plan},
        }

    def is_of(self, scenario: Any) -> bool:
        """Whether a resolved scenario has it; any degree above 1 is one."""
        plan = scenario.plan.to_dict()
        shared = bool(np.any(getattr(scenario.workload, "prefix_tokens", 0)))
        return shared >= bool(self.prefix_tokens) and all(_has(k, plan.get(k), value) for k, value in self.plan.items())


def each(make: Callable[..., Choice], what: str, name: str, values: Iterable[object], **more: Any) -> Iterator[Choice]:
    """Yield a choice for each value of a plan's field, as ``make`` makes it of a name and the plan."""
    return (make(f"{what} {value}", {name: value}, **more) for value in values)


def _has(name: str, there: Any, value: Any) -> bool:
    """Whether a plan's value of a field is the choice's, or has it among others."""
    if name in _USED:
        return bool(there) and there != "none"
    if name in _DEGREES:
        return there is not None and there > 1
    if isinstance(value, Mapping):
        return isinstance(there, Mapping) and all(_has(key, there.get(key), one) for key, one in value.items())
    if isinstance(there, list | tuple):
        return set([value] if isinstance(value, str) else value) <= set(there)
    return bool(there == value)

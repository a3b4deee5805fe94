"""One cell of the coverage: what a prediction of a combination rests on, or why there is none."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from sightline.catalog import entry
from sightline.errors import InputError
from sightline.loading import load
from sightline.prediction.common_figures import not_calibrated
from sightline.scenario.generation import DEGREES

Status = Literal["calibrated", "extrapolated", "datasheet-only", "unsupported"]
STATUSES: tuple[Status, ...] = get_args(Status)
Table = Literal["operators", "techniques", "features"]
TABLES: tuple[Table, ...] = get_args(Table)
Question: TypeAlias = Mapping[str, Any]
"""A scenario, as a file would hold it."""

_STATUS_OF: Mapping[str, Status] = {
    "calibrated": "calibrated",
    "extrapolated": "extrapolated",
    "estimated": "extrapolated",
    "datasheet": "datasheet-only",
}
"""By the evidence of a prediction; constants that somebody estimated are no fit to the case either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Published measurements that use a technique or a feature under a framework or an engine."""

    cases: int = 0
    sources: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A combination and what a prediction of it says."""

    table: Table
    of: str
    """The device, framework or engine."""
    what: str
    """The operator, technique or feature."""
    dtype: str = ""
    """Of operators."""
    status: Status
    evidence: str = ""
    """As the prediction states it; empty where it is refused."""
    why: str = ""
    """The refusal, or what keeps the cell from being calibrated."""
    published: Published | None = None
    """None of operators, whose tables are not of scenarios."""
    question: Question
    """The scenario whose answer this is."""


def cell(
    table: Table,
    of: str,
    what: str,
    question: Question,
    answer: Callable[[Any], tuple[str, str]],
    *,
    dtype: str = "",
    published: Published | None = None,
) -> Cell:
    """Return the cell of a question; ``answer`` predicts it and returns the evidence and what it lacks.

    A technique that too few published measurements of the framework use is extrapolated at best.
    """
    status: Status = "unsupported"
    try:
        evidence, why = answer(load(question))
    except InputError as refusal:
        evidence, why = "", " ".join(refusal.problems)
    else:
        status = _STATUS_OF[evidence]
    if status == "calibrated" and published is not None:
        why = not_calibrated(published.cases, published.sources, "case", f"{of} with {what}")
        status = "extrapolated" if why else status
    return Cell(
        table=table,
        of=of,
        what=what,
        dtype=dtype,
        status=status,
        evidence=evidence,
        why=why,
        published=published,
        question=question,
    )


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


KINDS: Mapping[str, str] = {"techniques": "training", "features": "generation"}
"""Kinds of catalog entries that hold the counts."""
NAME = "published_plans"


def published(of: Literal["techniques", "features"], name: str) -> Callable[[str], Published]:
    """Return what looks up a choice's count under a framework's lineage or an engine; zero where there is none."""
    counts: Mapping[str, Any] = entry(KINDS[of], NAME)["counts"].get(name, {})
    return lambda choice: Published(**counts.get(choice, {}))


def counted(choices: Iterable[Choice], cases: Iterable[tuple[str, str, Any]]) -> dict[str, Any]:
    """Return cases and sources of each choice, by framework or engine; ``cases`` are (of, source, scenario)."""
    sources: dict[str, dict[str, list[str]]] = {}
    known = list(choices)
    for of, source, scenario in cases:
        for choice in known:
            if choice.is_of(scenario):
                sources.setdefault(of, {}).setdefault(choice.name, []).append(source)
    return {
        of: {name: {"cases": len(all_of), "sources": len(set(all_of))} for name, all_of in by.items()}
        for of, by in sorted(sources.items())
    }

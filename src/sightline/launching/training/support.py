"""What every writer asks of a plan of training: whether its launch can run it, and what of it stays unwritten."""

from collections.abc import Container, Iterator
from dataclasses import MISSING, fields, replace
from typing import Any

from sightline.frameworks.choices import CHOICES, choices_of
from sightline.quantities import show
from sightline.scenario import Plan, Scenario

_ALWAYS_WRITTEN = ("framework", "data_parallel")
"""Fields that the command itself states: what it runs, on how many devices."""


def with_micro_batch(scenario: Scenario) -> Scenario:
    """Return a scenario whose micro-batch is known: the fastest that fits where its plan leaves it open."""
    if scenario.plan.micro_batch is not None:
        return scenario
    # Imported here because a plan that states its micro-batch needs no prediction.
    from sightline.prediction import predict

    answered = predict(scenario).scenario
    if not isinstance(answered, Scenario):
        raise TypeError("a step of training is answered with its scenario")
    return replace(scenario, plan=replace(scenario.plan, micro_batch=answered.plan.micro_batch))


def unwritten(plan: Plan, written: Container[str], what: str) -> Iterator[str]:
    """Yield a sentence for each field that differs from the framework's default and is not among those ``written``.

    ``what`` names the framework or its program.
    """
    plain = plan.framework.plain or plan.framework
    own, stated = choices_of(plain, plan.dtype), choices_of(plan.framework, plan.dtype)
    for field in fields(Plan):
        name = field.name
        if name in written or name in _ALWAYS_WRITTEN:
            continue
        if name in CHOICES and name != "attention_kernel":
            value, default = stated.get(name), own.get(name)
        else:
            value, default = getattr(plan, name), _default(plan, name, field.default)
        if value != default:
            yield f"plan.{name} is {_shown(value)}: {what} has no argument for it"


def whole(number: Any) -> int:
    """Return a count as the whole number it is."""
    return int(number)


def _default(plan: Plan, name: str, default: object) -> object:
    if name == "tensor_overlap":
        return plan.framework.overlap.tensor
    return plan.framework.defaults.get(name, None if default is MISSING else default)


def _shown(value: object) -> str:
    return ", ".join(sorted(value)) if isinstance(value, frozenset) else show(value).strip("'")

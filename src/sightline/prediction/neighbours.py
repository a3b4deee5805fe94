"""The plans next to a plan: one field changed by one step, each valid and offered by the framework."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple, get_args

from sightline.prediction.step import profile_of
from sightline.profile import Profile
from sightline.scenario import Plan, Scenario
from sightline.scenario.plan import ContextExchange
from sightline.scenario.rules import breaks_no_rule


class Neighbour(NamedTuple):
    """A plan that differs in one decision, and its prediction."""

    change: str
    """The decision as a scenario file would say it: ``recompute: full``."""
    profile: Profile


def neighbours(scenario: Scenario) -> list[Neighbour]:
    """Predict every neighbour of a training scenario whose micro-batch is known, fastest first."""
    found = [Neighbour(change, profile_of(replace(scenario, plan=plan))) for change, plan in plans_beside(scenario)]
    return sorted(found, key=lambda n: float(n.profile.step_time_s))


def plans_beside(scenario: Scenario) -> Iterator[tuple[str, Plan]]:
    """Yield the changes and the plans they lead to.

    Choices take each other value, the micro-batch doubles and halves, tensor, pipeline and context parallelism double
    and halve at the expense of replicas.
    """
    plan = scenario.plan
    for change in (*_choices(plan), *_micro_batches(scenario), *_splits(scenario)):
        other = replace(plan, **change)
        if breaks_no_rule(replace(scenario, plan=other)):
            stated = {field: value for field, value in change.items() if field != "data_parallel"}
            yield ", ".join(f"{field}: {_said(value)}" for field, value in stated.items()), other


def _choices(plan: Plan) -> Iterator[dict[str, Any]]:
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


def _micro_batches(scenario: Scenario) -> Iterator[dict[str, Any]]:
    plan, batch = scenario.plan, scenario.workload.global_batch
    for sequences in (plan.sequences * 2, plan.sequences // 2):
        if sequences >= 1 and batch % (plan.data_parallel * sequences) == 0:
            yield {"micro_batch": sequences}


def _splits(scenario: Scenario) -> Iterator[dict[str, Any]]:
    """Twice or half a degree of tensor, pipeline or context parallelism, with half or twice the replicas."""
    plan, model, batch = scenario.plan, scenario.model, scenario.workload.global_batch
    limits = {
        "tensor_parallel": model.heads,
        "pipeline_parallel": model.layers // plan.virtual_stages,
        "context_parallel": scenario.workload.sequence_length // 2,
    }
    for (field, limit), factor in product(limits.items(), (2.0, 0.5)):
        degree, replicas = getattr(plan, field) * factor, plan.data_parallel / factor
        whole = degree == int(degree) and replicas == int(replicas)
        if not whole or limit % degree or batch % (replicas * plan.sequences):
            continue
        change = {field: int(degree), "data_parallel": int(replicas)}
        if field == "tensor_parallel" and degree == 1:
            change["sequence_parallel"] = False
        if field == "pipeline_parallel" and degree == 1 and plan.virtual_stages > 1:
            continue
        yield change


def _said(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

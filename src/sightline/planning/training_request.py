"""What people ask of training plans - objectives, limits, who searches - read, checked, searched and explained."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sightline.errors import InputError
from sightline.planning.heterogeneous_search import spaces_of_one_kind
from sightline.planning.plan_answer import PlanAnswer
from sightline.planning.plan_limits import Command, Options, read_limits
from sightline.planning.rationale.training_rationale import explained
from sightline.planning.request_spaces import read_axes, together
from sightline.planning.training.objectives import OBJECTIVES, check_objective, read_availability, read_run_limits
from sightline.planning.training.ranked import best_plans, contradictions
from sightline.planning.training.training_search import Request
from sightline.prediction import needs_equal_devices, predict
from sightline.progress import Progress
from sightline.scenario import Scenario
from sightline.scenario.space import Space


def plan_training(
    spaces: Sequence[Space[Scenario]],
    options: Options,
    command: Command,
    progress: Progress,
    others: Callable[[], Sequence[Space[Scenario]]] = tuple,
) -> PlanAnswer:
    """Return the best plans to train a model, as `sightline.planning.search.plan` is asked for them.

    ``others`` are spaces of every framework, where none is named.

    Raises:
        InputError: every mistake in the request.
    """
    request = Request(
        objective=check_objective(options["objective"]),
        pareto=read_axes(options["pareto"], check_objective, f"two of {', '.join(OBJECTIVES)}"),
        top=options["top"],
        max_memory=read_limits(max_memory=options["max_memory"]).get("max_memory"),
        limits=read_run_limits(options["deadline"], options["budget"]),
        availability=read_availability(options["availability"]),
        anchor=options["anchor"],
    )
    parts = {name: options[name] for name in ("workers", "where")}
    typed = command({"max-memory": options["max_memory"], "availability": options["availability"]})
    _check_length(spaces, request)
    mixed = next((space.scenario.cluster for space in spaces if space.scenario.cluster.groups), None)
    if mixed is not None:
        for name, value in parts.items():
            if value is not None:
                raise InputError(f"{name} needs devices of one type; cluster.devices is {mixed.in_words}")
        return _on_heterogeneous_devices(spaces, request, typed, progress)
    if stated := next((layers for space in spaces if (layers := space.scenario.plan.stage_layers)), None):
        listed = ", ".join(map(str, stated))
        raise InputError(f"plan.stage_layers is {listed}; allowed: not set, because a search spreads layers evenly")
    spaces = together(spaces)
    found = best_plans(spaces, request, progress, others=lambda: together(others()), **parts)
    if not (found.evaluated or found.rejected or found.stopped):
        _refuse_contradictions(spaces)
    return explained(found, spaces, request, predict=partial(predict, anchor=request.anchor), command=typed)


def _on_heterogeneous_devices(
    spaces: Sequence[Space[Scenario]], request: Request, command: str, progress: Progress
) -> PlanAnswer:
    """The answer where clusters have several kinds of devices: of these together, and of each alone."""
    from sightline.planning.heterogeneous_training import Searched, plan_heterogeneous, with_rationale

    mixed = [space for space in spaces if space.scenario.cluster.groups]
    if any(space.at_most for space in spaces):
        raise InputError("workload.global_batch is at_most; allowed on heterogeneous devices: a whole number")
    if request.anchor is not None:
        needs_equal_devices(mixed[0].scenario.cluster, "anchors")
    parts = [part for space in spaces for part in (spaces_of_one_kind(space) if space in mixed else [space])]
    alone = [best_plans([part], request, progress) for part in parts]
    answer, listed = plan_heterogeneous(mixed, request, alone, progress)
    if not (answer.evaluated or any(one.rejected for one in alone) or answer.stopped):
        _refuse_contradictions(parts or spaces)
    searched = Searched(request=request, spaces=mixed, parts=parts, alone=alone, listed=listed)
    return with_rationale(answer, searched, predict=predict, command=command)


def _check_length(spaces: Sequence[Space[Any]], request: Request) -> None:
    """Refuse limits of a run whose length is not known."""
    limits = request.limits
    lacking = [space for space in spaces if space.scenario.workload.total_tokens is None]
    if lacking and (limits.deadline_s is not None or limits.budget_usd is not None):
        name = "deadline" if limits.deadline_s is not None else "budget"
        raise InputError(f"{name} requires workload.total_tokens or workload.samples of the whole run")


def _refuse_contradictions(spaces: Sequence[Space[Scenario]]) -> None:
    """Refuse fixed fields that leave no candidate, by the rules that they break."""
    if problems := contradictions(spaces):
        raise InputError(problems)

"""``sightline plan --launch``: which plan is written, and why it is not the first."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sightline.cli import output
from sightline.errors import InputError
from sightline.quantities import percent

if TYPE_CHECKING:
    from sightline.launching import Launch
    from sightline.planning.answer import PlanAnswer, RankedPlan

_MOST_PROBLEMS = 3
"""Reasons for which plans cannot be launched that are printed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Launched:
    """The plan that is launched, if there is one, and why none before it is."""

    plan: "RankedPlan | None" = None
    launch: "Launch | None" = None
    is_shown: bool = True
    """Whether the plan is in the table."""
    problems: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Why plans before it cannot be launched, with their ranks."""
    is_alone: bool = True
    """Whether nothing else was searched for what can be launched."""

    @property
    def named(self) -> str:
        """What the plan is called."""
        return f"plan {self.plan.rank}" if self.plan and self.is_shown else "the best launchable plan"


def check_folder(folder: str) -> None:
    """Refuse a folder that cannot be written, before the search."""
    from sightline.launching.launch import check_folder

    try:
        check_folder(folder)
    except InputError as error:
        raise InputError([f"--launch: {problem}" for problem in error.problems]) from None


def first_launched(answer: "PlanAnswer", launchable: "Callable[[], PlanAnswer] | None") -> Launched:
    """Return the first plan that its framework can run with how it is launched.

    Args:
        answer: Of the search.
        launchable: Searches again for what can be launched alone, where no plan of the answer can be; None where that
            search was already such.
    """
    found = _first(answer, is_shown=True)
    if found.plan is not None or launchable is None or not answer.plans:
        return found
    other = _first(launchable(), is_shown=False)
    return replace(other, is_shown=False, problems=found.problems, is_alone=False)


def _first(answer: "PlanAnswer", *, is_shown: bool) -> Launched:
    from sightline.launching import write
    from sightline.scenario.rules.techniques import briefly

    problems: dict[str, list[int]] = {}
    for one in answer.plans:
        try:
            launch = write(one.profile.scenario)
        except InputError as error:
            for problem in error.problems:
                problems.setdefault(briefly(problem), []).append(one.rank)
        else:
            return Launched(plan=one, launch=launch, is_shown=is_shown, problems=problems)
    return Launched(problems=problems)


def save_launch(launched: Launched, folder: str, answer: "PlanAnswer") -> None:
    """Write the launch after the answer; where there is none, say why, which fails unless the search was stopped."""
    from sightline.quantities import counted

    said = list(_said(launched.problems))
    if launched.plan is None:
        nor = "" if launched.is_alone else ", and the search found no other"
        none = f"none of the {counted(len(answer.plans), 'plan')} shown can be launched{nor}"
        said.append(none if answer.plans else "no plan found")
        said = [f"--launch: {problem}" for problem in said]
        if not answer.stopped:
            raise InputError(said)
    for problem in said:
        output.print_remark(problem)
    if launched.plan is None or launched.launch is None:
        return
    from sightline.launching import save

    script, *others = save(launched.launch, folder)
    files = f" and {counted(len(others), 'file')}" if others else ""
    behind = _behind(launched, answer)
    output.print_remark(f"wrote {script}{files}: {launched.named} with {launched.launch.framework}{behind}")
    for sentence in launched.launch.without_counterpart:
        output.print_remark(sentence)


def _said(problems: Mapping[str, Sequence[int]]) -> Iterator[str]:
    """Sentences about plans that cannot be launched, those about the first ones first."""
    from sightline.report.plans.sentences import ranks

    for problem, places in list(problems.items())[:_MOST_PROBLEMS]:
        yield f"plan{'s' if len(places) > 1 else ''} {ranks(places)} cannot be launched: {problem}"


def _behind(launched: Launched, answer: "PlanAnswer") -> str:
    """By how much the plan is behind the first one, where it is another of as large a batch."""
    first, one = answer.plans[0], launched.plan
    if one is None or one is first or answer.objective not in ("time", "cost", "energy", "memory"):
        return ""
    batches = {getattr(plan.profile.scenario.workload, "global_batch", None) for plan in (first, one)}
    if answer.pareto_axes or len(batches) > 1 or not first.value > 0:
        return ""
    from sightline.report.plans.sentences import compared_by

    return f", whose {compared_by(answer)} is {percent(one.value / first.value - 1, 1)} above plan 1"

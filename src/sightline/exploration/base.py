"""The base scenario of a built-in study: as the study states it, with what the request sets."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sightline.content import fix_mappings
from sightline.errors import InputError
from sightline.exploration.study_answer import View
from sightline.frameworks import read_framework
from sightline.frameworks.framework import IDEAL
from sightline.loading.checks import with_value
from sightline.loading.loader import Asked
from sightline.planning.search import plan
from sightline.profile import Profile
from sightline.progress import SILENT, Progress
from sightline.quantities import percent, show
from sightline.scenario import GenerationScenario, Scenario
from sightline.scenario.rules import TRAINING_RULES, broken_by, facts_of, verdict
from sightline.scenario.rules.rulebook import masks_of
from sightline.validators import length_of


def said_of(view: View, more: str = "") -> str:
    """Return what a study assumes by a view, and ``more`` where it assumes more: a part of a sentence."""
    if view == "ideal":
        ideal = read_framework(IDEAL).ideal
        peak, bandwidth = (1.0, 1.0) if ideal is None else (ideal.peak, ideal.bandwidth)
        shares = f"{percent(peak)} of their peak and {percent(bandwidth)} of every bandwidth"
        said = f"Ideal view: devices reach {shares}, without launch overhead and with all common fusions"
    else:
        said = "Calibrated view: devices reach the measured efficiency of today's kernels"
    return f"{said}; {more}." if more else f"{said}."


def in_view(scenario: Mapping[str, Any], view: View) -> dict[str, Any]:
    """Return a scenario's mapping as a view sees it.

    The ideal view, which papers of hardware assume, replaces the framework or the engine, and so what they keep in
    memory too; the calibrated one leaves the scenario as it is stated. A plan that is no mapping is left for loading to
    refuse.
    """
    stated = scenario.get("plan") or {}
    if view == "calibrated" or not isinstance(stated, Mapping):
        return dict(scenario)
    plan = {key: value for key, value in stated.items() if key != "framework_version"}
    return with_value({**scenario, "plan": plan}, "plan.framework", IDEAL)


Views = Literal["ideal", "calibrated", "both"]
"""Which views of devices a study answers for."""
VIEWS: tuple[View, ...] = get_args(View)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StudyRequest:
    """What a study is asked; every field has the default of ``sightline explore STUDY``."""

    quick: bool = False
    """A small version of the study, a second's work: fewer values of each axis, small simulations, the same columns."""
    view: Views | None = None
    """Which view of devices, None for the study's own."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Values of ``--set``, by dotted key of the study's base scenario; what a study varies itself is not overridden."""
    progress: Progress = SILENT
    """Is told how far the study is, and may stop it: call ``check`` where it can stop."""

    def __post_init__(self) -> None:
        fix_mappings(self)

    def views(self, default: Views) -> tuple[View, ...]:
        """Return the views that are asked for, those of ``default`` where none is named."""
        asked = self.view or default
        return VIEWS if asked == "both" else (asked,)


LENGTHS = ("sequence_length", "prompt_tokens", "output_tokens")
"""Keys of a workload that may be written in short, such as ``4k``."""


def base_of(scenario: Mapping[str, Any], request: StudyRequest, varied: Collection[str]) -> dict[str, Any]:
    """Return a study's base scenario with the request's values.

    Of a part that is set as a whole, what it leaves out stays as the study states it. Lengths are numbers.

    Args:
        scenario: The scenario as the study states it.
        request: What is asked; its overrides are dotted keys of the scenario.
        varied: Keys that the study varies itself, which are not set.

    Raises:
        InputError: the request sets a key that the study varies, one below it, or all that it is a part of; or it sets
            a part with keys of its own to something else.
    """
    taken = {key: name for key in request.overrides for name in varied if _overlap(f"{key}.", f"{name}.")}
    if taken:
        raise InputError([f"{key} cannot be set because the study varies {name}" for key, name in taken.items()])
    base = dict(scenario)
    for key, value in request.overrides.items():
        part = scenario.get(key)
        if isinstance(part, Mapping) and not isinstance(value, Mapping):
            example = f"{key}.{min(part)}"
            raise InputError(
                f"{key} is {show(value)}; allowed: a mapping from keys to values, or one key, such as {example}"
            )
        base = with_value(base, key, {**part, **value} if isinstance(part, Mapping) else value)
    return _in_numbers(base)


def name_of(part: object) -> str:
    """Return a model or cluster of a scenario's mapping as a sentence names it."""
    if isinstance(part, Mapping):
        names = (part.get(key) for key in ("devices", "name", "same_as"))
        return str(next(filter(None, names), "the value"))
    return str(part)


def _overlap(one: str, other: str) -> bool:
    """Whether two dotted keys, each with a dot at its end, are the same or one is a part of the other."""
    return one.startswith(other) or other.startswith(one)


def _in_numbers(base: dict[str, Any]) -> dict[str, Any]:
    """The scenario with lengths written out: 4096 for ``4k``."""
    work = base.get("workload", {})
    read = {key: length_of(work[key]) for key in LENGTHS if key in work}
    lengths = {key: int(value) for key, value in read.items() if isinstance(value, float) and value.is_integer()}
    return {**base, "workload": {**work, **lengths}} if lengths else base


TIED = 10
"""Plans among which the fastest is looked for: a search puts the simplest of those first that it cannot tell apart."""
Restricted = Mapping[str, object]
"""Values that fields of a plan may have, by field: a list, or None for all that are valid."""


def fastest(scenario: Mapping[str, Any], fields: Restricted, progress: Progress) -> Profile:
    """Return the prediction of the fastest plan that fits.

    Args:
        scenario: A scenario of training as a mapping.
        fields: Fields of its plan that are searched.
        progress: Asked between searches whether to stop.

    Raises:
        InputError: every mistake in the scenario, or that no plan fits.
        Cancelled: somebody asked to stop.
    """
    found = fastest_if_any(scenario, fields, progress)
    if found is None:
        raise InputError(f"no plan for {name_of(scenario['model'])} fits on {name_of(scenario['cluster'])}")
    return found


def fastest_if_any(scenario: Mapping[str, Any], fields: Restricted | None, progress: Progress) -> Profile | None:
    """Return what `fastest` does, None where no plan fits; without ``fields``, of all that the plan leaves open."""
    progress.check()
    stated = {} if fields is None else fields
    within = {name: {"any": list(values)} for name, values in stated.items() if isinstance(values, list | tuple)}
    free = None if fields is None else [name for name, values in fields.items() if values is None]
    answer = plan({**scenario, "plan": {**scenario["plan"], **within}}, free=free, top=TIED, launchable=False)
    return min((found.profile for found in answer.plans), key=lambda one: float(one.step_time_s), default=None)


def possible_points(scenario: Asked, left: NDArray[np.bool_], count: Callable[[str, int], None]) -> NDArray[np.bool_]:
    """Return which of the points that are left break no rule of plans.

    Args:
        scenario: A scenario whose plan, workload and cluster hold arrays that broadcast.
        left: Points that are possible but for the rules, in the shape of all points.
        count: Is told of the others: a sentence, and of how many points it is the reason.
    """
    if isinstance(scenario, GenerationScenario):
        judged = verdict(scenario)
        for rule, broken_points in judged.rejected.items():
            count(_in_words(rule), broken_points)
        return np.asarray(left & judged.valid)
    if not isinstance(scenario, Scenario):
        return left
    for name, mask in masks_of(TRAINING_RULES, facts_of(scenario)):
        broken = left & ~mask
        if broken.any():
            count(_sentence(scenario, name, np.argwhere(broken)[0]), int(np.count_nonzero(broken)))
        left = left & mask
    return left


def _sentence(scenario: Scenario, rule: str, place: NDArray[np.intp]) -> str:
    """What a rule says of the first point that breaks it."""

    def at(value: Any) -> Any:
        if not isinstance(value, np.ndarray) or not value.ndim:
            return value
        one = value[tuple(int(i) if n > 1 else 0 for i, n in zip(place[-value.ndim :], value.shape, strict=True))]
        return int(one) if float(one) == int(one) else float(one)

    fields: dict[str, Any] = {name: at(getattr(scenario.plan, name)) for name in scenario.plan.__dataclass_fields__}
    work: dict[str, Any] = {name: at(getattr(scenario.workload, name)) for name in ("global_batch",)}
    one = replace(scenario, plan=replace(scenario.plan, **fields), workload=replace(scenario.workload, **work))
    said = next((str(broken) for broken in broken_by(one) if broken.rule == rule), "")
    return said or _in_words(rule)


def _in_words(rule: str) -> str:
    return f"the rule on {rule.replace('_', ' ')} is violated"

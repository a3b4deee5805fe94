"""The measured cases most similar to a scenario; their errors say most about its own."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import log
from typing import Any, Final, TypeAlias

from sightline.errors import SightlineError
from sightline.loading import load
from sightline.scenario import GenerationScenario, Scenario
from sightline.validation.cases import Answer, Case, Suite
from sightline.validation.evaluation import choose, evaluate

Asked: TypeAlias = Scenario | GenerationScenario
MOST: Final = 8
_OF_TIME: Final = ("step_time_s", "ttft_s", "tpot_s", "output_tokens_per_s")
"""Quantities of cases that say something about how fast a scenario is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """A similar case with its prediction."""

    suite: str
    quantity: str
    shares: tuple[str, ...]
    """What it has in common with the scenario: device, framework, or both."""
    answer: Answer


def nearest_cases(scenario: Asked, most: int = MOST) -> list[Near]:
    """Return cases of the same task with the scenario's device or framework, the most similar first.

    Those that share both come before those that share one, and among equals those whose model and number of devices are
    of about the same size.
    """
    kind = "generation" if isinstance(scenario, GenerationScenario) else "training"
    known = [
        known_case
        for suite in choose()
        if isinstance(suite, Suite) and suite.kind == kind
        for known_case in _known(suite)
    ]
    alike = [(one, _shared(one[2], scenario)) for one in known]
    found = sorted(
        ((*one, shares) for one, shares in alike if shares),
        key=lambda found: (-len(found[3]), _distance(found[2], scenario)),
    )
    return [_near(suite, case, shares) for suite, case, _, shares in found[:most]]


def _known(suite: Suite) -> Iterator[tuple[Suite, Case, Any]]:
    """The cases of a suite that are of times, each with its scenario."""
    if suite.quantity not in _OF_TIME:
        return
    for case, scenario in zip(suite.cases, _scenarios(suite.name), strict=True):
        if scenario is not None:
            yield suite, case, scenario


@cache
def _scenarios(name: str) -> tuple[Any, ...]:
    """The scenarios of a suite's cases; None for those that cannot be asked."""
    (suite,) = choose(name)
    return tuple(map(_scenario, suite.cases)) if isinstance(suite, Suite) else ()


def _scenario(case: Case) -> Any:
    try:
        return load(dict(case.scenario))
    except SightlineError:
        return None


def _shared(other: Any, scenario: Asked) -> tuple[str, ...]:
    same = {
        "device": other.cluster.device.name == scenario.cluster.device.name,
        "framework": _made_by(other) == _made_by(scenario),
    }
    return tuple(what for what, is_same in same.items() if is_same)


def _made_by(scenario: Any) -> str:
    """The name of what trains or generates."""
    made_by = scenario.plan.engine if isinstance(scenario, GenerationScenario) else scenario.plan.framework
    return str(made_by.name)


def _distance(other: Any, scenario: Asked) -> float:
    """How far the sizes of model and cluster are apart, as factors."""
    models = log(float(other.model.parameters) / float(scenario.model.parameters))
    devices = log(float(other.cluster.devices) / float(scenario.cluster.devices))
    return abs(models) + abs(devices)


def _near(suite: Suite, case: Case, shares: Sequence[str]) -> Near:
    (result,) = evaluate([replace(suite, cases=(case,))])
    return Near(suite=suite.name, quantity=suite.quantity, shares=tuple(shares), answer=result.answers[0])

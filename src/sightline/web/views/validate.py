"""Validate: how far to trust the prediction in the address, and predictions of published results suite by suite."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from sightline.errors import InputError
from sightline.web.downloads import result_files
from sightline.web.fields import TRAINING, groups
from sightline.web.request import Asked
from sightline.web.views import View

if TYPE_CHECKING:
    from sightline.render.html import Piece
    from sightline.web.jobs import Request

TASKS: Final = (*TRAINING, "generate")
SUITE: Final = "suite"
ALL: Final = "all"
"""The field: one suite, whose cases are shown too, or all of the catalog. Nothing is evaluated where it is empty."""


def answer(asked: Asked) -> "Piece":
    """Return how far to trust the prediction of the scenario: its interval, and the cases most like it."""
    from sightline.answers.validation import trust_outline
    from sightline.prediction import predict
    from sightline.render.html import outline_piece
    from sightline.scenario import GenerationScenario, Scenario
    from sightline.validation.nearest import nearest_cases

    scenario = asked.scenario()
    if not isinstance(scenario, Scenario | GenerationScenario):
        raise InputError(f"workload.task is {asked.option('workload.task')}; allowed here: {', '.join(TASKS)}")
    outline = trust_outline(predict(scenario), nearest_cases(scenario))
    return outline_piece(outline, level=3, title_level=2)


def job(asked: Asked) -> "Request | None":
    """Return the validation that is asked for, if any; raise `InputError` for a suite that there is none of."""
    from sightline.validation import choose
    from sightline.web.jobs import Request

    suite = asked.option(SUITE)
    if not suite:
        return None
    if suite == ALL:
        return Request(kind="validate", mapping={})
    try:
        choose(suite)
    except InputError as error:
        raise InputError([f"{SUITE}: {problem}" for problem in error.problems]) from None
    return Request(kind="validate", mapping={SUITE: suite})


def context(_: Asked) -> Mapping[str, Any]:
    """Return the suites to choose from, and the fields of the form."""
    from sightline.validation import choose

    return {"suites": sorted(suite.name for suite in choose()), "groups": groups(TASKS), "all": ALL}


VIEW: Final = View(
    name="validate",
    title="Validate",
    about="How far to trust a prediction: its interval, the measured cases most like it, and all suites of them.",
    answer=answer,
    job=job,
    context=context,
    routes=result_files(job, {"validation.json": None}),
    shares_scenario=True,
    tasks=TASKS,
)

"""Validate and Reproduce: the errors of our predictions of published results, and the findings of published studies."""

from collections.abc import Mapping
from typing import Any, Final

from sightline import catalog
from sightline.errors import prefixed
from sightline.progress import Progress
from sightline.render.html import outline_piece
from sightline.reproduction.reproduce import SOURCES, chosen_of
from sightline.web.jobs import Request
from sightline.web.request import Asked
from sightline.web.views import View, Work, found

SUITE: Final = "suite"
ALL: Final = "all"
"""The field: one suite, whose cases are shown too, or all of the catalog. Nothing is evaluated where it is empty."""


def validation_job(asked: Asked) -> Request | None:
    """Return the validation that is asked for, if any; raise `InputError` for a suite that there is none of."""
    from sightline.validation.evaluation import choose

    suite = asked.option(SUITE)
    if not suite:
        return None
    if suite == ALL:
        return Request(kind="validate", mapping={})
    with prefixed(f"{SUITE}: "):
        choose(suite)
    return Request(kind="validate", mapping={SUITE: suite})


def suites(asked: Asked) -> Mapping[str, Any]:
    """Return the suites to choose from."""
    from sightline.validation.evaluation import choose

    names = {name: name for name in sorted(suite.name for suite in choose())}
    choices = {"": "choose one", ALL: "all of the catalog", **names}
    return {
        "choosers": [(SUITE, "suite", choices, asked.option(SUITE))],
        "submit": "Validate the suite",
        "follows": True,
    }


def validated(mapping: Mapping[str, Any], _: Mapping[str, Any], progress: Progress) -> Mapping[str, Any]:
    """Return the errors of the suites; ``mapping`` is ``{suite: NAME}``, or empty for all of them."""
    from sightline.answers.validation import validation_outline
    from sightline.validation.cases import results_to_dict
    from sightline.validation.evaluation import choose, evaluate

    suite = mapping.get("suite")
    results = evaluate(choose(suite), progress=progress)
    piece = outline_piece(validation_outline(results, cases=suite is not None), title_level=2)
    return found(results_to_dict(results, cases=suite is not None), piece)


VALIDATE_WORK: Final = Work(validated)
VALIDATE: Final = View(
    name="validate",
    about="Suites of published results, each with our predictions and their errors.",
    job=validation_job,
    context=suites,
    files={"validation.json": "JSON"},
    is_further=True,
)


SOURCE: Final = "source"


def sources(asked: Asked) -> Mapping[str, Any]:
    """Return the sources to choose from."""
    titles = {name: f"{name}: {catalog.entry('findings', name)['title']}" for name in SOURCES}
    chooser = (SOURCE, "source", {"": "choose one", **titles}, asked.option(SOURCE))
    return {"choosers": [chooser], "submit": "Reproduce", "follows": True}


def reproduction_job(asked: Asked) -> Request | None:
    """Return the reproduction that is asked for, if any; raise `InputError` for a source that there is none of."""
    if not (source := asked.option(SOURCE)):
        return None
    chosen_of(source)
    return Request(kind="reproduce", mapping={SOURCE: source})


def reproduce_source(mapping: Mapping[str, Any], _: Mapping[str, Any], progress: Progress) -> Mapping[str, Any]:
    """Return the findings of ``{source: NAME}``, in the small form that takes a minute."""
    from sightline.answers.reproduction import reproduced_outline
    from sightline.reproduction.outcomes import reproduction_to_dict
    from sightline.reproduction.reproduce import reproduce

    answer = reproduce(mapping[SOURCE], small=True, progress=progress)
    return found(reproduction_to_dict(answer), outline_piece(reproduced_outline(answer), title_level=2))


REPRODUCE_WORK: Final = Work(reproduce_source)
REPRODUCE: Final = View(
    name="reproduce",
    about="Findings of published studies, with smaller loads; the command line computes them in full.",
    job=reproduction_job,
    context=sources,
    is_further=True,
)

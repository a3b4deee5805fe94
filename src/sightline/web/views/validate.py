"""Validate: how far to trust predictions, from those of published and measured results, suite by suite."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from sightline.web.asked import Asked
from sightline.web.results import result_files
from sightline.web.views import View

if TYPE_CHECKING:
    from sightline.web.jobs import Request

SUITE: Final = "suite"
"""The field: one suite, whose cases are shown too; all of the catalog where it is empty."""


def job(asked: Asked) -> "Request":
    """Return the validation that is asked for; raise `InputError` for a suite that there is none of."""
    from sightline.errors import InputError
    from sightline.validation import choose
    from sightline.web.jobs import Request

    if suite := asked.option(SUITE):
        try:
            choose(suite)
        except InputError as error:
            raise InputError([f"{SUITE}: {problem}" for problem in error.problems]) from None
    return Request(kind="validate", mapping={SUITE: suite} if suite else {})


def context(_: Asked) -> Mapping[str, Any]:
    """Return the suites to choose from."""
    from sightline.validation import choose

    return {"suites": sorted(suite.name for suite in choose())}


VIEW: Final = View(
    name="validate",
    title="Validate",
    about="How far to trust this: predictions against what others published and measured.",
    job=job,
    context=context,
    routes=result_files(job, {"validation.json": None}),
)

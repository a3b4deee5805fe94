"""All suites of measured operators that a data folder has tables for."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

from sightline.cost.families import SERVER_UNKNOWN, half_width_without
from sightline.validation.operators import families
from sightline.validation.operators.left_out import distance_of, part_of
from sightline.validation.operators.suite import Compared, OperatorSuite

GOAL = "median 20 %"
"""Of devices that are predicted as if they had never been measured."""
DECISION = (
    "The device is predicted as if nobody had measured it or another of its architecture (of collectives: of links of"
    " its generation): with constants of the most similar device, or of all other devices, fitted without their tables,"
    " and without a residual surface."
)
SIBLING_DECISION = (
    "The device is predicted as if nobody had measured it, but another of its architecture (of collectives: with links"
    " of its generation): with constants fitted without its table, and without a residual surface."
)
NAME, SIBLING_NAME = "never fitted", "sibling fitted"


def operator_suites(data: Path | str | None) -> tuple[OperatorSuite, ...]:
    """Return the suites of operators; none without a data folder."""
    return () if data is None else (*_fitted_suites(Path(data)), *never_fitted_suites(Path(data)))


def _fitted_suites(data: Path) -> Iterator[OperatorSuite]:
    """Yield the suites of constants that were fitted, with the parts of their tables that were held out."""
    return chain(
        families.matmul_suites(data),
        families.grouped_suites(data),
        families.chart_suites(data),
        families.attention_suites(data),
        families.elementwise_suites(data),
        families.collective_suites(data),
    )


def never_fitted_suites(data: Path) -> Iterator[OperatorSuite]:
    """Yield a suite for every measured family and kind of operator, predicted without its own measurements."""
    for fitted in chain(
        families.matmul_suites(data),
        families.attention_suites(data),
        families.elementwise_suites(data),
        families.grouped_suites(data),
    ):
        if fitted.unseen is not None:
            if fitted.others:
                yield _left_out(fitted.name, fitted.source, partial(fitted.unseen, "others"))
            if fitted.siblings:
                yield _left_out(fitted.name, fitted.source, partial(fitted.unseen, "siblings"), siblings=True)
    for name, source, compare in families.unmeasured(data):
        yield _left_out(name, source, compare)
    for siblings in (False, True):
        for name, compare, decisions in families.never_fitted(data, siblings=siblings):
            suite = _left_out(name, families.NCCL_SOURCE, compare, *decisions, siblings=siblings)
            yield suite if decisions else _with_width(replace(suite, name=f"{suite.name}, {SERVER_UNKNOWN}", goal=""))


def _left_out(
    name: str, source: str, compare: Callable[[], Compared], *decisions: str, siblings: bool = False
) -> OperatorSuite:
    return _with_width(
        OperatorSuite(
            name=f"{name} {SIBLING_NAME if siblings else NAME}",
            source=source,
            decisions=(SIBLING_DECISION if siblings else DECISION, *decisions),
            compare=lambda: {"test": compare()},
            goal=GOAL,
        )
    )


def _with_width(suite: OperatorSuite) -> OperatorSuite:
    """The suite with intervals as wide as the errors of the other devices left out."""
    width = half_width_without(part_of(suite.name), distance_of(suite.name), suite.name)
    return replace(suite, half_width=width)

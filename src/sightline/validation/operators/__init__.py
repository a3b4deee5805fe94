"""All suites of measured operators that a data folder has tables for."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

from sightline.validation.operators import collectives, kernels, matmul
from sightline.validation.operators.suite import Compared, OperatorSuite

GOAL = "median 15 %"
"""Of devices that are predicted as if they had never been measured."""
DECISION = (
    "The device is predicted as if nobody had measured it: with constants of the most similar device, or of all other"
    " devices, fitted without its table, and without a residual surface."
)
NAME = "never fitted"


def operator_suites(data: Path | str | None) -> tuple[OperatorSuite, ...]:
    """Return the suites of operators; none without a data folder."""
    return () if data is None else (*_fitted_suites(Path(data)), *never_fitted_suites(Path(data)))


def _fitted_suites(data: Path) -> Iterator[OperatorSuite]:
    """Yield the suites of constants that were fitted, with the parts of their tables that were held out."""
    return chain(
        matmul.matmul_suites(data),
        kernels.grouped_suites(data),
        kernels.chart_suites(data),
        kernels.attention_suites(data),
        kernels.elementwise_suites(data),
        collectives.collective_suites(data),
    )


def never_fitted_suites(data: Path) -> Iterator[OperatorSuite]:
    """Yield a suite for every measured family and kind of operator, predicted without its own measurements."""
    for fitted in chain(
        matmul.matmul_suites(data),
        kernels.attention_suites(data),
        kernels.elementwise_suites(data),
        kernels.grouped_suites(data),
    ):
        if fitted.unseen is not None:
            yield _never_fitted(fitted.name, fitted.source, fitted.unseen)
    for name, compare, decisions in collectives.never_fitted(data):
        suite = _never_fitted(name, collectives.NCCL_SOURCE, compare, *decisions)
        yield suite if decisions else replace(suite, name=f"{suite.name}, server unknown", goal="")


def _never_fitted(name: str, source: str, compare: Callable[[], Compared], *decisions: str) -> OperatorSuite:
    return OperatorSuite(
        name=f"{name} {NAME}",
        source=source,
        decisions=(DECISION, *decisions),
        compare=lambda: {"test": compare()},
        goal=GOAL,
    )

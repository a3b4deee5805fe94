"""All suites of measured operators that a data folder has tables for."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from sightline.validation.operators.collectives import collective_suites
from sightline.validation.operators.fitted import fitted_suites
from sightline.validation.operators.never_fitted import never_fitted_suites
from sightline.validation.operators.suite import OperatorSuite

PARTS: Sequence[Callable[[Path], Iterator[OperatorSuite]]] = (fitted_suites, collective_suites, never_fitted_suites)


def operator_suites(data: Path | str | None) -> tuple[OperatorSuite, ...]:
    """Return the suites of operators; none without a data folder."""
    return () if data is None else tuple(suite for part in PARTS for suite in part(Path(data)))

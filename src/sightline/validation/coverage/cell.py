"""One cell of the coverage: what a prediction of a combination rests on, or why there is none."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from sightline.errors import InputError
from sightline.loading import load
from sightline.prediction.evidence import not_calibrated

Status = Literal["calibrated", "extrapolated", "datasheet-only", "unsupported"]
STATUSES: tuple[Status, ...] = get_args(Status)
Table = Literal["operators", "techniques", "features"]
TABLES: tuple[Table, ...] = get_args(Table)
Question: TypeAlias = Mapping[str, Any]
"""A scenario, as a file would hold it."""

_STATUS_OF: Mapping[str, Status] = {
    "calibrated": "calibrated",
    "extrapolated": "extrapolated",
    "estimated": "extrapolated",
    "datasheet": "datasheet-only",
}
"""By the evidence of a prediction; constants that somebody estimated are no fit to the case either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Published measurements that use a technique or a feature under a framework or an engine."""

    cases: int = 0
    sources: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A combination and what a prediction of it says."""

    table: Table
    of: str
    """The device, framework or engine."""
    what: str
    """The operator, technique or feature."""
    dtype: str = ""
    """Of operators."""
    status: Status
    evidence: str = ""
    """As the prediction states it; empty where it is refused."""
    why: str = ""
    """The refusal, or what keeps the cell from being calibrated."""
    published: Published | None = None
    """None of operators, whose tables are not of scenarios."""
    question: Question
    """The scenario whose answer this is."""


def cell(
    table: Table,
    of: str,
    what: str,
    question: Question,
    answer: Callable[[Any], tuple[str, str]],
    *,
    dtype: str = "",
    published: Published | None = None,
) -> Cell:
    """Return the cell of a question; ``answer`` predicts it and returns the evidence and what it lacks.

    A technique that too few published measurements of the framework use is extrapolated at best.
    """
    status: Status = "unsupported"
    try:
        evidence, why = answer(load(question))
    except InputError as refusal:
        evidence, why = "", " ".join(refusal.problems)
    else:
        status = _STATUS_OF[evidence]
    if status == "calibrated" and published is not None:
        why = not_calibrated(published.cases, published.sources, "case", f"{of} with {what}")
        status = "extrapolated" if why else status
    return Cell(
        table=table,
        of=of,
        what=what,
        dtype=dtype,
        status=status,
        evidence=evidence,
        why=why,
        published=published,
        question=question,
    )

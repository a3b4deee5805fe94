"""Error statistics of a suite's split."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

from sightline.validation.suite import Case, Split


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A case and what was predicted for it, or why nothing was."""

    case: Case
    predicted: float | None = None
    interval: tuple[float, float] | None = None
    reason: str = ""

    @property
    def error(self) -> float:
        """Return predicted / measured - 1; only for an answered case."""
        if self.predicted is None:
            raise ValueError(f"an unanswered case has no error: {self.reason}")
        return self.predicted / self.case.measured - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How well one split of a suite is predicted; errors are fractions of the measured value."""

    suite: str
    quantity: str
    split: Split
    cases: int
    unanswered: int
    mape: float | None
    """Mean absolute error, relative to the measured value; None when no case was answered."""
    median_ape: float | None
    max_ape: float | None
    bias: float | None
    """Mean error; positive when predictions are larger than measurements."""
    coverage: float | None
    """Part of the predicted intervals that hold the measured value; None without intervals."""
    answers: tuple[Answer, ...] = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the documented result keys."""
        keys = (
            "suite",
            "quantity",
            "split",
            "cases",
            "unanswered",
            "mape",
            "median_ape",
            "max_ape",
            "bias",
            "coverage",
        )
        return {key: getattr(self, key) for key in keys}


def result_of(suite: str, quantity: str, split: Split, answers: Sequence[Answer]) -> Result:
    """Return the statistics of the answers of one split."""
    answered = [a for a in answers if a.predicted is not None]
    errors = [a.error for a in answered]
    sizes = [abs(e) for e in errors]
    inside = [low <= a.case.measured <= high for a in answered if a.interval for low, high in [a.interval]]
    return Result(
        suite=suite,
        quantity=quantity,
        split=split,
        cases=len(answers),
        unanswered=len(answers) - len(answered),
        mape=fmean(sizes) if sizes else None,
        median_ape=median(sizes) if sizes else None,
        max_ape=max(sizes, default=None),
        bias=fmean(errors) if errors else None,
        coverage=fmean(inside) if inside else None,
        answers=tuple(answers),
    )

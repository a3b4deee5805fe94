"""What a suite of measurements is: cases, each a scenario with a measured value, fit or test.

Its errors have statistics here, too.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from hashlib import sha256
from statistics import fmean
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.error_figures import typical_half_width
from sightline.loading.loader import by_reason
from sightline.profile.results import stamped

Split = Literal["fit", "test", "left-out", "own"]
"""Of a suite's rows; ``left-out`` are a source's rows, both parts, as predicted without the source; ``own`` are those
of a user's file."""
Kind = Literal["training", "generation", "serving", "operators"]

SPLIT_SEED = 186
"""Chosen, before any error was looked at, so that every training suite falls about half and half. Never to be
changed. A suite with few families states a seed of its own, chosen for its balance and as blindly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One measurement."""

    scenario: Mapping[str, Any]
    """As a scenario file would hold it."""
    measured: float
    """In SI units, of the suite's quantity."""
    split: Split
    baseline: Mapping[str, Any] | None = None
    """The scenario that a relative quantity is divided by."""
    alternative: Mapping[str, Any] | None = None
    """Another scenario that may have been run: the source does not tell them apart, and an interval spans both."""
    stage: int = 0
    """The pipeline stage it was measured on, where the quantity is one stage's; -1 is the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """The measurements of one source, with the decisions made to read them."""

    name: str
    kind: Kind = "training"
    quantity: str
    source: str
    decisions: tuple[str, ...]
    cases: tuple[Case, ...]
    left_out: Mapping[str, int]
    """Rows of the source that are not cases: reason to number."""
    site: str = ""
    """The series of measurements: what one team measured on its cluster, with its software, may be several suites."""
    goal: str = ""
    """What the project set itself for the test part, in words."""
    locked: bool = False
    """No estimate, goal or gate sees it: a source that tells whether the others' errors hold elsewhere."""


def publisher(source: str) -> str:
    """Return who measured: the repository that a source begins with, or the words before the first comma."""
    named = re.match(r"[\w.-]+/[\w.-]+", source)
    return named[0] if named else re.split(r"[,;(]", source)[0].strip()


def split_of(*family: object, seed: int = SPLIT_SEED) -> Literal["fit", "test"]:
    """Return the part that all measurements of a family belong to: those that share all of these values.

    By hash, so it is fixed, and by family rather than by row, so no neighbour of a test case is ever fitted on. The
    family of a training measurement is its model's shape and its number of devices.
    """
    return "test" if digest(family, seed) % 2 else "fit"


def digest(family: Sequence[object], seed: int = SPLIT_SEED) -> int:
    """Return a number from 0 to 255 that depends on nothing but these values."""
    return sha256(f"sightline-{seed}:{'-'.join(str(value) for value in family)}".encode()).digest()[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A case with its prediction, or the reason why there is none."""

    case: Case
    predicted: float | None = None
    interval: tuple[float, float] | None = None
    fit: str = ""
    """Whether the prediction fits in memory: yes, tight or no; empty where nothing is predicted of it."""
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
    kind: Kind = "training"
    quantity: str
    split: Split
    cases: int
    unanswered: int
    mape: float | None
    """Mean absolute error, relative to the measured value; None when no case was answered."""
    median_ape: float | None
    p90_ape: float | None
    """Nine in ten absolute errors are smaller."""
    max_ape: float | None
    bias: float | None
    """Mean error; positive when predictions are larger than measurements."""
    coverage: float | None
    """Part of the predicted intervals that hold the measured value; None without intervals."""
    answers: tuple[Answer, ...] = field(repr=False)
    """All cases; of operators, whose tables have thousands, some of them."""

    @property
    def half_width(self) -> float | None:
        """Return the median half-width of the intervals, as a fraction; None without intervals."""
        known = [answer.interval for answer in self.answers if answer.interval is not None]
        return typical_half_width([np.log(high / low) / 2 for low, high in known]) if known else None

    def to_dict(self) -> dict[str, Any]:
        """Return the documented result keys."""
        figures = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("kind", "answers")}
        return {**figures, "half_width": self.half_width}


def figures_of(errors: Sequence[float] | NDArray[np.float64]) -> dict[str, Any]:
    """Return the statistics of signed relative errors; None where there are none."""
    if not len(errors):
        return dict.fromkeys(("mape", "median_ape", "p90_ape", "max_ape", "bias"))
    signed = np.asarray(errors, dtype=float)
    sizes = np.abs(signed)
    figures = {"mape": sizes.mean(), "median_ape": np.median(sizes), "p90_ape": np.quantile(sizes, 0.9)}
    return {name: float(value) for name, value in (figures | {"max_ape": sizes.max(), "bias": signed.mean()}).items()}


def result_of(suite: str, quantity: str, split: Split, answers: Sequence[Answer], kind: Kind = "training") -> Result:
    """Return the statistics of the answers of one split."""
    answered = [a for a in answers if a.predicted is not None]
    inside = [low <= a.case.measured <= high for a in answered if a.interval for low, high in [a.interval]]
    return Result(
        suite=suite,
        kind=kind,
        quantity=quantity,
        split=split,
        cases=len(answers),
        unanswered=len(answers) - len(answered),
        **figures_of([a.error for a in answered]),
        coverage=fmean(inside) if inside else None,
        answers=tuple(answers),
    )


def results_by_split(suite: str, quantity: str, answers: Sequence[Answer], kind: Kind = "training") -> list[Result]:
    """Return the statistics of the answers of each split that has any."""
    by_split = {split: [a for a in answers if a.case.split == split] for split in get_args(Split)}
    return [result_of(suite, quantity, split, part, kind) for split, part in by_split.items() if part]


def results_to_dict(results: Sequence[Result], *, cases: bool = False) -> dict[str, Any]:
    """Return the results under the documented keys, with the cases without an answer by reason.

    ``cases`` adds every case.
    """
    suites = [
        {
            **result.to_dict(),
            "reasons": by_reason(of.reason for of in result.answers if of.predicted is None),
            **({"answers": [_answer_to_dict(of) for of in result.answers]} if cases else {}),
        }
        for result in results
    ]
    return stamped({"suites": suites})


def _answer_to_dict(answer: Answer) -> dict[str, Any]:
    case, predicted = answer.case, answer.predicted
    figures = {"scenario": case.scenario, "measured": case.measured, "predicted": predicted}
    return {**figures, "error": None if predicted is None else answer.error, "reason": answer.reason}

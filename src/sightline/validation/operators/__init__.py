"""A suite of measured operators: a table of thousands of times that is predicted at once, as arrays."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.error_figures import covered
from sightline.validation.cases import Answer, Case, Result, Split, figures_of, result_of

Array = NDArray[np.float64]
Known = Literal["itself", "siblings", "others"]
"""Whose measurements a prediction rests on: the device's own, those of its architecture, or others' alone."""

SHOWN = 200
"""Measurements of a part that are listed and drawn, evenly over the part; its figures are those of all of them."""

INTERVAL = 0.8
"""Part of the fitted measurements that lies within the interval of a table's predictions."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compared:
    """One part of a table: predicted and measured seconds of every row."""

    predicted: Array
    measured: Array
    sizes: Mapping[str, Array]
    """What tells a row from the others, by name."""
    unseen: Array | None = None
    """Logarithmic errors that rows of a fitted part have when they are left out of the fit, which intervals are as wide
    as; None where being fitted makes no difference."""

    def label(self, row: int) -> str:
        """Return the sizes of a row."""
        return " ".join(f"{name} {values[row]:g}" for name, values in self.sizes.items())


def joined(parts: Sequence[Compared]) -> Compared:
    """Return the rows of several comparisons with the same sizes."""
    return Compared(
        predicted=np.concatenate([part.predicted for part in parts]),
        measured=np.concatenate([part.measured for part in parts]),
        sizes={name: np.concatenate([part.sizes[name] for part in parts]) for name in parts[0].sizes},
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OperatorSuite:
    """Times of one kind of operator on one device family, with the decisions made to read them."""

    name: str
    source: str
    decisions: tuple[str, ...]
    compare: Callable[[], Mapping[Split, Compared]] = field(repr=False)
    """Reads the table and predicts it."""
    goal: str = ""
    quantity: str = "time_s"
    half_width: float | None = None
    """Half the width of the intervals, in logarithms, where the fitted part's errors do not tell it."""
    unseen: Callable[[Known], Compared] | None = field(default=None, repr=False)
    """The same as if the device had never been measured; None where nobody asks."""
    siblings: bool = False
    """Whether other devices of the architecture were measured, too."""
    others: bool = True
    """Whether devices of other architectures were."""


def predicted_twice(
    name: str,
    source: str,
    decisions: tuple[str, ...],
    compare: Callable[[Known], Compared],
    goal: str = "",
    *,
    siblings: bool = False,
    others: bool = True,
) -> OperatorSuite:
    """Return the suite of constants that were fitted to a table, which ``compare`` may also leave out."""
    return OperatorSuite(
        name=name,
        source=source,
        decisions=decisions,
        compare=lambda: {"fit": compare("itself")},
        goal=goal,
        unseen=compare,
        siblings=siblings,
        others=others,
    )


def results_of(suite: OperatorSuite) -> list[Result]:
    """Return the errors of the suite's parts.

    Intervals are as wide as the fitted part's errors, of rows left out if known.

    Of the part that the width is taken from, and without a fitted one, how many values lie inside would say nothing.
    """
    parts = {split: part for split, part in suite.compare().items() if len(part.measured)}
    width = _width(parts["fit"]) if "fit" in parts else suite.half_width
    return [_result(suite, split, part, width) for split, part in parts.items()]


def _width(part: Compared) -> float:
    """Half the width of the intervals, in logarithms."""
    errors = np.log(part.predicted / part.measured) if part.unseen is None else part.unseen
    return float(np.quantile(np.abs(errors), INTERVAL))


def _result(suite: OperatorSuite, split: Split, part: Compared, width: float | None) -> Result:
    """The errors of all rows of a part, and some of its rows."""
    shown = np.unique(np.linspace(0, len(part.measured) - 1, SHOWN).astype(int))
    answers = [_answer(part, int(row), split, width) for row in shown]
    return replace(
        result_of(suite.name, suite.quantity, split, answers, "operators"),
        cases=len(part.measured),
        coverage=None if width is None or split == "fit" else covered(np.log(part.predicted / part.measured), width),
        **figures_of(part.predicted / part.measured - 1),
    )


def _answer(part: Compared, row: int, split: Split, width: float | None) -> Answer:
    predicted = float(part.predicted[row])
    case = Case(scenario={"name": part.label(row)}, measured=float(part.measured[row]), split=split)
    interval = None if width is None else (predicted * np.exp(-width), predicted * np.exp(width))
    return Answer(case=case, predicted=predicted, interval=interval)

"""What a study found, and lines of it: the results along one axis, all others at their first value."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.exploration.answer import View
from sightline.exploration.own.asked.axes import Axis
from sightline.exploration.own.asked.file import StudyFile
from sightline.exploration.own.asked.reports import THROUGHPUT
from sightline.exploration.own.points.table import Part
from sightline.exploration.own.told.words import name_of, value_of
from sightline.profile import task_of
from sightline.profile.metrics import Task


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """A study's points."""

    study: StudyFile
    axes: Sequence[Axis]
    """In the order of the table's columns."""
    views: Sequence[View]
    parts: Sequence[Part]
    columns: Mapping[str, NDArray[Any]]
    reasons: Mapping[str, int]
    """Why points are not there, with their counts."""
    bases: Mapping[View, Any]
    """The first scenario of each view."""
    stopped: bool = False
    """Whether somebody stopped the study, perhaps at its end."""

    @property
    def points(self) -> int:
        """Rows of the table."""
        return len(next(iter(self.columns.values())))

    @property
    def whole(self) -> int:
        """Rows of the table of a study that nobody stops."""
        return self.study.points * len(self.views)

    @property
    def is_part(self) -> bool:
        """Whether points are missing because the study was stopped."""
        return self.stopped and self.points < self.whole

    @property
    def task(self) -> Task:
        """The task of all scenarios."""
        task = task_of(self.study.task)
        if task is None:
            raise TypeError(f"no profile answers the task {self.study.task}")
        return task

    @property
    def headline(self) -> str:
        """The time that readers compare first: the first that is reported, else the whole."""
        known = self.task.figures
        times = [key for key in self.study.report if key in known and known[key].unit == "s"]
        return next((key for key in times if key in self.task.times), next(iter(times), self.task.whole))

    @property
    def rate(self) -> str:
        """Work per second, by which points are better or worse; empty for a single operator."""
        return THROUGHPUT.get(self.task.name, "")

    @property
    def has_views(self) -> bool:
        """Whether rows differ in the view of devices."""
        return len(self.views) > 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Line:
    """Results along one axis of numbers."""

    view: View
    axis: Axis
    values: Sequence[float]
    """In SI units."""
    part: Part
    place: tuple[Any, ...]
    """Where the line lies among the part's points."""

    def of(self, key: str) -> NDArray[Any]:
        """Return a result along the line; NaN where a point is none or does not fit."""
        points = self.part.points
        if points is None:
            return np.full(len(self.values), np.nan)
        column = points.columns[key][self.place]
        return np.where(points.possible[self.place], column, np.nan) if column.dtype.kind == "f" else column

    @property
    def where(self) -> str:
        """The values of the other axes, in words; without those of the base itself."""
        others = [axis for axis in self.part_axes if axis.key != self.axis.key and not _is_base(axis)]
        return ", ".join(f"{name_of(axis.key)} {value_of(axis, axis.values[0])}" for axis in others)

    part_axes: Sequence[Axis] = ()
    """All axes of the study, those that are no numbers with the part's value."""


def _is_base(axis: Axis) -> bool:
    return axis.is_multiple and axis.values[0] == 1.0


def change_of(values: NDArray[Any]) -> float:
    """Return by which share results along a line change at most."""
    known = values[~np.isnan(values)]
    return float(known.max() / known.min() - 1.0) if len(known) and known.min() > 0 else 0.0


def lines(found: Found) -> Iterator[Line]:
    """Yield a line for each view and axis of numbers with several values, in the first cell that has points."""
    for view in found.views:
        of_view = (one for one in found.parts if one.view == view)
        part = next((one for one in of_view if one.points is not None and one.points.done.any()), None)
        if part is None:
            continue
        own = [
            axis if axis.number is not None else Axis(key=axis.key, values=(part.values[axis.key],))
            for axis in found.axes
        ]
        numbers = [axis for axis in own if axis.number is not None]
        for i, axis in enumerate(numbers):
            if len(axis.values) > 1:
                place = tuple(slice(None) if i == j else 0 for j in range(len(numbers)))
                values = part.numbers[axis.key]
                yield Line(view=view, axis=axis, values=values, part=part, place=place, part_axes=own)

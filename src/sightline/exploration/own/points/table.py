"""The table of a study: the points of all cells and views below each other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.exploration.answer import View
from sightline.exploration.own.asked.axes import Axis
from sightline.exploration.own.asked.reports import BOUND, level_names
from sightline.exploration.own.points.mesh import Points
from sightline.exploration.own.points.technology import Devices

Column = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """The points of one cell in one view."""

    view: View
    values: Mapping[str, Any]
    """Of each axis that is no number."""
    numbers: Mapping[str, Sequence[float]]
    """Of each that is, in SI units, in the order of the points' dimensions."""
    points: Points | None
    """None where the cell cannot be."""
    devices: Devices | None = None
    """Those that are made of technology at every point; None without any, and where they are searched."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes that are numbers."""
        return tuple(map(len, self.numbers.values()))


def columns_of(
    parts: Sequence[Part], axes: Sequence[Axis], keys: Sequence[str], *, has_views: bool
) -> dict[str, Column]:
    """Return the table of all points that were worked out: views, axes, plans that were searched, results, verdicts."""
    searched = ("plan.", "cluster.")
    names = [name for part in parts if part.points for name in part.points.columns]
    plans = dict.fromkeys(name for name in names if name.startswith(searched))
    axis_keys = [axis.key for axis in axes]
    has_memory = any(part.points is not None and "fits" in part.points.columns for part in parts)
    names = [*plans, *keys, *(["fits"] if has_memory else []), BOUND]
    columns = {"view": [np.full(_count(part), part.view) for part in parts]} if has_views else {}
    columns |= {key: [_axis(part, key) for part in parts] for key in axis_keys}
    columns |= {name: [_result(part, name) for part in parts] for name in names if name not in axis_keys}
    table = {name: _joined(pieces) for name, pieces in columns.items()}
    table |= {name: _whole(name, table[name]) for name in plans}
    return table | ({"fits": _verdicts(table["fits"])} if has_memory else {})


def _done(part: Part) -> NDArray[np.bool_]:
    return np.ones(part.shape, dtype=bool).ravel() if part.points is None else part.points.done.ravel()


def _count(part: Part) -> int:
    return int(np.count_nonzero(_done(part)))


def _axis(part: Part, key: str) -> Column:
    """A value of an axis for every point of a part."""
    done = _done(part)
    if key in part.values:
        out = np.empty(int(np.count_nonzero(done)), dtype=object)
        out[:] = [part.values[key]] * len(out)
        return out
    dimension = list(part.numbers).index(key)
    values = np.asarray(part.numbers[key])
    along = values.reshape([-1 if i == dimension else 1 for i in range(len(part.shape))])
    return np.broadcast_to(along, part.shape).ravel()[done]


def _result(part: Part, name: str) -> Column:
    """A result of every point; NaN, or no word, where a cell has none."""
    done = _done(part)
    column = None if part.points is None else part.points.columns.get(name)
    if column is None:
        return np.full(int(np.count_nonzero(done)), "" if name == BOUND else np.nan)
    found = column.ravel() if done.all() else column.ravel()[done]
    return level_names(found) if name == BOUND else found


def _joined(pieces: Sequence[Column]) -> Column:
    """Columns below each other: of words where one has words."""
    if len(pieces) == 1:
        return pieces[0] if pieces[0].dtype.kind != "O" else _plain(pieces[0])
    if any(piece.dtype.kind == "U" for piece in pieces):
        pieces = [piece if piece.dtype.kind in "UO" else np.full(len(piece), "") for piece in pieces]
    return _plain(np.concatenate(pieces))


def _plain(column: Column) -> Column:
    """A column of objects as numbers or words where all of them are."""
    if column.dtype.kind != "O" or not len(column):
        return column
    kinds = {type(one) for one in column}
    if kinds <= {str}:
        return column.astype(str)
    return column.astype(float) if float in kinds and kinds <= {int, float} else column


def _whole(name: str, column: Column) -> Column:
    """A field of plans as whole numbers, or true and false, where all rows have one."""
    if column.dtype.kind != "f" or np.isnan(column).any() or (column % 1).any():
        return column
    return column.astype(bool) if name == "plan.sequence_parallel" else column.astype(int)


def _verdicts(fits: Column) -> Column:
    """Whether points fit as true and false; None where a point is none."""
    unknown = np.isnan(fits)
    if not unknown.any():
        return fits.astype(bool)
    out: Column = (fits == 1.0).astype(object)
    out[unknown] = None
    return out

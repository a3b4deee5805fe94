"""Names of rows or columns of bars and maps: where they stand, and how much room they take."""

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import altair as alt

from sightline.report.charts.drawing import Room
from sightline.report.charts.studies.data import CHARACTER

LINE = 13
"""Pixels of a line of a name."""
_GAP = 12


@dataclass(frozen=True, kw_only=True)
class Names:
    """The names of rows, in the lines that they have room for."""

    lines: dict[str, str]
    """Each name in its lines."""
    width: float
    """Pixels of the longest line."""

    @property
    def height(self) -> float:
        """Pixels that the name of a row needs."""
        return LINE * max((text.count("\n") + 1 for text in self.lines.values()), default=1) + 7

    def axis(self, *, shown: bool = True) -> Any:
        """Return the axis with these names, or with none."""
        if not shown:
            return alt.Axis(labels=False, grid=False)
        # A label of several lines begins at the middle of its row, if it is not raised.
        raised = {
            "condition": [
                {"test": f"split(datum.label, '\\n').length === {count}", "value": -LINE / 2 * (count - 1)}
                for count in (2, 3, 4)
            ],
            "value": 0,
        }
        several = any("\n" in text for text in self.lines.values())
        style: dict[str, Any] = {"labelOffset": raised, "labelLineHeight": LINE} if several else {}
        return alt.Axis(grid=False, labelLimit=self.width + 20, labelOverlap=False, labelFontSize=11, **style)


def names_of(words: Sequence[str], room: Room) -> Names:
    """Return the names of rows, folded to what the room has for labels."""
    most = int((room.labels + (30 if room.side_by_side else 0)) / CHARACTER)
    lines = {
        word: "\n".join(wrap(word, most, break_on_hyphens=max(map(len, word.split()), default=0) > most) or [word])
        for word in words
    }
    longest = max((len(line) for text in lines.values() for line in text.split("\n")), default=0)
    return Names(lines=lines, width=longest * CHARACTER * 0.95 + _GAP)

"""Colors of a study's figures: levels have the same in all, phases and parts of memory those of other charts."""

from collections.abc import Sequence

from sightline.profile import LEVELS
from sightline.report.charts import drawing

LEVEL_COLORS = {
    "compute": "#174a8c",
    "dram": "#eeb41e",
    "l2": "#179e5f",
    "network": "#c4281f",
    "host": "#d4d4d4",
}
"""Colors of levels, which differ in hue and in lightness, for the color-blind and for print in grey."""
_PARTS = {**drawing.MEMORY_COLORS, **drawing.PHASE_COLORS, **LEVEL_COLORS}
_ALIKE = {
    "memory": "dram",
    "kv": "kv_cache",
    "communication_exposed": "communication",
    "bubble": "pipeline_bubble",
    "exposed": "communication_exposed",
}
"""Parts that have the color of another one."""
_FILLING = ("share", "time", "s", "bytes", "energy", "j", "cost", "usd", "fraction", "seconds", "exposed")
"""Words of a column's name that do not say which part it holds."""
DASHES: tuple[list[int], ...] = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
"""Dashes of lines, in the order in which they are taken."""
LIGHT_TEXT, DARK_TEXT = "#fefefe", "#111111"
"""Text on a color; unlike ink and white they stay as they are where the screen is dark."""
_DARK_GROUNDS = frozenset(("#174a8c", "#179e5f", "#c4281f", "#9a6096", "#d4570c", "#7d7d7d", "#8c564b"))


def part_of(column: str) -> str:
    """Return which part of a whole a column holds: the level, the phase or the part of memory in its name."""
    key = column.rpartition(".")[2]
    if key in _PARTS:
        return key
    words = key.split("_")
    while len(words) > 1 and words[-1] in _FILLING:
        words.pop()
    while len(words) > 1 and words[0] in _FILLING:
        words.pop(0)
    return "_".join(words)


def colors_of(keys: Sequence[str]) -> list[str]:
    """Return a color for each of several parts, levels or lines.

    Where all are parts that have a color everywhere, each gets it; else they get those of lines, in order.
    """
    known = [_PARTS.get(_ALIKE.get(key, key), _PARTS.get(key, "")) for key in keys]
    if all(known) and len(set(known)) == len(known):
        return known
    return [drawing.LINES[position % len(drawing.LINES)] for position in range(len(keys))]


def dashes_of(count: int) -> list[list[int]]:
    """Return a dash for each of ``count`` lines: another one where colors begin again."""
    return [DASHES[(position // len(drawing.LINES)) % len(DASHES)] for position in range(count)]


def in_order(keys: Sequence[str]) -> list[str]:
    """Return keys in the order of levels where they are levels, else as they are."""
    return sorted(keys, key=LEVELS.index) if set(keys) <= set(LEVELS) else list(keys)


def text_on(color: str) -> str:
    """Return the color of a text on another color."""
    return LIGHT_TEXT if color in _DARK_GROUNDS else DARK_TEXT

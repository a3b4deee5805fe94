"""What tells several answers apart in tables: a column for each swept key, in the form in which values were typed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sightline.profile import Profile
from sightline.report import labels

NAMED = ("scenario", "operator")
"""Headings of names."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Label:
    """The values of one swept key, or the names of scenarios."""

    heading: str
    """The last part of the key, or all of it where two end alike."""
    cells: Sequence[str]
    is_number: bool
    """Whether all values are plain numbers."""


def told_apart(profiles: Sequence[Profile], cells: Sequence[Mapping[str, Any]] = ()) -> list[Label]:
    """Return a column for each key that was swept, and the scenario's name where names differ or nothing was swept.

    ``cells`` has the values of swept keys of every profile.
    """
    scenarios = [profile.scenario for profile in profiles]
    heading = NAMED[0] if profiles[0].phases else NAMED[1]
    keys = list(dict.fromkeys(key for cell in cells for key in cell))
    if not keys:
        return [Label(heading=heading, cells=labels.variant_labels(scenarios), is_number=False)]
    names = list(map(labels.title, scenarios))
    is_named = all(scenario.name for scenario in scenarios) and len({*names}) > 1
    swept = [_of_key(key, keys, [cell.get(key) for cell in cells]) for key in keys]
    return [*([Label(heading=heading, cells=names, is_number=False)] if is_named else []), *swept]


def _of_key(key: str, keys: Sequence[str], values: Sequence[Any]) -> Label:
    last = key.rpartition(".")[2]
    alone = [other.rpartition(".")[2] for other in keys].count(last) == 1
    return Label(
        heading=(last if alone else key.replace(".", " ")).replace("_", " "),
        cells=list(map(_typed, values)),
        is_number=all(isinstance(value, int | float) and not isinstance(value, bool) for value in values),
    )


def _typed(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}".replace("e+", "e")
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_typed(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return " + ".join(map(_typed, value)) or "none"
    return str(value)

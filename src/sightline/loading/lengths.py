"""Lengths that are stated as a number, a list, a file or a distribution."""

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

from sightline.loading.checks import Checked, Complaints, check, each, require
from sightline.loading.sources import check_file, stated_path
from sightline.quantities import COUNT, Dimension, show
from sightline.scenario.lengths import Lengths
from sightline.validators import Keys, Needed, anything, choice, length_of, quantity, text

_ABOVE, _DEVIATION = "{of}, a number above 0", "standard deviation in {of}; or cv, which divides it by the mean"
LENGTH = replace(COUNT, example="512")
_NEEDED_OF: Mapping[str, Mapping[str, str]] = {
    **{name: {"mean": _ABOVE, "deviation": _DEVIATION} for name in ("lognormal", "normal")},
    "uniform": {"low": _ABOVE, "high": _ABOVE},
    "empirical": {"values": "a list of numbers of {of}; or file, a file that holds them"},
}
"""Keys of each distribution; all others may have ``low`` and ``high`` too."""
_SAME = {"min": "low", "max": "high", "cv": "deviation", "file": "values"}
"""Other ways to state a key."""
SHORTEST_S = 1e-3
"""What is drawn of seconds below is cut there."""


def _keys(unit: Dimension) -> Keys:
    return {
        "distribution": Needed(choice(*_NEEDED_OF), ", ".join(_NEEDED_OF)),
        "deviation": quantity(unit, zero=True),
        "cv": quantity(COUNT, zero=True),
        **each(quantity(unit), "mean low high min max"),
        "values": anything,
        "file": text,
    }


def read_lengths(
    stated: object, key: str, complaints: Complaints, base: Path | str | None = None, unit: Dimension = LENGTH
) -> Lengths | None:
    """Return the lengths stated at a dotted ``key``, or None with every mistake noted; files are relative to ``base``.

    A list is an empirical distribution, and a number one of that length alone. ``unit``: tokens, or seconds.
    """
    if isinstance(stated, list | tuple):
        stated = {"distribution": "empirical", "values": stated}
    elif isinstance(stated, int | float) and not isinstance(stated, bool):
        stated = {"distribution": "uniform", "low": stated, "high": stated}
    elif isinstance(stated, Mapping) and unit is LENGTH:
        stated = {name: length_of(value) for name, value in stated.items()}
    before, last = len(complaints.problems), key.rpartition(".")[2]
    of = "seconds" if unit is not LENGTH else last if last in ("turns", "calls") else "tokens"
    checked = check(_keys(unit), stated, key, complaints)
    twice = [(one, other) for one, other in _SAME.items() if {one, other} <= checked.values.keys()]
    complaints.add(*(f"{key} has both {one} and {other}; allowed: one of them" for one, other in twice))
    settled = _settled(checked.values, key, complaints, Path(base or ""), of)
    if unit is not LENGTH and settled.get("distribution") != "uniform":
        settled.setdefault("low", SHORTEST_S)
    wrong = checked.wrong | {_SAME.get(k, k) for k in checked.wrong}
    _check_distribution(Checked(values=settled, wrong=wrong), key, complaints, of)
    return Lengths(**settled) if len(complaints.problems) == before else None


def _settled(values: Mapping[str, Any], key: str, complaints: Complaints, base: Path, of: str) -> dict[str, Any]:
    """The values under the names of the description."""
    settled = {name: value for name, value in values.items() if name not in _SAME}
    settled |= {ours: values[other] for other, ours in _SAME.items() if other in ("min", "max") and other in values}
    if "cv" in values:
        settled["deviation"] = values["cv"] * values.get("mean", 1.0)
    if "values" in values:
        settled["values"] = _values(values["values"], f"{key}.values", complaints, of)
    elif "file" in values:
        check_file(f"{key}.file", values["file"])
        found = _numbers(stated_path(base, values["file"]))
        settled["values"] = _values(found, f"{key}.file {values['file']}", complaints, of)
    return settled


def _check_distribution(checked: Checked, key: str, complaints: Complaints, of: str) -> None:
    """Note what a distribution ``of`` tokens or others lacks and what it has no use for."""
    values = checked.values
    if "distribution" in values:
        needed = {name: what.format(of=of) for name, what in _NEEDED_OF[values["distribution"]].items()}
        require(checked, needed, key, complaints)
        useless = [name for name in values if name not in {"distribution", *needed, "low", "high"}]
        has = f"distribution {values['distribution']}, which has {', '.join(needed)}"
        complaints.add(*(f"{key}.{name} does not apply to {has}" for name in useless))
    for name in ("low", "mean"):
        if values.get(name, 0.0) > values.get("high", inf):
            complaints.add(f"{key}.{name} is {values[name]:g}; allowed: up to {key}.high {values['high']:g}")


def _numbers(path: Path) -> list[Any] | str:
    """The numbers of a text file, separated by spaces, commas or lines; a sentence where it cannot be read."""
    try:
        words = path.read_text(encoding="utf-8-sig").replace(",", " ").replace("[", " ").replace("]", " ").split()
    except (OSError, UnicodeDecodeError) as error:
        return getattr(error, "strerror", None) or "not a text file"
    return [number_or_text(word) for word in words] or "contains no numbers"


def number_or_text(word: str) -> float | str:
    """Return a plain number as such, other text as it is."""
    try:
        return float(word)
    except ValueError:
        return word


def _values(stated: object, key: str, complaints: Complaints, of: str) -> tuple[float, ...]:
    least = 0 if of == "seconds" else 1
    listed = list(stated) if isinstance(stated, list | tuple) else []
    good = [v for v in listed if isinstance(v, int | float) and not isinstance(v, bool) and least <= v < inf]
    if not listed or len(good) < len(listed):
        wrong = next((v for v in listed if v not in good), stated)
        complaints.add(f"{key} has {show(wrong)}; allowed: a list of {of}, plain numbers of at least {least}")
    return tuple(float(v) for v in good)

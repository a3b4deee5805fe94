"""Kinds of values: functions that return a good value and refuse any other with half a sentence.

The sentence is such as "is 5; allowed: 0, 1, 2, 3"; who checks a mapping puts the key before it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any, TypeAlias
from unicodedata import category

from sightline.errors import InputError, nearest
from sightline.quantities import Dimension, parse_quantity, show

Kind: TypeAlias = Callable[[Any], Any]
"""Returns a good value as a description holds it; raises `InputError` with half a sentence for any other."""

LARGEST = 10**9
"""Largest whole number taken anywhere unless a key says otherwise; products of two still fit 64 bits."""
FRACTION = "a number from 0 to below 1"


def anything(value: Any) -> Any:
    """A value that is looked at elsewhere."""
    return value


def whole(low: int = 1, high: int = LARGEST) -> Kind:
    """A whole number from ``low`` to ``high``; ``1e3`` is one, ``true`` and ``"8"`` are not."""
    allowed = f"a whole number of {low} or more"

    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float) or value % 1 != 0:
            raise InputError(f"is {show(value)}; allowed: {allowed}{_hint(value)}")
        if value < low:
            raise InputError(f"is {show(value)}; allowed: {allowed}")
        if value > high:
            raise InputError(f"is {show(value)}; allowed: a whole number from {low} to {high}")
        return int(value)

    return check


_LENGTH = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kKmM])\s*(?:tokens)?\s*", re.ASCII)
_BINARY = {"k": 1024, "m": 1024**2}


def tokens(low: int = 1) -> Kind:
    """A number of tokens in a row, such as 4096 or ``4k``: a thousand tokens of a length are 1024, of 128k 131072."""
    plain = whole(low)

    def check(value: Any) -> Any:
        return plain(length_of(value))

    return check


def length_of(value: Any) -> Any:
    """Return the number that a length such as ``4k`` stands for; anything else as it is."""
    found = _LENGTH.fullmatch(value) if isinstance(value, str) else None
    return value if found is None else float(found[1]) * _BINARY[found[2].lower()]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words or numbers."""

    values: tuple[str | int, ...]

    def __call__(self, value: Any) -> str | int:
        """Return a value that is among them; refuse any other."""
        for candidate in self.values:
            if type(value) is type(candidate) and value == candidate:
                return candidate
        near = nearest(value, [v for v in self.values if isinstance(v, str)])
        raise InputError(f"is {show(value)}; allowed: {', '.join(map(str, self.values))}{near or _hint(value)}")


def choice(*values: str | int) -> Choice:
    """One of a few words or numbers."""
    return Choice(values)


def flag(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise InputError(f"is {show(value)}; allowed: true, false{_hint(value)}")
    return value


def text(value: Any) -> str:
    """Any text that is not empty; a plain number is taken as it is written, a date as ISO 8601 writes it."""
    if isinstance(value, date):
        return value.isoformat()[:10]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InputError(f"is {show(value)}; allowed: text{_hint(value)}")
    written = value if isinstance(value, str) else show(value)
    if not written.strip() or len(written) > 2000 or any(category(c) in {"Cc", "Cs"} for c in written.strip()):
        raise InputError(f"is {show(value)}; allowed: one line of text, up to 2000 characters")
    return written


def quantity(dimension: Dimension, *, zero: bool = False) -> Kind:
    """A quantity such as "2 TB/s" or a plain number in the base unit, as an SI float."""
    return lambda value: parse_quantity(value, dimension, zero=zero)


def is_fraction(value: object) -> bool:
    """Whether ``value`` is a number from 0 up to, but not including, 1."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1


def fraction(value: Any) -> float:
    """A number from 0 up to, but not including, 1."""
    if not is_fraction(value):
        raise InputError(f"is {show(value)}; allowed: {FRACTION}")
    return float(value)


_PERCENT = re.compile(r"\s*(\d+\.?\d*)\s*%\s*", re.ASCII)


def share(value: Any) -> float:
    """A share: 0.45, or "45 %"."""
    percent = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    found: Any = float(percent[1]) / 100 if percent else value
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= 1:
        raise InputError(f"is {show(value)}; allowed: a share from 0 to 1, as 0.45 or '45 %'")
    return float(found)


def name_or_mapping(value: Any) -> str | dict[str, Any]:
    """A catalog name or an inline mapping."""
    if isinstance(value, dict) or (isinstance(value, str) and value.strip()):
        return value
    raise InputError(f"is {show(value)}; allowed: a name of the catalog or a mapping")


def list_of(*values: str | int) -> Kind:
    """A list whose items are all one of ``values``; whole numbers of 0 or more when none are given."""
    allowed = f"a list of {', '.join(map(str, values))}" if values else "a list of whole numbers of 0 or more"

    def fits(item: Any) -> bool:
        if values:
            return any(type(item) is type(v) and item == v for v in values)
        return isinstance(item, int) and not isinstance(item, bool) and item >= 0

    def check(value: Any) -> tuple[str | int, ...]:
        if not isinstance(value, list | tuple) or not all(map(fits, value)):
            raise InputError(f"is {show(value)}; allowed: {allowed}")
        return tuple(value)

    return check


def _hint(value: Any) -> str:
    """What to say about a list where one value is needed, or a number in thousands."""
    if isinstance(value, str) and _LENGTH.fullmatch(value):
        return " (written out: k may be 1000 or 1024)"
    return " (several values: list them under 'sweep')" if isinstance(value, list) else ""

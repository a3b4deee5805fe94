"""The kinds of values a scenario's keys hold, as pydantic validators whose errors already are our half sentences.

A validator's error reads "is 5; allowed: 0, 1, 2, 3"; `sightline.loading.complaints` puts the dotted key before it.
"""

from collections.abc import Callable
from typing import Any
from unicodedata import category

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from sightline.errors import InputError, nearest
from sightline.quantities import Dimension, parse_quantity, show

REFUSED = "refused"
"""Type of the pydantic errors whose message is a half sentence of ours."""

LARGEST = 10**9
"""Largest whole number taken anywhere unless a key says otherwise; products of two still fit 64 bits."""


def refused(half_sentence: str) -> PydanticCustomError:
    """The error for a value that ``half_sentence`` ("is 5; allowed: ...") describes."""
    return PydanticCustomError(REFUSED, "{half_sentence}", {"half_sentence": half_sentence})


def _typed(check: Callable[[Any], Any]) -> BeforeValidator:
    """The validator of values that pass ``check``; null stands for an absent key."""
    return BeforeValidator(lambda value: None if value is None else check(value))


def whole(low: int = 1, high: int = LARGEST) -> BeforeValidator:
    """A whole number from ``low`` to ``high``; ``1e3`` is one, ``true`` and ``"8"`` are not."""
    allowed = f"a whole number of {low} or more"

    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float) or value % 1 != 0:
            raise refused(f"is {show(value)}; allowed: {allowed}{_hint(value)}")
        if value < low:
            raise refused(f"is {show(value)}; allowed: {allowed}")
        if value > high:
            raise refused(f"is {show(value)}; allowed: a whole number from {low} to {high}")
        return int(value)

    return _typed(check)


def choice(*values: str | int) -> BeforeValidator:
    """One of a few words or numbers."""
    allowed = ", ".join(str(v) for v in values)

    def check(value: Any) -> str | int:
        for candidate in values:
            if type(value) is type(candidate) and value == candidate:
                return candidate
        near = nearest(value, [v for v in values if isinstance(v, str)]) if isinstance(value, str) else ""
        raise refused(f"is {show(value)}; allowed: {allowed}{near or _hint(value)}")

    return _typed(check)


def flag() -> BeforeValidator:
    """True or false."""

    def check(value: Any) -> bool:
        if not isinstance(value, bool):
            raise refused(f"is {show(value)}; allowed: true, false")
        return value

    return _typed(check)


def text() -> BeforeValidator:
    """Any text that is not empty; a plain number is taken as it is written."""

    def check(value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise refused(f"is {show(value)}; allowed: text")
        written = value if isinstance(value, str) else show(value)
        if not written.strip() or len(written) > 2000 or any(category(c) in {"Cc", "Cs"} for c in written.strip()):
            raise refused(f"is {show(value)}; allowed: one line of text, up to 2000 characters")
        return written

    return _typed(check)


def quantity(dimension: Dimension, *, zero: bool = False) -> BeforeValidator:
    """A quantity such as "2 TB/s" or a plain number in the base unit, as an SI float."""

    def check(value: Any) -> float:
        try:
            return parse_quantity(value, dimension, zero=zero)
        except InputError as error:
            raise refused(str(error)) from None

    return _typed(check)


FRACTION = "a number from 0 to below 1"


def is_fraction(value: object) -> bool:
    """Whether ``value`` is a number from 0 up to, but not including, 1."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1


def fraction() -> BeforeValidator:
    """A number from 0 up to, but not including, 1."""

    def check(value: Any) -> float:
        if not is_fraction(value):
            raise refused(f"is {show(value)}; allowed: {FRACTION}")
        return float(value)

    return _typed(check)


def name_or_mapping() -> BeforeValidator:
    """A catalog name or an inline mapping."""

    def check(value: Any) -> str | dict[str, Any]:
        if isinstance(value, dict) or (isinstance(value, str) and value.strip()):
            return value
        raise refused(f"is {show(value)}; allowed: a name of the catalog or a mapping")

    return _typed(check)


def _hint(value: Any) -> str:
    """What to say about lists and ranges, which restrict a free field of `sightline plan`."""
    if isinstance(value, list):
        return " (several values: list them under 'sweep', or as {any: [...]} for `sightline plan`)"
    if isinstance(value, dict) and ("any" in value or "from" in value):
        return " ({any: ...} and {from: ..., to: ...} are for `sightline plan`; predict needs one value)"
    return ""

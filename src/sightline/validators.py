"""Kinds of values, and the keys of descriptions that they belong to.

A kind is a function that returns a good value and refuses any other with half a sentence, such as "is 5; allowed: 0, 1,
2, 3"; whoever checks a mapping puts the key before it. A field of a description states its kind in its annotation:

    tensor_parallel: Annotated[int, whole()] = 1
    startup_s: Annotated[float, Key(quantity(SECONDS), "startup", needs="seconds until a replica takes requests")]
    compile: bool = False    flags and literals need no kind

Reading, writing back, the JSON schema and the reference page of keys derive from that.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import date
from functools import cache
from typing import Any, Literal, TypeAlias, TypeVar, get_args, get_origin
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


@dataclass(frozen=True, slots=True)
class whole:  # noqa: N801 - called like the other kinds
    """A whole number from ``low`` to ``high``; ``1e3`` is one, ``true`` and ``"8"`` are not."""

    low: int = 1
    high: int = LARGEST

    def __call__(self, value: Any) -> int:
        """Return a whole number; refuse any other value."""
        if isinstance(value, bool) or not isinstance(value, int | float) or value % 1 != 0:
            raise InputError(f"is {show(value)}; allowed: a whole number of {self.low} or more{_hint(value)}")
        if value < self.low:
            raise InputError(f"is {show(value)}; allowed: a whole number of {self.low} or more")
        if value > self.high:
            raise InputError(f"is {show(value)}; allowed: a whole number from {self.low} to {self.high}")
        return int(value)


_LENGTH = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kKmM])\s*(?:tokens)?\s*", re.ASCII)
_BINARY = {"k": 1024, "m": 1024**2}


class tokens(whole):  # noqa: N801 - called like the other kinds
    """A number of tokens in a row, such as 4096 or ``4k``: a thousand tokens of a length are 1024, of 128k 131072."""

    def __call__(self, value: Any) -> int:
        """Return the number; refuse any other value."""
        return whole.__call__(self, length_of(value))


def length_of(value: Any) -> Any:
    """Return the number that a length such as ``4k`` stands for; anything else as it is."""
    found = _LENGTH.fullmatch(value) if isinstance(value, str) else None
    return value if found is None else float(found[1]) * _BINARY[found[2].lower()]


class choice:  # noqa: N801 - called like the other kinds
    """One of a few words or numbers."""

    def __init__(self, *values: str | int) -> None:
        """Allow these."""
        self.values = values

    def __call__(self, value: Any) -> Any:
        """Return a value that is among them; refuse any other."""
        for candidate in self.values:
            if type(value) is type(candidate) and value == candidate:
                return candidate
        near = nearest(value, [v for v in self.values if isinstance(v, str)])
        raise InputError(f"is {show(value)}; allowed: {', '.join(map(str, self.values))}{near or _hint(value)}")


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


@dataclass(frozen=True, slots=True, eq=False)
class quantity:  # noqa: N801 - called like the other kinds
    """A quantity such as "2 TB/s" or a plain number in the base unit, as an SI float."""

    dimension: Dimension
    zero: bool = False

    def __call__(self, value: Any) -> float:
        """Return the number in the base unit; refuse any other value."""
        return parse_quantity(value, self.dimension, zero=self.zero)


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


def percentage(value: Any) -> float:
    """A percentile above 0 and below 100."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 100:
        raise InputError(f"is {show(value)}; allowed: a number above 0 and below 100")
    return float(value)


def name_or_mapping(value: Any) -> str | dict[str, Any]:
    """A catalog name or an inline mapping."""
    if isinstance(value, dict) or (isinstance(value, str) and value.strip()):
        return value
    raise InputError(f"is {show(value)}; allowed: a name of the catalog or a mapping")


def texts(value: Any) -> tuple[str, ...]:
    """A list of texts, or one."""
    return tuple(text(item) for item in (value if isinstance(value, list | tuple) else [value]))


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


Keys: TypeAlias = Mapping[str, Kind]
"""The structure of a mapping: its keys, optional unless `Needed`, and the kind of value of each."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Needed:
    """The kind of a key that may not be left out."""

    kind: Kind
    what: str
    """What belongs there: "a whole number of 1 or more"."""

    def __call__(self, value: Any) -> Any:
        """Return a good value."""
        return self.kind(value)


@dataclass(frozen=True, slots=True, eq=False)
class Key:
    """How files state a field, in the field's annotation; a kind alone stands for the key of the field's name."""

    kind: Kind
    name: str = ""
    """The key; empty for the field's name."""
    needs: str = ""
    """What belongs there, of a key that may not be left out."""


def keys_of(description: Any) -> dict[str, Kind]:
    """Return the keys by which files state the fields of a description, with their kinds."""
    return {name: kind for name, (_, kind) in declared(description).items()}


def description_of(description: type[T], values: Mapping[str, Any], **others: Any) -> T:
    """Return the description that values by key state; ``others`` are fields that are no keys."""
    cls: Any = description
    by_key = declared(cls)
    made: T = cls(**{by_key[name][0]: value for name, value in values.items()}, **others)
    return made


def as_stated(description: Any) -> dict[str, Any]:
    """Return the values of a description by key, tuples as lists and descriptions within it by key too."""
    cls: Any = type(description)
    values = {name: getattr(description, field) for name, (field, _) in declared(cls).items()}
    return {name: value if type(value) in _PLAIN else _as_stated(value) for name, value in values.items()}


_PLAIN = frozenset((type(None), int, float, str, bool))


def unusual(description: Any) -> dict[str, Any]:
    """Return of `as_stated` what is needed or is not the default."""
    cls: Any = type(description)
    usual = {field.name: field.default for field in fields(description)}
    by_key = {name: (getattr(description, field), usual[field]) for name, (field, _) in declared(cls).items()}
    # Arrays are never the default, and have no one answer to whether they are.
    return {
        name: _as_stated(value)
        for name, (value, default) in by_key.items()
        if type(value) is not type(default) or value != default
    }


def _as_stated(value: Any) -> Any:
    if type(value) in _PLAIN:
        return value
    if isinstance(value, tuple):
        return [_as_stated(item) for item in value]
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return as_stated(value) if hasattr(type(value), "__dataclass_fields__") else value


@cache
def declared(description: Any) -> Mapping[str, tuple[str, Kind]]:
    """Return by key the field of a description that it states, and the kind of its values."""
    found = {}
    for field in fields(description):
        key = _key_of(field.type)
        if key is not None:
            found[key.name or field.name] = (field.name, Needed(key.kind, key.needs) if key.needs else key.kind)
    return found


def _key_of(annotation: Any) -> Key | None:
    """What an annotation says of its field's key; None where files do not state the field."""
    for told in getattr(annotation, "__metadata__", ()):
        return told if isinstance(told, Key) else Key(told)
    forms = (annotation,) if get_origin(annotation) is Literal else (annotation, *get_args(annotation))
    words = [word for form in forms if get_origin(form) is Literal for word in get_args(form)]
    return Key(choice(*words)) if words else Key(flag) if bool in forms else None

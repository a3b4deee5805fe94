"""A mapping held against its structure: kinds of values, and every mistake as a sentence.

A kind of value is a function that returns a good value and refuses any other with half a sentence, such as
"is 5; allowed: 0, 1, 2, 3". `check` puts the dotted key before it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, ParamSpec, TypeAlias, TypeVar
from unicodedata import category

from sightline.errors import InputError, nearest
from sightline.loading.input.dotted_keys import dotted
from sightline.loading.input.other_words import meant
from sightline.quantities import Dimension, parse_quantity, show

P = ParamSpec("P")
R = TypeVar("R")

Kind: TypeAlias = Callable[[Any], Any]
"""Returns a good value as a description holds it; raises `InputError` with half a sentence for any other."""
Keys: TypeAlias = Mapping[str, Kind]
"""The structure of a mapping: its keys, optional unless `Needed`, and the kind of value of each."""


@dataclass(frozen=True, slots=True, eq=False)
class Needed:
    """The kind of a key that may not be left out."""

    kind: Kind
    what: str
    """What belongs there: "a whole number of 1 or more"."""

    def __call__(self, value: Any) -> Any:
        """Return a good value."""
        return self.kind(value)


LARGEST = 10**9
"""Largest whole number taken anywhere unless a key says otherwise; products of two still fit 64 bits."""
FRACTION = "a number from 0 to below 1"


def each(kind: Kind, names: str) -> dict[str, Kind]:
    """Several keys with values of one kind, their names separated by spaces."""
    return dict.fromkeys(names.split(), kind)


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


def lengths_read(stated: object, values: Mapping[str, Any], part: str) -> tuple[str, ...]:
    """Return a remark on each length among a part's ``values`` that was ``stated`` in short: 4k is 4096."""
    written = stated.items() if isinstance(stated, Mapping) else ()
    short = ((key, text) for key, text in written if isinstance(text, str) and isinstance(length_of(text), float))
    return tuple(
        f"{dotted(part, key)} {text} is read as {values[key]:,} tokens: k is 1024 in lengths"
        for key, text in short
        if values.get(key) == length_of(text)
    )


def choice(*values: str | int) -> Kind:
    """One of a few words or numbers."""
    allowed = ", ".join(str(v) for v in values)

    def check(value: Any) -> str | int:
        for candidate in values:
            if type(value) is type(candidate) and value == candidate:
                return candidate
        near = nearest(value, [v for v in values if isinstance(v, str)])
        raise InputError(f"is {show(value)}; allowed: {allowed}{near or _hint(value)}")

    return check


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


@dataclass(slots=True, kw_only=True)
class Complaints:
    """The problems found so far, in order, each once."""

    problems: list[str] = field(default_factory=list)

    def add(self, *sentences: str) -> None:
        """Note sentences, those already noted left out."""
        self.problems.extend(s for s in dict.fromkeys(sentences) if s not in self.problems)

    def note(self, read: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R | None:
        """Return what a function reads, or None with the mistakes that it found noted."""
        try:
            return read(*args, **kwargs)
        except InputError as error:
            self.add(*error.problems)
            return None

    def raise_any(self) -> None:
        """Raise `InputError` when there are problems."""
        if self.problems:
            raise InputError(self.problems)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Checked:
    """A mapping's good values (absent and null keys left out), and the keys that were wrong."""

    values: dict[str, Any]
    wrong: frozenset[str] = frozenset()


def check(keys: Keys, mapping: object, key: str, complaints: Complaints, *, partial: bool = False) -> Checked:
    """Return the good values of the ``mapping`` at a dotted ``key``; note every mistake.

    A ``partial`` mapping may leave out what is needed.
    """
    if mapping is None:
        return Checked(values={})
    if not isinstance(mapping, Mapping):
        complaints.add(f"{key or 'the scenario'} is {show(mapping)}; allowed: a mapping of keys to values")
        return Checked(values={}, wrong=frozenset(keys))
    complaints.add(*(_unknown(key, k, keys) for k in mapping if k not in keys))
    values, wrong = {}, set()
    for name, kind in keys.items():
        if mapping.get(name) is None:
            continue
        try:
            values[name] = kind(mapping[name])
        except InputError as error:
            complaints.add(f"{dotted(key, name)} {error}")
            wrong.add(name)
    checked = Checked(values=values, wrong=frozenset(wrong))
    if not partial:
        require(checked, needs_of(keys), key, complaints)
    return checked


def needs_of(keys: Keys) -> dict[str, str]:
    """Return the keys that may not be left out, with what belongs there."""
    return {name: kind.what for name, kind in keys.items() if isinstance(kind, Needed)}


def require(checked: Checked, keys: Mapping[str, str], key: str, complaints: Complaints) -> None:
    """Note those of ``keys`` (key to what belongs there) that are absent."""
    absent = [k for k in keys if k not in checked.values and k not in checked.wrong]
    complaints.add(*(f"{dotted(key, k)} is missing; needed: {keys[k]}" for k in absent))


def words_of(
    value: object, key: str, known: tuple[str, ...], same: Mapping[str, str], complaints: Complaints
) -> tuple[str, ...]:
    """Return a word or a list of words, each once in our spelling; ``none`` and an empty list are no words."""
    listed = list(value) if isinstance(value, list | tuple | set | frozenset) else [value]
    found: list[str] = []
    for word in listed:
        ours = same.get(word, word) if isinstance(word, str) else word
        if ours in known and ours not in found:
            found.append(str(ours))
        elif ours not in known and not (word == "none" and len(listed) == 1):
            complaints.add(not_among(key, word, ("none", *known), (*known, *same)))
    return tuple(found)


def not_among(key: str, value: object, allowed: Sequence[str], spellings: Sequence[str] = ()) -> str:
    """Return the sentence for a value that is none of those ``allowed``, with the nearest of them or ``spellings``."""
    return f"{key} is {show(value)}; allowed: {', '.join(allowed)}{nearest(value, spellings or allowed)}"


def _unknown(key: str, name: object, known: Keys) -> str:
    near = meant(name, list(known))
    listed = f"; known keys{' of ' if key else ''}{key}: " + ", ".join(known)
    return f"{dotted(key, name)} is not a known key{near or listed}"

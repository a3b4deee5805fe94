"""A mapping held against its structure: the `kinds` of its values, and every mistake as a sentence.

A kind refuses a value with half a sentence, such as "is 5; allowed: 0, 1, 2, 3"; `check` puts the dotted key before it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeAlias, TypeVar

from sightline.errors import InputError, nearest
from sightline.kinds import Kind, length_of
from sightline.loading.input.dotted_keys import dotted
from sightline.loading.input.other_words import meant
from sightline.quantities import show

P = ParamSpec("P")
R = TypeVar("R")

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


def each(kind: Kind, names: str) -> dict[str, Kind]:
    """Several keys with values of one kind, their names separated by spaces."""
    return dict.fromkeys(names.split(), kind)


def lengths_read(stated: object, values: Mapping[str, Any], part: str) -> tuple[str, ...]:
    """Return a remark on each length among a part's ``values`` that was ``stated`` in short: 4k is 4096."""
    written = stated.items() if isinstance(stated, Mapping) else ()
    short = ((key, text) for key, text in written if isinstance(text, str) and isinstance(length_of(text), float))
    return tuple(
        f"{dotted(part, key)} {text} is read as {values[key]:,} tokens: k is 1024 in lengths"
        for key, text in short
        if values.get(key) == length_of(text)
    )


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

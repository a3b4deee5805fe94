"""A mapping held against its structure, and every mistake as a sentence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sightline.errors import InputError, nearest
from sightline.loading.input.dotted_keys import dotted
from sightline.loading.input.kinds import Keys, Needed
from sightline.quantities import show


@dataclass(slots=True, kw_only=True)
class Complaints:
    """The problems found so far, in order, each once."""

    problems: list[str] = field(default_factory=list)

    def add(self, *sentences: str) -> None:
        """Note sentences, those already noted left out."""
        self.problems.extend(s for s in dict.fromkeys(sentences) if s not in self.problems)

    def raise_any(self) -> None:
        """Raise `InputError` when there are problems."""
        if self.problems:
            raise InputError(self.problems)


@dataclass(frozen=True, slots=True, kw_only=True)
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
    """Return the sentence for a value that is none of those ``allowed``, with the nearest of them or of ``spellings``."""
    return f"{key} is {show(value)}; allowed: {', '.join(allowed)}{nearest(value, spellings or allowed)}"


def _unknown(key: str, name: object, known: Keys) -> str:
    near = nearest(name, list(known))
    listed = f"; known keys{' of ' if key else ''}{key}: " + ", ".join(known)
    return f"{dotted(key, name)} is not a known key{near or listed}"

"""The options of a command line by name, and which of them were understood."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sightline.errors import InputError

_WHOLE = re.compile(r"\+?[0-9]+(?:_[0-9]+)*")
"""Whole numbers as Python's own parsers of arguments take them."""


@dataclass(slots=True)
class Options:
    """Options by their name without dashes, ``_`` as ``-``, with the words that follow each."""

    values: Mapping[str, Sequence[str]]
    read: set[str] = field(default_factory=set)
    """Names that somebody asked for."""
    problems: list[str] = field(default_factory=list)
    """Sentences on values that mean nothing."""

    def has(self, name: str) -> bool:
        """Whether an option is there."""
        self.read.add(name)
        return name in self.values

    def text(self, name: str, default: str | None = None) -> str | None:
        """Return the first word of an option."""
        words = self.words(name)
        return words[0] if words else default

    def words(self, name: str) -> Sequence[str]:
        """Return all words of an option; none where it is not there."""
        return self.values[name] if self.has(name) else ()

    def number(self, name: str, default: int | None = None, *, least: int = 1, left_open: str = "") -> int | None:
        """Return an option as a whole number; the default where it is absent or a shell variable.

        Args:
            name: Of the option.
            default: What is taken where the option says nothing.
            least: The smallest number that is allowed.
            left_open: Pattern of words that leave the number to the program, for which None is returned.
        """
        text = self._stated(name)
        if text is None:
            return default
        if left_open and re.fullmatch(left_open, text):
            return None
        if _WHOLE.fullmatch(text) and int(text) >= least:
            return int(text)
        self.problems.append(f"--{name} is '{text}'; allowed: a whole number of {least} or more")
        return default

    def decimal(self, name: str) -> float | None:
        """Return an option as a number; None where it is absent or a shell variable."""
        text = self._stated(name)
        if text is None:
            return None
        try:
            return float(text)
        except ValueError:
            self.problems.append(f"--{name} is '{text}'; allowed: a number")
            return None

    def _stated(self, name: str) -> str | None:
        """The value of an option; None where it is absent, or only running the script would tell."""
        text = self.text(name)
        if text is None and self.has(name):
            self.problems.append(f"--{name} needs a value")
        return None if text is None or "$" in text else text

    def refuse(self) -> None:
        """Raise `InputError` with every mistake found."""
        if self.problems:
            raise InputError(list(dict.fromkeys(self.problems)))

    def unread(self) -> list[str]:
        """Return the options that nobody asked for."""
        return [name for name in self.values if name not in self.read]


def options_of(words: Sequence[str], flags: Sequence[str] = ()) -> Options:
    """Return the options of a command's words: ``--name value ...``, ``--name=value``, ``--flag``.

    ``flags`` are options that take no words.
    """
    return Options(dict(_pairs(words, {_named(flag) for flag in flags})))


def _pairs(words: Sequence[str], flags: set[str]) -> Iterator[tuple[str, list[str]]]:
    name, values = "", list[str]()
    for word in words:
        if word.startswith("--") and len(word) > len("--"):
            if name:
                yield name, values
            name, equals, value = word.partition("=")
            name, values = _named(name), [value] if equals else []
        elif name and name not in flags:
            values.append(word)
    if name:
        yield name, values


def _named(option: str) -> str:
    return option.lstrip("-").replace("_", "-")


def not_read(names: Sequence[str], what: str) -> list[str]:
    """Return the sentence on arguments that no key of a scenario stands for; none where there are no such."""
    return [f"no key of a scenario stands for {what} {', '.join(names)}"] if names else []


def without_none(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping without the keys whose value is None."""
    return {key: value for key, value in mapping.items() if value is not None}

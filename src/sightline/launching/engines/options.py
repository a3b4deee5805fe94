"""Options of a command line as an engine's own parser takes them, and what is read out of them."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sightline.errors import InputError, nearest

_NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)([kKmMgG]?)")
_FACTORS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
"""Of vLLM's and SGLang's ``8k`` and ``8K``."""


class Options:
    """The options of one command; reading one takes it, so that what is left had no meaning for anybody."""

    def __init__(self, words: Sequence[str], *, aliases: Mapping[str, str] = {}, flags: Collection[str] = ()) -> None:
        """Take the words behind the program.

        Args:
            words: Options and values, ``--name value``, ``--name=value`` or ``-n value``.
            aliases: Names of options by their other spellings, without dashes, words separated by ``-``.
            flags: Options that take no value.
        """
        self.values: dict[str, str | bool] = {}
        self.plain: list[str] = []
        """Words that belong to no option."""
        self.problems: list[str] = []
        self.unresolved: list[str] = []
        """Sentences: values that only running a script would tell."""
        self._aliases = aliases
        self._taken: set[str] = set()
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if not _is_option(word):
                self.plain.append(word)
                continue
            written, equals, given = word.partition("=")
            name = written.lstrip("-").replace("_", "-")
            name = aliases.get(name, name)
            value: str | bool = given if equals else True
            if name.startswith("no-") and not equals:
                name, value = aliases.get(name[3:], name[3:]), False
            elif not equals and name not in flags and rest and not _is_option(rest[0]):
                value = rest.pop(0)
            self._keep(name, value)

    def _keep(self, name: str, value: str | bool) -> None:
        if name in self.values and self.values[name] != value:
            self.problems.append(
                f"--{name} is given twice, as {_said(self.values[name])} and as {_said(value)}; it can have one value"
            )
        self.values.setdefault(name, value)

    def add(self, mapping: Mapping[str, Any], within: str = "", *, replace: bool = False) -> None:
        """Take the settings of a file as options: those in groups as ``group.name``."""
        for key, value in mapping.items():
            written = f"{within}{key}".replace("_", "-")
            name = self._aliases.get(written, written)
            if isinstance(value, Mapping):
                self.add(value, f"{name}.", replace=replace)
                continue
            given = value if isinstance(value, bool) else "null" if value is None else str(value)
            if name.startswith("no-") and isinstance(given, bool):
                name, given = self._aliases.get(name[3:], name[3:]), not given
            if replace:
                self.values.pop(name, None)
            self._keep(name, given)

    def text(self, name: str) -> str:
        """Return the value of an option; empty where it is not given."""
        self._taken.add(name)
        value = self.values.get(name)
        return value if isinstance(value, str) else ""

    def whole(self, name: str, *, least: int = 1) -> int | None:
        """Return the whole number of an option, which may be written as 8k or 8K; None where it says none."""
        text = self.text(name)
        if not text or "$" in text:
            self._unknown(name, text)
            return None
        found = _NUMBER.fullmatch(text)
        number = None if found is None else float(found[1]) * _FACTORS[found[2]]
        if number is None or number != int(number) or number < least:
            self.problems.append(f"--{name} is '{text}'; allowed: a whole number of {least} or more")
            return None
        return int(number)

    def share(self, name: str) -> float | None:
        """Return the number from 0 to 1 of an option."""
        text = self.text(name)
        if not text or "$" in text:
            self._unknown(name, text)
            return None
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not 0 < number <= 1:
            self.problems.append(f"--{name} is '{text}'; allowed: a number above 0, up to 1")
            return None
        return number

    def flag(self, name: str) -> bool | None:
        """Return whether a switch is on; None where it is not given."""
        self._taken.add(name)
        value = self.values.get(name)
        return value if isinstance(value, bool) or value is None else value.lower() in ("true", "1", "on", "yes")

    def word(self, name: str, known: Mapping[str, str]) -> str:
        """Return what a word stands for among the ``known`` ones; empty where none is given."""
        text = self.text(name)
        if not text or "$" in text:
            self._unknown(name, text)
            return ""
        if text in known:
            return known[text]
        self.problems.append(f"--{name} is '{text}'{nearest(text, tuple(known))}; known: {', '.join(known)}")
        return ""

    def mapping(self, name: str) -> Mapping[str, Any]:
        """Return the JSON object of an option; options such as ``--name.key value`` add to it."""
        text = self.text(name)
        found: Any = {}
        if "$" in text:
            self._unknown(name, text)
        elif text:
            try:
                found = json.loads(text)
            except json.JSONDecodeError as error:
                self.problems.append(f"--{name} is no JSON: {error.msg.lower()}")
        if not isinstance(found, Mapping):
            self.problems.append(f"--{name} is {text}; allowed: a JSON object")
            return {}
        dotted = {
            key: key.removeprefix(f"{name}.").replace("-", "_") for key in self.values if key.startswith(f"{name}.")
        }
        return {**found, **{short: _number(self.text(key)) for key, short in dotted.items()}}

    def left(self) -> list[str]:
        """Return the options that nobody asked for."""
        return [f"--{name}" if len(name) > 1 else f"-{name}" for name in self.values if name not in self._taken]

    def refuse(self) -> None:
        """Raise `InputError` with every mistake found."""
        if self.problems:
            raise InputError(list(dict.fromkeys(self.problems)))

    def _unknown(self, name: str, text: str) -> None:
        if text:
            self.unresolved.append(f"--{name} is {text}, which only running the script would tell")
        elif self.values.get(name) is True:
            self.problems.append(f"--{name} needs a value")


def _is_option(word: str) -> bool:
    """Whether a word begins an option; a negative number is a value."""
    return word.startswith("-") and len(word) > 1 and not word[1].isdigit()


def _number(text: str) -> Any:
    return int(text) if text.isdigit() else text


def _said(value: str | bool) -> str:
    return f"'{value}'" if isinstance(value, str) else "on" if value else "off"

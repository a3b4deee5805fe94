"""Read the options of a command by name as the parsers of frameworks take them, and check the values of a file."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

from sightline.errors import nearest, noted, refuse
from sightline.launching.shell import PERHAPS
from sightline.loading.checks import stated_at
from sightline.loading.sources import read_json
from sightline.quantities import show

_WHOLE: Final = re.compile(r"\+?[0-9]+(?:_[0-9]+)*", re.ASCII)
"""Whole numbers as Python's own parsers of arguments take them."""
_LONGEST: Final = 18
"""Characters of a number: whole ones of so many fit 64 bits."""
_WITH_UNIT: Final = re.compile(r"(-?\d+(?:\.\d+)?)([kKmMgG]?)", re.ASCII)
_FACTORS: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
"""Of vLLM's and SGLang's ``8k`` and ``8K``."""
_HOLDS_OPTIONS: Final = re.compile(r"\$\{?\w*(?:arg|opt|flag|param)\w*(?:\[[@*]\])?\}?", re.IGNORECASE)
"""A variable of the shell that is called after options."""
_SWITCH: Final = re.compile("(enable|disable|no)-")
_REPOSITORY: Final = re.compile(r"[\w.-]+/[\w.-]+$")
"""What stands behind a switch, but is none of its values."""
_ALIKE: Final = 0.85
"""How alike a name is that may be meant: of two misspelled letters or a missing one, not of another option."""


class Options:
    """The options of one command by name, without dashes and ``_`` as ``-``; what nobody asks for stays unread.

    A value that is a variable of the shell counts as left out, with a sentence in ``unknown``.
    """

    def __init__(
        self, words: Sequence[str], *, aliases: Mapping[str, str] = {}, flags: Collection[str] = (), units: bool = False
    ) -> None:
        """Take the words behind the program.

        Args:
            words: Options and values: ``--name value ...``, ``--name=value``, ``-n value``, ``--flag``, ``--no-flag``.
            aliases: Names of options by their other spellings.
            flags: Options that take no value.
            units: Whether numbers may be written as 8k or 8K.
        """
        self.model = ""
        """The catalog's name of the model that the command is about, where it is known."""
        self.format = ""
        """The format that its repository is called after, where it is."""
        self.plain: list[str] = []
        """Words that belong to no option, or stand behind the first one of an option."""
        self.problems: list[str] = []
        """Sentences on values that mean nothing."""
        self.unknown: dict[str, str] = {}
        """By option, a sentence on a value that only running the script would tell."""
        self.missing: dict[str, str] = {}
        """By key of a scenario, the sentence on the option that says it."""
        self.opened: list[str] = []
        """Sentences on options that were asked for and have such a value, since somebody cleared them."""
        self._values: dict[str, list[list[str]]] = {}
        self._aliases, self._units = aliases, units
        self._read: set[str] = set()
        self._objects: dict[str, Any] = {}
        """Options that were read as JSON objects."""
        name = ""
        for word in words:
            if _is_option(word):
                written, equals, value = re.sub(r"^-([A-Za-z])(?=\d+$)", r"-\1=", word).partition("=")
                name = self.named(written)
                self._values.setdefault(name, []).append([value] if equals else [])
                continue
            if _HOLDS_OPTIONS.fullmatch(word):
                self.unknown[word] = f"{word} is not set in the script: the options that it holds are not read"
                continue
            if not name or name in flags or (_SWITCH.match(name) and _REPOSITORY.match(word)):
                self.plain.append(word)
                continue
            taken = self._values[name][-1]
            self.plain += [word] if taken else []
            taken.append(word)

    def named(self, written: str) -> str:
        """Return the name under which an option is found, however it is written."""
        name = written.lstrip("-").replace("_", "-")
        if name.startswith("no-") and name[3:] in self._aliases:
            return f"no-{self._aliases[name[3:]]}"
        return self._aliases.get(name, name)

    def add(self, mapping: Mapping[str, Any], within: str = "", *, replace: bool = False) -> None:
        """Take the settings of a file as options: those in groups as ``group.name``."""
        for key, value in mapping.items():
            name = self.named(f"{within}{key}")
            if isinstance(value, Mapping):
                self.add(value, f"{name}.", replace=replace)
                continue
            if replace:
                self._values.pop(name, None)
            text = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
            self._values.setdefault(name, []).append([text])

    def names(self) -> tuple[str, ...]:
        """Return the names of all options."""
        return tuple(self._values)

    def has(self, name: str) -> bool:
        """Return whether an option is there."""
        self._read.add(name)
        for words in self._values.get(name, ()):
            if words and words[0].endswith(PERHAPS):
                self._is_open(name, words[0])
        return name in self._values

    def raw(self, name: str) -> list[str]:
        """Return the words of an option as they are written, unknown ones too."""
        return [word for words in self._all(name)[:1] for word in words]

    def words(self, name: str) -> Sequence[str]:
        """Return all words of an option as they are written; none where it is absent or unknown."""
        words = self._all(name)[:1]
        return () if not words or any(self._is_open(name, word) for word in words[0]) else words[0]

    def text(self, name: str, default: str = "") -> str:
        """Return the first word of an option; the default where it is absent or unknown."""
        return self._stated(name) or default

    def number(self, name: str, default: int | None = None, *, least: int = 1, left_open: str = "") -> int | None:
        """Return an option as a whole number; the default where it is absent or unknown.

        Args:
            name: Of the option.
            default: What is taken where the option says nothing.
            least: The smallest number that is allowed.
            left_open: Pattern of words that leave the number to the program, for which None is returned.
        """
        text = self._stated(name, needs_value=True)
        if text is None or (left_open and re.fullmatch(left_open, text)):
            return default if text is None else None
        number = self._whole(text)
        if number is not None and number >= least:
            return number
        self.problems.append(f"--{name} is {show(text)}; allowed: a whole number of {least} or more")
        return default

    def _whole(self, text: str) -> int | None:
        if len(text) > _LONGEST:
            return None
        if not self._units:
            return int(text) if _WHOLE.fullmatch(text) else None
        found = _WITH_UNIT.fullmatch(text)
        number = None if found is None else float(found[1]) * _FACTORS[found[2]]
        return int(number) if number is not None and number == int(number) else None

    def decimal(self, name: str) -> float | None:
        """Return an option as a number; None where it is absent or unknown."""
        text = self._stated(name, needs_value=True)
        if text is None:
            return None
        try:
            return float(text)
        except ValueError:
            self.problems.append(f"--{name} is {show(text)}; allowed: a number")
            return None

    def share(self, name: str) -> float | None:
        """Return the number from 0 to 1 of an option."""
        text = self._stated(name, needs_value=True)
        if text is None:
            return None
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not 0 < number <= 1:
            self.problems.append(f"--{name} is {show(text)}; allowed: a number above 0, up to 1")
            return None
        return number

    def flag(self, name: str) -> bool | None:
        """Return whether a switch is on; None where it is not given."""
        self.has(f"no-{name}")
        if any(self._is_open(name, word) for words in self._all(name) for word in words[:1]):
            return None
        stated = [not words or words[0].lower() in ("true", "1", "on", "yes") for words in self._all(name)]
        stated += [words[:1] == ["false"] for words in self._all(f"no-{name}")]
        if len(set(stated)) > 1:
            self._twice(name, *("on" if is_on else "off" for is_on in (stated[0], not stated[0])))
        return stated[0] if stated else None

    def word(self, name: str, known: Mapping[str, str]) -> str:
        """Return what a word stands for among the ``known`` ones; empty where none is given."""
        text = self._stated(name, needs_value=True)
        if text is None:
            return ""
        if text in known:
            return known[text]
        self.problems.append(f"--{name} is {show(text)}{nearest(text, tuple(known))}; known: {', '.join(known)}")
        return ""

    def mapping(self, name: str) -> Mapping[str, Any]:
        """Return the JSON object of an option; options such as ``--name.key value`` add to it."""
        text = self._stated(name)
        found: Any = {}
        if text:
            with noted(self.problems, f"--{name} is "):
                found = read_json(text)
        if not isinstance(found, Mapping):
            self.problems.append(f"--{name} is {show(text)}; allowed: a JSON object")
            return {}
        dotted = [key for key in self._values if key.startswith(f"{name}.")]
        for key in dotted:
            text = self.text(key)
            number = self._whole(text)
            found = {**found, key.removeprefix(f"{name}.").replace("-", "_"): text if number is None else number}
        self._objects |= {f"{name}.{key}": value for key, value in found.items()}
        return dict(found)

    def unread(self, but: Collection[str] = ()) -> dict[str, Any]:
        """Return the options that nobody asked for with their first words, and the keys inside of objects.

        Names are as they are written, without those in ``but``.
        """
        read = {*self._read, *but}
        words = {name: (*stated[0], True)[0] for name, stated in self._values.items() if name not in read}
        return {dashed(name): value for name, value in {**words, **self._objects}.items()}

    def read_names(self) -> list[str]:
        """Return the names that somebody asked for, whether they are there or not."""
        return sorted(self._read)

    def refuse(self) -> None:
        """Raise `InputError` with every mistake found."""
        refuse(self.problems)

    def _all(self, name: str) -> Sequence[Sequence[str]]:
        self._read.add(name)
        return self._values.get(name, ())

    def _stated(self, name: str, *, needs_value: bool = False) -> str | None:
        """The value of an option; None where it is absent, or only running the script would tell."""
        values = list(dict.fromkeys(words[0] for words in self._all(name) if words))
        if len(values) > 1:
            self._twice(name, *(f"'{value}'" for value in values[:2]))
        if not values:
            if needs_value and self.has(name):
                self.problems.append(f"--{name} needs a value")
            return None
        return None if self._is_open(name, values[0]) else values[0]

    def _is_open(self, name: str, text: str) -> bool:
        """Whether a value is the shell's, which is then said."""
        if is_open := "$" in text or "`" in text:
            said = f"--{name} is {text}, which only running the script would tell"
            self.opened.append(self.unknown.setdefault(name, said))
        return is_open

    def _twice(self, name: str, one: str, other: str) -> None:
        self.problems.append(f"--{name} is given twice, as {one} and as {other}; it can have one value")


def _is_option(word: str) -> bool:
    """Whether a word begins an option; a negative number is a value."""
    return word.startswith("-") and word.strip("-") != "" and not word[1].isdigit()


def dashed(name: str) -> str:
    """Return an option as it is written."""
    if name.isupper() and len(name) > 1:
        # A variable of the environment.
        return name.replace("-", "_")
    return f"--{name}" if len(name) > 1 else f"-{name}"


def plain(words: Any) -> Any:
    """Return an option's value as JSON would have it: a flag is true."""
    if not words:
        return True
    word = words[0]
    return int(word) if word.removeprefix("-").isdecimal() else {"true": True, "false": False}.get(word.lower(), word)


def not_read(names: Sequence[str], known: Collection[str], of: str = "", effects: Mapping[str, str] = {}) -> list[str]:
    """Return the sentence on options or keys that no key of a scenario stands for; none where there are no such.

    Args:
        names: As they are written.
        known: Names that are read, one of which may be meant.
        of: Whose options they are, such as "Megatron-LM's".
        effects: What names change, where that is known.
    """
    if not names:
        return []
    hints = {name: effects.get(name) or _meant(name, known) for name in names}
    listed = ", ".join(f"{name} ({hint})" if hint else name for name, hint in hints.items())
    return [f"no scenario key corresponds to {of + ' ' if of else ''}{listed}"]


def _meant(name: str, known: Collection[str]) -> str:
    """What a name may be a misspelling of."""
    found = get_close_matches(name, known, n=1, cutoff=_ALIKE)
    return f"did you mean {found[0]}?" if found and found[0] != name else ""


def without_none(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping without the keys whose value is None."""
    return {key: value for key, value in mapping.items() if value is not None}


AUTO: Final = ("auto",)
"""Leaves a value to whoever starts the framework."""


def refuse_values(
    stated: Mapping[str, Any],
    *,
    numbers: Mapping[str, int],
    choices: Mapping[str, Collection[Any]] | None = None,
    sections: Collection[str] = (),
    left_open: Collection[str] = (),
) -> None:
    """Refuse what is no value of its key. A key that is absent or null has none.

    Args:
        stated: The file.
        numbers: Dotted keys of whole numbers, and the smallest that is allowed.
        choices: Dotted keys, and the values that are allowed.
        sections: Keys that hold keys of their own.
        left_open: Words that a number or a choice may be instead.

    Raises:
        InputError: a sentence for every such value.
    """
    flat = [key for key in sections if not isinstance(stated.get(key) or {}, Mapping)]
    problems = [f"{key} is {show(stated[key])}; allowed: a mapping of its settings" for key in flat]
    problems += [*_no_numbers(stated, numbers, left_open), *_no_choices(stated, choices or {}, left_open)]
    refuse(problems)


def _no_numbers(stated: Mapping[str, Any], numbers: Mapping[str, int], left_open: Collection[str]) -> Iterator[str]:
    also = "".join(f", or {word}" for word in left_open)
    for key, least in numbers.items():
        value = stated_at(stated, key)
        if value is None or (isinstance(value, str) and value in left_open):
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            yield f"{key} is {show(value)}; allowed: a whole number of {least} or more{also}"


def _no_choices(
    stated: Mapping[str, Any], choices: Mapping[str, Collection[Any]], left_open: Collection[str]
) -> Iterator[str]:
    for key, allowed in choices.items():
        value, every = stated_at(stated, key), [*allowed, *left_open]
        # True is 1 for Python, but no stage.
        if value is not None and not any(type(value) is type(one) and value == one for one in every):
            said = ", ".join(one if isinstance(one, str) else show(one) for one in every)
            yield f"{key} is {show(value)}; allowed: {said}{nearest(str(value), [str(one) for one in every])}"

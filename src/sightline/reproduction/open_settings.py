"""Settings that a source leaves open: each is declared once, with its choices, and shared by findings."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

_Value = TypeVar("_Value")

ChoiceBySetting = Mapping[str, str]
"""The name of what is chosen of each open setting, by the setting's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Generic[_Value]):
    """What is chosen of an open setting."""

    setting: str
    name: str
    value: _Value
    """What it means for a scenario."""


@dataclass(frozen=True, kw_only=True)
class OpenSetting(Generic[_Value]):
    """A setting that a source leaves open."""

    name: str
    choices: Mapping[str, _Value]
    """What each means for a scenario, by its name; the likeliest first."""

    def __iter__(self) -> Iterator[Choice[_Value]]:
        return (Choice(setting=self.name, name=name, value=value) for name, value in self.choices.items())

    @property
    def first(self) -> Choice[_Value]:
        """The likeliest choice."""
        return next(iter(self))


def taken(*choices: Choice[Any]) -> ChoiceBySetting:
    """Return what an interpretation takes of open settings."""
    return {one.setting: one.name for one in choices}

"""A finding of a source, and what becomes of it: the number that it is judged by, in each interpretation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, isnan

from sightline.reproduction.open_settings import ChoiceBySetting


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A finding of a source, and what counts as reproduced: a number of ours within a range."""

    id: str
    """Its group's letter and its number: ``A3``."""
    finding: str
    expected: str | float
    """What the source says, in its words or figures."""
    criterion: str
    """The range in words, with what is measured by it."""
    low: float | None
    high: float | None
    is_strict: bool = False
    """The ends themselves do not count: an ordering is a ratio above 1."""
    interpreted_as: str = ""
    """The finding whose judged interpretation is also this one's: both are stated of the same settings."""
    explained: str = ""
    """Why ours is another, where it is: physics, or a setting that the source does not state."""

    @property
    def group(self) -> str:
        """The letter of the source's findings."""
        return self.id[0]

    @property
    def number(self) -> int:
        """The number among them."""
        return int(self.id[1:])

    def holds(self, ours: float | None) -> bool:
        """Return whether a number is in the range; none is not."""
        if ours is None or isnan(ours):
            return False
        return self._margin(ours) > 0 if self.is_strict else self._margin(ours) >= 0

    def worst(self, values: Sequence[float | None]) -> float | None:
        """Return the number that judges all of them: the farthest outside of the range, or the nearest to its edge.

        None where one of them cannot be had.
        """
        known = [value for value in values if value is not None and not isnan(value)]
        return min(known, key=self._margin) if known and len(known) == len(values) else None

    def _margin(self, value: float) -> float:
        """How far inside of the range a number is; negative outside."""
        above = inf if self.low is None else value - self.low
        below = inf if self.high is None else self.high - value
        return min(above, below)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpretation:
    """A finding's numbers in one interpretation of what its source leaves open."""

    values: Sequence[float | None]
    """What the finding is about, such as a ratio of each card; None where it cannot be had: a plan does not fit."""
    sentence: str
    """The figures behind it."""
    choices: ChoiceBySetting = field(default_factory=dict)
    """What it takes of the settings that the source leaves open; empty where none concerns the finding."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a finding."""

    finding: Finding
    interpretations: Sequence[Interpretation]
    """The likeliest first; one that holds suffices."""
    given: ChoiceBySetting = field(default_factory=dict)
    """What another finding has chosen for this one too."""

    @cached_property
    def judged(self) -> Interpretation:
        """The interpretation that is judged: of those with the given choices the first that holds, else the first."""
        allowed = [
            one
            for one in self.interpretations
            if all(one.choices.get(setting, name) == name for setting, name in self.given.items())
        ]
        return next((one for one in allowed if self.holds(one)), allowed[0])

    @cached_property
    def settings(self) -> Mapping[str, Sequence[str]]:
        """The open settings that concern the finding, each with the choices that are predicted."""
        found: dict[str, list[str]] = {}
        for setting, choice in (taken for one in self.interpretations for taken in one.choices.items()):
            if choice not in found.setdefault(setting, []):
                found[setting].append(choice)
        return found

    def words_of(self, one: Interpretation) -> str:
        """Return what tells an interpretation from the others in words; empty where there are none."""
        return "; ".join(name for setting, name in one.choices.items() if len(self.settings[setting]) > 1)

    @property
    def ours(self) -> float | None:
        """The number that is judged."""
        return self.ours_of(self.judged)

    @property
    def reproduced(self) -> bool:
        """Whether an interpretation meets the criterion."""
        return self.holds(self.judged)

    def ours_of(self, one: Interpretation) -> float | None:
        """Return the number that is judged in an interpretation; None where it has none."""
        return self.finding.worst(one.values)

    def holds(self, one: Interpretation) -> bool:
        """Return whether an interpretation meets the criterion."""
        return self.finding.holds(self.ours_of(one))

    @property
    def holding(self) -> int:
        """In how many interpretations the finding is reproduced."""
        return sum(map(self.holds, self.interpretations))

    @property
    def reproduced_likeliest(self) -> bool:
        """Whether the likeliest interpretation meets the criterion."""
        return self.holds(self.interpretations[0])

    @property
    def reproduced_always(self) -> bool:
        """Whether every interpretation meets the criterion."""
        return self.holding == len(self.interpretations)

    def holds_with(self, choices: ChoiceBySetting) -> bool:
        """Return whether the finding holds with these choices; one that is not predicted with them does not."""
        return any(self.holds(one) and one.choices.items() <= choices.items() for one in self.interpretations)

    @property
    def reason(self) -> str:
        """The figures that decide; where they do not meet the criterion, also why."""
        why = "" if self.reproduced else self.finding.explained
        return f"{self.judged.sentence} {why}".strip()

"""What reproducing a source answers: each finding with the number it is judged by, and the source's tables."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import product
from math import inf, isnan
from statistics import fmean
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from sightline.exploration.study_answer import Column, Figure, StudyAnswer, columns_of
from sightline.profile.results import stamped
from sightline.quantities import as_json

if TYPE_CHECKING:
    import polars

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


def judged(statements: Mapping[str, bool], sentence: str, choices: ChoiceBySetting | None = None) -> Interpretation:
    """Return an interpretation by the share of its statements that hold; after the figures those that do not are named.

    Args:
        statements: Whether each holds, by what it says.
        sentence: The figures behind them.
        choices: As `Interpretation` has it.
    """
    failed = [said for said, holds in statements.items() if not holds]
    named = f" Not so: {'; '.join(failed)}." if failed else ""
    return Interpretation(values=[fmean(statements.values())], sentence=f"{sentence}{named}", choices=choices or {})


def best_choices(outcomes: Sequence[Outcome]) -> ChoiceBySetting:
    """Return the choice of every open setting with which most findings are reproduced.

    Of equal ones it is the first. Settings that no finding has in common are independent, so that each group of the
    others is searched by itself.
    """
    choices: dict[str, str] = {}
    for settings, concerned in _independent(outcomes):
        candidates: list[ChoiceBySetting] = [
            dict(zip(settings, names, strict=True)) for names in product(*settings.values())
        ]
        best = max(candidates, key=partial(_reproduced, concerned))
        choices.update(best)
    return {setting: choices[setting] for outcome in outcomes for setting in outcome.settings}


def _reproduced(outcomes: Sequence[Outcome], choices: ChoiceBySetting) -> int:
    """How many findings hold with these choices."""
    return sum(outcome.holds_with(choices) for outcome in outcomes)


def _independent(outcomes: Sequence[Outcome]) -> Iterator[tuple[Mapping[str, list[str]], list[Outcome]]]:
    """Groups of settings that findings have in common, with their choices, and the findings of each."""
    left = [outcome for outcome in outcomes if outcome.settings]
    while left:
        names, concerned = set(left[0].settings), [left.pop(0)]
        while joined := [outcome for outcome in left if names & set(outcome.settings)]:
            left = [outcome for outcome in left if not names & set(outcome.settings)]
            names.update(*(outcome.settings for outcome in joined))
            concerned += joined
        yield _choices_of(concerned), concerned


def _choices_of(outcomes: Sequence[Outcome]) -> Mapping[str, list[str]]:
    """The choices of each setting that are predicted, in their order."""
    found: dict[str, list[str]] = {}
    for outcome in outcomes:
        for setting, names in outcome.settings.items():
            found[setting] = list(dict.fromkeys([*found.get(setting, ()), *names]))
    return found


Status = Literal["predicted only", "published", "measured", "not measured"]
"""Of a table: whether published or measured figures stand beside the predicted ones, or none could be measured here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproducedTable:
    """A table or figure of a source."""

    id: str
    """The source's number, or a short name where ours stands for several."""
    answer: StudyAnswer
    """Its columns, what they mean, and its pictures."""
    status: Status = "predicted only"

    @property
    def table(self) -> "polars.DataFrame":
        """The table as a data frame."""
        return self.answer.table


def table(
    id: str,
    title: str,
    rows: Iterable[Mapping[str, Any]],
    *,
    about: Mapping[str, Column],
    figures: Sequence[Figure] = (),
    reading: Sequence[str] = (),
    assumptions: Sequence[str] = (),
    status: Status = "predicted only",
) -> ReproducedTable:
    """Return a table of rows; ``about`` says what its columns mean, in their order."""
    columns = columns_of(rows)
    return ReproducedTable(
        id=id,
        status=status,
        answer=StudyAnswer(
            study=id,
            title=title,
            axes={},
            columns={key: columns[key] for key in (*about, *columns) if key in columns},
            about=about,
            figures=figures,
            reading=reading,
            assumptions=assumptions,
        ),
    )


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """A source reproduced."""

    source: str
    """Its name, as the command takes it."""
    title: str
    cited: str
    """Where it is to be found."""
    outcomes: Sequence[Outcome]
    tables: Sequence[ReproducedTable] = ()
    assumptions: Sequence[str] = ()
    """What was assumed of settings that the source does not state, and what a small run leaves out."""
    is_part: bool = False
    """Whether findings were named: others may hold with other choices."""
    warnings: Sequence[str] = ()

    @cached_property
    def summary(self) -> Mapping[str, Mapping[str, int]]:
        """How many findings of each group there are, and how many are reproduced.

        In some interpretation, in the ``likeliest`` and in ``every`` one.
        """
        groups: dict[str, list[Outcome]] = {}
        for one in self.outcomes:
            groups.setdefault(one.finding.group, []).append(one)
        return {
            group: {
                "of": len(outcomes),
                "reproduced": sum(one.reproduced for one in outcomes),
                "likeliest": sum(one.reproduced_likeliest for one in outcomes),
                "every": sum(one.reproduced_always for one in outcomes),
            }
            for group, outcomes in groups.items()
        }

    @cached_property
    def choices(self) -> ChoiceBySetting:
        """The one choice of every open setting with which most findings are reproduced."""
        return best_choices(self.outcomes)

    @cached_property
    def together(self) -> Sequence[str]:
        """Ids of the findings that are reproduced with these choices."""
        return [one.finding.id for one in self.outcomes if one.holds_with(self.choices)]

    @property
    def lost(self) -> Sequence[str]:
        """Ids of the findings that are reproduced one by one alone, with other choices than these."""
        return [one.finding.id for one in self.outcomes if one.reproduced and one.finding.id not in self.together]

    @property
    def table(self) -> "polars.DataFrame":
        """The findings as a data frame, a row for each."""
        import polars

        return polars.DataFrame(
            {
                "id": [one.finding.id for one in self.outcomes],
                "finding": [one.finding.finding for one in self.outcomes],
                "expected": [str(one.finding.expected) for one in self.outcomes],
                "low": [one.finding.low for one in self.outcomes],
                "high": [one.finding.high for one in self.outcomes],
                "ours": [one.ours for one in self.outcomes],
                "reproduced": [one.reproduced for one in self.outcomes],
                "interpretations": [len(one.interpretations) for one in self.outcomes],
                "interpretations_that_hold": [one.holding for one in self.outcomes],
                "reason": [one.reason for one in self.outcomes],
            },
            strict=False,
        )

    def __repr__(self) -> str:
        counts = (f"{group} {count['reproduced']} of {count['of']}" for group, count in self.summary.items())
        return f"<{self.source} reproduced: {', '.join([*counts, f'{len(self.tables)} tables'])}>"


def reproduction_to_dict(answer: Reproduction) -> dict[str, Any]:
    """Return the documented keys of a source's reproduction."""
    return stamped(
        {
            "source": answer.source,
            "title": answer.title,
            "cited": answer.cited,
            "findings": [_finding(one, answer) for one in answer.outcomes],
            "summary": as_json(answer.summary),
            "together": {
                "of": len(answer.outcomes),
                "reproduced": len(answer.together),
                "lost": list(answer.lost),
                "choices": dict(answer.choices),
            },
            "tables": [_table(one) for one in answer.tables],
            "assumptions": list(answer.assumptions),
            "warnings": list(answer.warnings),
        }
    )


def _finding(outcome: Outcome, answer: Reproduction) -> dict[str, Any]:
    finding, judged = outcome.finding, outcome.judged
    found: dict[str, Any] = as_json(
        {
            "id": finding.id,
            "finding": finding.finding,
            "source": answer.source,
            "criterion": finding.criterion,
            "low": finding.low,
            "high": finding.high,
            "interpretation": outcome.words_of(judged),
            "expected": finding.expected,
            "ours": outcome.ours,
            "reproduced": outcome.reproduced,
            "reproduced_together": finding.id in answer.together,
            "reason": outcome.reason,
            "interpretations": [
                {
                    "interpretation": outcome.words_of(one),
                    "choices": dict(one.choices),
                    "values": list(one.values),
                    "ours": outcome.ours_of(one),
                    "reproduced": outcome.holds(one),
                    "sentence": one.sentence,
                }
                for one in outcome.interpretations
            ],
        }
    )
    return found


def _table(one: ReproducedTable) -> dict[str, Any]:
    return {
        "id": one.id,
        "title": one.answer.title,
        "status": one.status,
        "columns": list(one.answer.columns),
        "rows": [as_json(row) for row in one.answer.rows],
        "reading": list(one.answer.reading),
        "assumptions": list(one.answer.assumptions),
    }

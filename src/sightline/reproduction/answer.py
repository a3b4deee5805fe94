"""What reproducing a source answers: each finding with the number it is judged by, and the source's tables."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from sightline.exploration.answer import Column, Figure, StudyAnswer, columns_of
from sightline.reproduction.open_settings import ChoiceBySetting
from sightline.reproduction.outcome import Outcome
from sightline.reproduction.together import best_choices

if TYPE_CHECKING:
    import polars

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

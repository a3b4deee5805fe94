"""The Markdown of each kind of answer; it says what the pages say, shorter."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sightline.explanation.answer import Advice
from sightline.profile import Profile
from sightline.report import labels, summary, units
from sightline.report.explained.markdown import advice_text
from sightline.report.markdown.outline import outline_markdown
from sightline.report.measured import measured_sentences
from sightline.report.outline import Outline, Rows
from sightline.report.pages.profile import scenario_yaml, short_answer
from sightline.report.swept import told_apart

if TYPE_CHECKING:
    from sightline.explanation.comparison import Comparison
    from sightline.exploration.answer import StudyAnswer
    from sightline.planning.answer import PlanAnswer
    from sightline.validation import Result

_WIDEST = 7
"""Columns of a table; more does not fit next to a diff."""


def profiles_markdown(
    profiles: Sequence[Profile],
    cells: Sequence[Mapping[str, Any]] = (),
    *,
    command: str = "",
    changes: Sequence[Advice] = (),
) -> str:
    """Return one profile, or several with a line each.

    Args:
        profiles: Predicted or measured, of any tasks.
        cells: Of each its values of the keys that were swept, as they were typed.
        command: What asked for them.
        changes: What would help the only one most, best first.
    """
    if len(profiles) == 1:
        blocks = [*map(advice_text, changes)]
        return outline_markdown(_profile(profiles[0], changes), blocks=blocks, command=command)
    warnings = [warning for one in profiles for warning in (*one.scenario.warnings, *one.warnings)]
    return outline_markdown(
        Outline(
            title=labels.common_title([one.scenario for one in profiles]),
            parts=list(_compared(profiles, cells)),
            warnings=list(dict.fromkeys(warnings))[:5],
        ),
        command=command,
    )


def _profile(profile: Profile, changes: Sequence[Advice]) -> Outline:
    phases = [(p.label, units.seconds(p.value), units.percent(p.share)) for p in _phases(profile)]
    memory = [(p.label, units.gib(p.value), units.percent(p.share)) for p in _memory(profile)]
    return Outline(
        title=labels.title(profile.scenario),
        said=list(short_answer(profile, changes)),
        sentences=[*summary.interval_sentences(profile), *measured_sentences(profile)],
        parts=[
            Rows(title="", headings=("time by phase", "", "share"), rows=phases),
            Rows(title="Memory of the fullest device", headings=("part", "", "share"), rows=memory, is_folded=True),
        ],
        warnings=(*profile.scenario.warnings, *profile.warnings),
        scenario=scenario_yaml(profile.scenario),
    )


def _phases(profile: Profile) -> list[summary.Part]:
    return summary.phases(profile) if profile.phases and profile.whole_s else []


def _memory(profile: Profile) -> list[summary.Part]:
    return summary.memory(profile) if profile.memory_bytes else []


def _compared(profiles: Sequence[Profile], cells: Sequence[Mapping[str, Any]]) -> Iterator[Rows]:
    """A table for each task; of a sweep its keys and the figures that matter most."""
    for task in dict.fromkeys(profile.task for profile in profiles):
        own = [i for i, profile in enumerate(profiles) if profile.task is task]
        chosen = [profiles[i] for i in own]
        told = told_apart(chosen, [cells[i] for i in own] if cells else ())
        # Whether a plan fits must not be what has no room.
        figures = sorted(summary.compared(chosen), key=lambda column: column.key != "fits")
        columns: list[Any] = [*told, *figures[: max(_WIDEST - len(told), 4)]]
        rows = list(zip(*(column.cells for column in columns), strict=True))
        yield Rows(title="", headings=[column.heading for column in columns], rows=rows, most=50)


def plan_markdown(answer: "PlanAnswer", *, command: str = "") -> str:
    """Return the best plans of a search, and why they are."""
    from sightline.report.pages.plans import short_answer as best
    from sightline.report.pages.plans import table_of
    from sightline.report.plans import sentences

    headings, rows = table_of(answer)
    compared = sentences.compared_by(answer)
    reasons = (("Alternatives", sentences.neighbours(answer)), ("Better hardware", sentences.hardware(answer)))
    return outline_markdown(
        Outline(
            title=sentences.title(answer),
            said=list(best(answer)),
            sentences=[sentences.searched(answer), *sentences.standing(answer)],
            parts=[
                Rows(title="", headings=headings[: _WIDEST + 3], rows=[row[: _WIDEST + 3] for row in rows]),
                *(Rows(title=t, headings=("instead", compared, ""), rows=r, is_folded=True) for t, r in reasons),
            ],
            warnings=answer.warnings,
            scenario=scenario_yaml(answer.plans[0].profile.scenario) if answer.plans else "",
        ),
        command=command,
    )


def study_markdown(answer: "StudyAnswer", *, command: str = "") -> str:
    """Return what a study found, and the first rows of its table."""
    from sightline.report.studies.table import columns_of

    columns = columns_of(answer, 20)[:_WIDEST] if len(answer) else []
    rows = list(zip(*(column.cells for column in columns), strict=True))
    return outline_markdown(
        Outline(
            title=answer.title,
            sentences=answer.reading,
            parts=[Rows(title="", headings=[column.heading for column in columns], rows=rows)],
            assumptions=answer.assumptions,
            warnings=answer.warnings,
        ),
        command=command,
    )


def comparison_markdown(comparison: "Comparison", *, command: str = "") -> str:
    """Return both sides, the verdict, and the rows level by level."""
    from sightline.explanation.compared import LEVELS
    from sightline.report import comparison as words
    from sightline.report.pages.comparison import COLUMNS, rows_of, title_of
    from sightline.report.pages.comparison import short_answer as sides

    return outline_markdown(
        Outline(
            title=title_of(comparison),
            said=list(sides(comparison)),
            sentences=[*filter(None, (comparison.about, comparison.requests)), words.footnote(comparison)],
            parts=[
                Rows(
                    title=words.LEVEL_TITLES[level].capitalize(),
                    headings=COLUMNS,
                    rows=rows_of(comparison, level),
                    is_folded=level not in ("step", "phase"),
                )
                for level in LEVELS
            ],
            warnings=comparison.warnings,
        ),
        command=command,
    )


def validation_markdown(results: "Sequence[Result]", *, command: str = "") -> str:
    """Return the errors of each suite."""
    from sightline.report.pages.validation import COLUMNS, FOOTNOTE, TITLE, rows_of
    from sightline.report.pages.validation import short_answer as errors

    return outline_markdown(
        Outline(
            title=TITLE,
            said=list(errors(results)),
            parts=[Rows(title="", headings=COLUMNS, rows=rows_of(results), most=100)],
            sentences=[FOOTNOTE],
        ),
        command=command,
    )

"""An explanation as Markdown for a pull request: the short answer, the changes that help, limits and phases."""

from sightline.explanation.answer import Advice, Explanation
from sightline.report import units
from sightline.report.explained.answer import change, modules, percent_of, phases, short_answer
from sightline.report.explained.page import LIMIT_COLUMNS, limit_rows
from sightline.report.markdown.outline import outline_markdown
from sightline.report.markdown.text import escaped, fenced
from sightline.report.outline import Outline, Rows
from sightline.report.summary import Part


def explained_markdown(explanation: Explanation, *, command: str = "") -> str:
    """Return the text; ``command`` is what asked for it."""
    return outline_markdown(
        Outline(
            title=explanation.title,
            said=[*short_answer(explanation), change(explanation)],
            sentences=explanation.sentences,
            parts=[
                Rows(title="", headings=LIMIT_COLUMNS, rows=limit_rows(explanation)),
                Rows(title="Time by phase", headings=_HEADINGS, rows=_rows(phases(explanation)), is_folded=True),
                Rows(title="Time by module", headings=_HEADINGS, rows=_rows(modules(explanation, 20)), is_folded=True),
            ],
            warnings=explanation.warnings,
        ),
        blocks=[*map(advice_text, explanation.advice)],
        command=command,
    )


def advice_text(one: Advice) -> str:
    """Return one change as Markdown: what it brings, why, and what to type."""
    command = f"\n{fenced(one.command, 'bash')}\n" if one.command else ""
    return f"**{percent_of(one)}**: {escaped(one.sentence)}\n{command}"


_HEADINGS = ("part", "time", "share")


def _rows(found: list[Part]) -> list[tuple[str, str, str]]:
    return [(part.label, units.seconds(part.value), units.percent(part.share)) for part in found]
